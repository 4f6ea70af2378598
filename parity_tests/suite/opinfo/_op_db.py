"""OpInfos of the two native operators: the dtypes and inputs that they take or refuse, and their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.testing import make_tensor

import torch_impl
from parity_tests.suite.opinfo._machinery import (
    ErrorInput,
    Op,
    OpInfo,
    SampleInput,
    floating_and_complex_types_and,
)

DTYPES = floating_and_complex_types_and(torch.bfloat16, torch.float16)

SIZES = {  # n, d, m, e; unequal wherever they can be, so that a transposed or swapped axis cannot pass
    "all_axes_differ": (3, 2, 4, 5),
    "all_axes_differ_otherwise": (4, 5, 2, 3),
    "all_axes_equal": (3, 3, 3, 3),  # here no wrong transpose is an error of shapes
    "one_query": (1, 3, 2, 4),
    "one_feature": (3, 1, 2, 4),
    "one_key": (3, 2, 1, 4),
    "one_column_of_v": (3, 2, 4, 1),
    "one_of_all": (1, 1, 1, 1),
    "no_query": (0, 2, 3, 4),
    "no_feature": (2, 0, 3, 4),
    "no_key": (2, 3, 0, 4),
    "no_column_of_v": (2, 3, 4, 0),
}


def _make(device: str, dtype: torch.dtype, *shape: int) -> Tensor:
    # Small: tanh saturates, and a complex one has poles at ±iπ/2.
    return make_tensor(shape, device=device, dtype=dtype, low=-0.5, high=0.5)


def _sample(requires_grad: bool, name: str, q: Tensor, k: Tensor, v: Tensor) -> SampleInput:
    q, k, v = (x.requires_grad_(requires_grad) for x in (q, k, v))
    return SampleInput(q, args=(k, v), name=name)


def sample_inputs(
    op_info: OpInfo, device: str, dtype: torch.dtype, requires_grad: bool, **_: Any
) -> Iterator[SampleInput]:
    """Every size, and every memory layout of one size that forward mode and finite differences can write to."""
    make, sample = partial(_make, device, dtype), partial(_sample, requires_grad)
    for name, (n, d, m, e) in SIZES.items():
        yield sample(name, make(n, d), make(m, d), make(m, e))
    n, d, m, e = SIZES["all_axes_differ"]
    yield sample("transposed", make(d, n).mT, make(d, m).mT, make(e, m).mT)
    yield sample("every_other_column", make(n, 2 * d)[:, ::2], make(m, 2 * d)[:, 1::2], make(m, 2 * e)[:, ::2])
    yield sample("every_other_row", make(2 * n, d)[1::2], make(2 * m, d)[::2], make(2 * m, e)[1::2])


def reference_inputs(
    op_info: OpInfo, device: str, dtype: torch.dtype, requires_grad: bool, **_: Any
) -> Iterator[SampleInput]:
    """Further those whose elements share memory."""
    yield from sample_inputs(op_info, device, dtype, requires_grad)
    make, sample = partial(_make, device, dtype), partial(_sample, requires_grad)
    n, d, m, e = SIZES["all_axes_differ"]
    yield sample("expanded", make(1, d).expand(n, d), make(m, 1).expand(m, d), make(1, 1).expand(m, e))


def error_inputs(op_info: OpInfo, device: str, **_: Any) -> Iterator[ErrorInput]:
    """Wrong axes and dtypes of each argument, with the whole text of the error."""

    def zeros(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    q, k, v = zeros(3, 2), zeros(4, 2), zeros(4, 5)

    def error(kind: type[Exception], text: str, q: Tensor = q, k: Tensor = k, v: Tensor = v) -> ErrorInput:
        return ErrorInput(SampleInput(q, args=(k, v)), error_type=kind, error_regex=f"^{re.escape(text)}$")

    axes = "attn: {} must have 2 axes ({}), got {}; map over batch axes with vmap"
    yield error(ValueError, axes.format("q", "n, d", "3 (shape (7, 3, 2))"), q=zeros(7, 3, 2))
    yield error(ValueError, axes.format("k", "m, d", "0 (shape ())"), k=zeros())
    yield error(ValueError, axes.format("v", "m, e", "1 (shape (4,))"), v=zeros(4))

    axis = "attn: axis {} is {} ({} has shape {}, {} has shape {}); make them equal"
    yield error(ValueError, axis.format("d", "2 in q but 3 in k", "q", (3, 2), "k", (4, 3)), k=zeros(4, 3))
    yield error(ValueError, axis.format("d", "1 in q but 2 in k", "q", (3, 1), "k", (4, 2)), q=zeros(3, 1))
    yield error(ValueError, axis.format("m", "4 in k but 3 in v", "k", (4, 2), "v", (3, 5)), v=zeros(3, 5))
    yield error(ValueError, axis.format("m", "4 in k but 1 in v", "k", (4, 2), "v", (1, 5)), v=zeros(1, 5))

    dtype = "attn: {} has dtype {}; convert it to one of float64, float32, bfloat16, float16, complex128, complex64"
    for name in "qkv":
        wrong = {name: {"q": q, "k": k, "v": v}[name].to(torch.int64)}
        yield error(TypeError, f"{dtype.format(name, 'int64')} before calling", **wrong)

    mixed = "attn: q, k and v must share one dtype, got {}; convert them to a common dtype before calling"
    yield error(TypeError, mixed.format("float64, float32 and float64"), k=k.float())
    yield error(TypeError, mixed.format("float64, float64 and complex128"), v=v.to(torch.complex128))


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values, in double precision."""
    q, k, v = (x.astype(np.result_type(x, np.float64)) for x in (q, k, v))
    attn = np.tanh(q @ k.T)
    return attn @ v, attn


def op_info(name: str, op: Op, **changes: Any) -> OpInfo:
    """What holds for attn, however it is implemented."""
    claims = {
        "ref": reference,
        "dtypes": DTYPES,
        "dtypesIfCUDA": DTYPES,
        "backward_dtypes": DTYPES,
        "backward_dtypesIfCUDA": DTYPES,
        "sample_inputs_func": sample_inputs,
        "reference_inputs_func": reference_inputs,
        "error_inputs_func": error_inputs,
        "supports_out": False,  # no out= overload is declared: a custom operator with derivatives has no use for one
        "supports_autograd": True,
        "supports_gradgrad": True,
        "supports_forward_ad": True,
        "supports_fwgrad_bwgrad": True,
        "check_batched_grad": True,
        "check_batched_gradgrad": True,
        "check_batched_forward_grad": True,
        "gradcheck_fast_mode": False,  # the inputs are small: every entry of the Jacobians is compared
        "gradcheck_nondet_tol": 0.0,
    }
    return OpInfo(name, op=op, **(claims | changes))


def _native(name: str) -> Op:
    """The operator; touching it compiles it, which has to wait until a test runs."""

    def op(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return getattr(torch_impl, name)(*args, **kwargs)

    return op


def overload(op: OpInfo) -> torch._ops.OpOverload:
    """The operator itself, which the tests otherwise see by what it does."""
    namespace, name = op.aten_name.split("::")
    return getattr(getattr(torch.ops, namespace), name).default


IMPLICIT = op_info("gradparity.attn_implicit", _native("attn_native_implicit"), aten_name="gradparity::attn_implicit")
EXPLICIT = op_info("gradparity.attn", _native("attn_native"), aten_name="gradparity::attn")
OPS = [IMPLICIT, EXPLICIT]
