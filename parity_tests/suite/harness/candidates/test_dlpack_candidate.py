"""Candidates that take and return arrays by DLPack: formulas in C++ by TVM FFI, and in JAX."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gradparity import DLPackCandidate, OpSpec, Verdict, crosscheck

SPEC = OpSpec("tanh_product", primal=lambda x, w: jnp.tanh(x * w), signature="(n),(n)->(n)")
CHECKS = ["forward", "vjp", "jvp", "adjoint", "vjp_partial", "purity", "determinism"]
SOURCE = """
#include <cmath>
#include <tvm/ffi/container/tensor.h>
using tvm::ffi::TensorView;
const double* in(TensorView x) { return static_cast<const double*>(x.data_ptr()); }
double* out(TensorView x) { return static_cast<double*>(x.data_ptr()); }

void forward(TensorView x, TensorView w, TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) out(y)[i] = std::tanh(in(x)[i] * in(w)[i]);
}

void backward(TensorView x, TensorView w, TensorView y_bar, TensorView x_bar, TensorView w_bar) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    double y = std::tanh(in(x)[i] * in(w)[i]), slope = in(y_bar)[i] * (1 - y * y);
    out(x_bar)[i] = slope * in(w)[i];
    out(w_bar)[i] = slope * in(FACTOR)[i];
  }
}
"""


def compiled(factor: str) -> ModuleType:
    """The functions in C++; `factor`: of the gradient of w, which is x where it is right."""
    cpp = pytest.importorskip("tvm_ffi.cpp", reason="needs TVM FFI: pip install apache-tvm-ffi")
    source = SOURCE.replace("FACTOR", factor)
    return cpp.load_inline(f"gradparity_{factor}", cpp_sources=source, functions=["forward", "backward"])


def by_tvm_ffi(module: ModuleType) -> DLPackCandidate:
    """Its functions write their results, as those of TVM FFI do."""

    def forward(x, w):
        y = torch.empty_like(x)
        module.forward(x, w, y)
        return y

    def vjp(x, w, y_bar):
        x_bar, w_bar = torch.empty_like(x), torch.empty_like(w)
        module.backward(x, w, y_bar, x_bar, w_bar)
        return x_bar, w_bar

    return DLPackCandidate(forward, vjp, name="by_tvm_ffi")


@pytest.mark.slow  # it is installed for the slow tests only
@pytest.mark.parametrize(("factor", "verdict"), [("x", Verdict.PASS), ("w", Verdict.MISMATCH)])
def test_functions_of_tvm_ffi_are_judged(factor: str, verdict: Verdict):
    report = crosscheck(by_tvm_ffi(compiled(factor)), SPEC, checks=CHECKS, dtypes=["float64"])
    found = {row.check: row.verdict for row in report.rows if row.candidate == "by_tvm_ffi"}
    assert (found["forward"], found["vjp"], found["jvp"]) == (Verdict.PASS, verdict, Verdict.UNSUPPORTED)
    if verdict is Verdict.MISMATCH:
        (failure,) = [row.failure for row in report.rows if row.check == "vjp" and row.failure is not None]
        assert [wrong.label for wrong in failure.wrong] == ["w_bar"]


def jax_formulas() -> tuple[Callable, Callable, Callable]:
    def f(x, w):
        return jnp.tanh(x * w)

    in_float64 = jax.enable_x64(True)  # of the thread

    @in_float64
    def forward(*arrays):
        return f(*map(jnp.from_dlpack, arrays))

    @in_float64
    def vjp(x, w, y_bar):
        return jax.vjp(f, *map(jnp.from_dlpack, (x, w)))[1](jnp.from_dlpack(y_bar))

    @in_float64
    def jvp(*arrays):
        x, w, x_dot, w_dot = map(jnp.from_dlpack, arrays)
        return jax.jvp(f, (x, w), (x_dot, w_dot))[1]

    return forward, vjp, jvp


def test_functions_of_jax_are_judged_in_each_format():
    candidate = DLPackCandidate(*jax_formulas(), name="by_jax")
    checks = ["forward", "vjp", "jvp", "purity"]
    report = crosscheck(candidate, SPEC, checks=checks, dtypes=["float64", "bfloat16"], quick=True)
    assert report.passed, str(report)
    judged = {(row.check, row.dtype) for row in report.rows if row.verdict is Verdict.PASS}
    assert {("jvp", "bfloat16"), ("purity", "float64"), ("vjp", "bfloat16")} <= judged


def _writes(x, w):
    w *= 2
    return torch.tanh(x * w / 2)


def _list(x, w):
    return torch.tanh(x * w).tolist()


def _numpy(x, w):
    return np.tanh(np.multiply(*map(np.from_dlpack, (x, w))))


def _lazily(x):
    """x, as a view of -x whose sign PyTorch puts off."""
    return torch.complex(torch.zeros_like(x), -x).conj().imag


def _negated(x, w):
    return _lazily(-torch.tanh(x * w))


def _put_off(x, w):
    return _lazily(torch.tanh(x * w))


def _recorded(x, w):
    return torch.tanh(x.requires_grad_() * w)


class _NotHandedOver:
    def __dlpack__(self, **_):
        raise BufferError("it is in use")

    def __dlpack_device__(self):
        return 1, 0


def _in_use(x, w):
    return _NotHandedOver()


@pytest.mark.parametrize(
    ("forward", "told"),
    [
        (_negated, "output = -oracle (the sign)"),
        (_put_off, ""),
        (_recorded, ""),
        (_in_use, "returned a _NotHandedOver that DLPack does not hand over: it is in use"),
        (_writes, "w  (after the forward)  was written to"),
        (_list, "returned float where an array with __dlpack__, or a tuple of them, is expected"),
        (_numpy, ""),
    ],
)
def test_what_a_forward_returns_and_writes(forward: Callable, told: str):
    def vjp(x, w, y_bar):
        slope = y_bar * (1 - torch.tanh(x * w) ** 2)
        return slope * w, slope * x

    candidate = DLPackCandidate(forward, vjp, name="mine")
    report = crosscheck(candidate, SPEC, checks=["forward", "vjp", "purity"], dtypes=["float64"])
    assert report.passed is (told == "")
    assert told in str(report)


def test_a_formula_must_be_a_function():
    with pytest.raises(TypeError, match=r"DLPackCandidate: vjp must be a function of arrays, got int"):
        DLPackCandidate(torch.tanh, 3)  # type: ignore[arg-type]
