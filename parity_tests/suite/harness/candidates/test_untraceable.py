"""Where PyTorch's tracer gives up, or PyTorch lacks something, a candidate is not to blame; elsewhere it is."""

from __future__ import annotations

import ctypes
from pathlib import Path

import jax.numpy as jnp
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from parity_tests import OpSpec, Verdict
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_refusals import Refused, refusal_of, refusals
from parity_tests.suite.harness._ops import SQUARE, Square, judged, normal


class MappedSquare(Square):
    generate_vmap_rule = True


class CallsItsParent(MappedSquare):
    """Right, but Dynamo asserts that what a backward is called with is its own stand-in for ctx."""

    @staticmethod
    def backward(ctx, *cotangents):
        return MappedSquare.backward(ctx, *cotangents)


class WrongAndCallsItsParent(MappedSquare):
    @staticmethod
    def backward(ctx, *cotangents):
        return MappedSquare.backward(ctx, *cotangents) / 2


class OfAnotherShape(MappedSquare):
    @staticmethod
    def backward(ctx, *cotangents):
        (x,) = ctx.saved_tensors
        return (2 * x * cotangents[0]).sum(0)


class WithAWrongVmapRule(MappedSquare):
    """Returns no out_dims, which torch.func notices, in torch/_functorch."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        return x * x


@pytest.mark.skipif(torch.__version__ >= "2.14", reason="PyTorch compiles such a backward")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Dynamo's own
def test_a_backward_that_calls_its_parents_cannot_be_compiled_by_anybody():
    with pytest.raises(AssertionError) as refused:
        torch.compile(lambda x: CallsItsParent.apply(x), backend="eager")(torch.ones(3, requires_grad=True))
    row = judged(CallsItsParent.apply, SQUARE, "compile")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason.startswith("PyTorch's tracer gives up (torch/_dynamo/"), row.reason
    assert row.reason.endswith(f"AssertionError: {str(refused.value).splitlines()[0]}")  # empty in PyTorch 2.11


def test_a_backward_that_calls_its_parents_is_judged_where_it_can_be():
    assert judged(CallsItsParent.apply, SQUARE, "vjp").verdict is Verdict.PASS
    assert judged(WrongAndCallsItsParent.apply, SQUARE, "vjp").verdict is Verdict.MISMATCH


def _raises_if_compiled(x):
    return x @ torch.ones(5, dtype=x.dtype) if torch.compiler.is_compiling() else x * x


def _raises_if_traced(x):
    return x.sum("no such axis") if isinstance(x, FakeTensor) else x * x  # type: ignore[call-overload]


def _asserts_if_traced(x):
    assert not isinstance(x, FakeTensor), "not for fake tensors"
    return x * x


@pytest.mark.parametrize(
    ("call", "check"),
    [
        pytest.param(OfAnotherShape.apply, "compile", id="a gradient of another shape, compiled"),
        pytest.param(OfAnotherShape.apply, "make_fx", id="a gradient of another shape, traced"),
        pytest.param(OfAnotherShape.apply, "vmap", id="a gradient of another shape, in torch.func"),
        pytest.param(WithAWrongVmapRule.apply, "vmap", id="a vmap rule without out_dims"),
        pytest.param(_raises_if_compiled, "compile", id="a product that does not fit, compiled"),
        pytest.param(_raises_if_traced, "make_fx", id="a call of C++ from a frame of the tracer"),
        pytest.param(_asserts_if_traced, "make_fx", id="an assertion of its own"),
    ],
)
def test_an_error_of_the_candidates_is_not_the_tracers(call, check):
    row = judged(call, SQUARE, check)
    assert row.verdict is Verdict.MISMATCH, row.reason


# What PyTorch lacks, by kind.

GLU = OpSpec("glu", lambda x: x[..., :2] / (1 + jnp.exp(-x[..., 2:])), inputs=(normal(3, 4),))
IGAMMA = OpSpec("igamma", lambda a, x: jnp.exp(-a) * x, inputs=(normal(3) ** 2, normal(3, seed=1) ** 2))


def _igamma(a, x):
    """Another function than the oracle, whose derivatives are not looked at: PyTorch has none for `a`."""
    return torch.igamma(a, x)


def test_a_derivative_that_pytorch_lacks_is_known_by_its_namespace():
    row = judged(functional.glu, GLU, "vjp_of_jvp")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason == "RuntimeError: derivative for aten::glu_jvp is not implemented"
    row = judged(_igamma, IGAMMA, "vjp")  # which nothing excuses: whoever calls it by a constant `a` says so
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, False)
    assert "the derivative for 'igamma: input' is not implemented" in row.reason
    assert judged(_igamma, IGAMMA, "forward").verdict is Verdict.MISMATCH


def test_a_wrong_function_of_it_is_still_seen():
    assert judged(lambda x: functional.glu(x) * 2, GLU, "vjp").verdict is Verdict.MISMATCH


LIBRARY = torch.library.Library("gradparity_untraceable", "DEF")
LIBRARY.define("square(Tensor x) -> Tensor")
LIBRARY.impl("square", lambda x: x * x, "CPU")


def test_a_derivative_that_the_author_lacks_is_no_limit_of_pytorchs():
    error = NotImplementedError("derivative for gradparity_untraceable::square is not implemented")
    refusal = refusal_of(error)
    assert refusal is not None
    assert refusal.reason is Reason.OWN
    known = refusal_of(NotImplementedError("derivative for aten::any_name.out is not implemented"))
    assert known is not None
    assert known.reason is Reason.NO_DERIVATIVE


@pytest.mark.parametrize("check", ["fake", "make_fx"])
def test_a_kernel_without_a_fake_one(check):
    """An operator that has a kernel for the CPU only; on the device meta PyTorch says it in other words."""
    row = judged(torch.ops.gradparity_untraceable.square, SQUARE, check)
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason == "has no fake kernel (torch.library.register_fake)"
    x = torch.ones(3, device="meta")
    with pytest.raises(Refused, match="has no fake kernel"), refusals():
        torch.ops.gradparity_untraceable.square(x)


def test_a_fake_kernel_that_pytorch_lacks():
    error = NotImplementedError("aten::new: attempted to run this operator with Meta tensors, but there ...")
    refusal = refusal_of(error)
    assert refusal is not None
    assert refusal.reason is Reason.NO_META_KERNEL
    assert "aten::new" in str(refusal)


@pytest.mark.parametrize(
    "words",
    [
        "Batching rule not implemented for aten::any_name; the fallback path doesn't work on out= or view ops",
        "vmap: We do not yet support calling random operations inside of vmap.",
        "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask)",
    ],
)
def test_a_batching_rule_that_was_never_written(words):
    refusal = refusal_of(RuntimeError(words))
    assert refusal is not None
    assert refusal.reason is Reason.NO_BATCHING_RULE


# C++ code that PyTorch does not dispatch.

NOT_ALLOCATED = "The tensor has a non-zero number of elements, but its data is not allocated yet.\nIf you're using ..."


def _raised_in_c(words):
    """Raise a RuntimeError as code in C or C++ does, which has no frame of Python's."""
    ctypes.pythonapi.PyErr_SetString(ctypes.py_object(RuntimeError), words.encode())


def _bound_by_pybind(x):
    """Reads the memory of its input, of which a tensor without values has none."""
    if isinstance(x, FakeTensor) or x.is_meta:
        _raised_in_c(NOT_ALLOCATED)
    return x * x


def _in_the_same_words(x):
    """Raises them itself, where it has no values."""
    if isinstance(x, FakeTensor) or x.is_meta:
        raise RuntimeError(NOT_ALLOCATED)
    return x * x


def _reads_what_it_freed(x):
    _raised_in_c(NOT_ALLOCATED)


@pytest.mark.parametrize("check", ["fake", "make_fx"])
def test_memory_of_tensors_without_values(check):
    row = judged(_bound_by_pybind, SQUARE, check)
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert "its data is not allocated yet" in row.reason
    assert judged(_bound_by_pybind, SQUARE, "forward").verdict is Verdict.PASS
    freed = judged(_reads_what_it_freed, SQUARE, "forward")
    assert freed.verdict is Verdict.MISMATCH
    assert judged(_in_the_same_words, SQUARE, check).verdict is Verdict.MISMATCH


_SOURCE = """
#include <ATen/core/Tensor.h>
#include <torch/csrc/utils/pybind.h>
at::Tensor square(const at::Tensor& x) {
  const auto* entries = x.data_ptr<double>();
  auto y = x.clone();
  auto* squares = y.data_ptr<double>();
  for (int64_t i = 0; i < y.numel(); ++i) squares[i] = entries[i] * entries[i];
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("square", &square); }
"""


@pytest.mark.slow
def test_the_words_are_pytorchs(tmp_path: Path):
    from torch.utils.cpp_extension import load_inline

    module = load_inline(
        "gradparity_square", _SOURCE, build_directory=str(tmp_path), extra_cflags=["-O0"], no_implicit_headers=True
    )

    class Bound(MappedSquare):
        @staticmethod
        def forward(x):
            return module.square(x)

    assert judged(Bound.apply, SQUARE, "vjp").verdict is Verdict.PASS
    for check in ("fake", "make_fx", "vmap"):
        row = judged(Bound.apply, SQUARE, check)
        assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True), row.reason
    freed = torch.ones(3, dtype=torch.float64)
    freed.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="its data is not allocated yet"):
        Candidate(module.square, "reads what was freed").forward([freed])


@pytest.mark.parametrize(
    ("file", "message", "refused"),
    [
        ("/x/triton/runtime/interpreter.py", 'a tensor on device "meta" has no storage', True),
        ("/x/triton/runtime/interpreter.py", "the shapes do not match", False),  # of the kernel, whatever the values
        ("/x/kernel.py", 'a tensor on device "meta" has no storage', False),
    ],
    ids=["of fake tensors", "of the kernel", "without the interpreter"],
)
def test_a_kernel_in_tritons_interpreter_has_no_fake_tensors(file, message, refused):
    namespace: dict = {}
    exec(compile("def launch(message): raise RuntimeError(message)", file, "exec"), namespace)
    with pytest.raises(RuntimeError) as caught:
        namespace["launch"](message)
    refusal = refusal_of(caught.value)
    assert (refusal is not None and refusal.reason is Reason.WITHOUT_VALUES) == refused


class Tagged(torch.Tensor):
    """A tensor with a name of its own."""


def test_what_asks_for_a_value_has_no_vmap():
    def call(x):
        return x * x if torch.allclose(x, x) else x

    row = judged(call, SQUARE, "vmap")
    assert (row.verdict, row.limit_of) == (Verdict.UNSUPPORTED, "PyTorch")
    assert "vmap over torch.allclose isn't supported yet" in row.reason


def test_a_subclass_of_tensors_has_no_fake_tensors():
    row = judged(lambda x: MappedSquare.apply(x.as_subclass(Tagged)).as_subclass(torch.Tensor), SQUARE, "fake")
    assert (row.verdict, row.limit_of) == (Verdict.UNSUPPORTED, "PyTorch")
    wrong = judged(lambda x: OfAnotherShape.apply(x), SQUARE, "fake")
    assert wrong.verdict is Verdict.MISMATCH
