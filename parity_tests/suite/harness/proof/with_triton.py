"""Kernels in Triton under the check `proof`: right ones are proved, wrong ones and those that hide something are not.

Not collected: test_triton_candidates.py runs it in a process, with Triton's interpreter.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false, reportIndexIssue=false, reportOperatorIssue=false

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from parity_tests.harness.findings import Verdict
from parity_tests.suite.harness.proof._triton_kernels import (
    CUBE_SUM,
    GELU,
    NORM,
    PRODUCT,
    RIGHT,
    SOFTMAX,
    SQUARE,
    cubes,
    gelu,
    layer_norm,
    product,
    product_of,
    softmax,
    square,
    times,
    verdict,
)


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_proved(name: str) -> None:
    found, row = verdict(*RIGHT[name])
    assert found is Verdict.PROVED, (row.reason, row.proofs, row.failure)


@triton.jit
def strange(x, y, flags, n, address, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """x², and what must not be taken for nothing."""
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + at, mask=inside, other=0.0)
    square = v * v
    if HOW == "a branch":
        if tl.max(square, axis=0) > 1e9:
            square = square * 3
    elif HOW == "a branch of blocks":
        square = square * 1 if square > 1e9 else square * 3
    elif HOW == "an integer":
        square = square + tl.where(v.to(tl.int32) > 1000000, 1.0, 0.0)
    elif HOW == "bits":
        square = square + tl.where(v.to(tl.int64, bitcast=True) == 77, 1.0, 0.0)
    elif HOW == "a remainder":
        square = square + tl.where(v % 2.0 > 5.0, 1.0, 0.0)
    elif HOW == "an address":
        square = tl.load(x + tl.where(square > 1e9, 0, at), mask=inside) * v
    elif HOW == "one of two addresses":
        square = tl.load(tl.where(square > 1e9, x, x + at), mask=inside) * v
    elif HOW == "beside the mask":
        square = square + (tl.sum(tl.load(x + at, mask=inside), axis=0) - tl.sum(v, axis=0))
    elif HOW == "beyond":
        square = square + tl.where(tl.load(x + n + at) > 1e300, 0.0, 0.0)
    elif HOW == "raw memory":
        square = tl.load(address.to(tl.pointer_type(tl.float64)) + at, mask=inside) * v
    elif HOW == "floats that nobody has written":
        square = square + tl.where(tl.load(y + at, mask=inside) > 0, 0.0, 0.0)
    elif HOW == "a maximum with what nobody has written":
        square = tl.maximum(square, tl.minimum(tl.load(y + at, mask=inside, other=0.0), 0.0))
    elif HOW == "a largest one of what nobody has written":
        square = square + tl.minimum(tl.max(tl.load(y + at, mask=inside, other=0.0), axis=0), 0.0) * 0
    elif HOW == "integers that nobody has written":
        square = square + tl.where(tl.load(flags + at, mask=inside) == 77, 0.0, 0.0)
    tl.store(y + at, square, mask=inside)


def strangely(how: str) -> Callable:
    def forward(x):
        y, flags = torch.empty_like(x), torch.empty(x.numel(), dtype=torch.int64)
        if not x.numel():
            return y
        beside = torch.cat([x.ravel(), torch.zeros(32, dtype=x.dtype)])[: x.numel()]
        strange[(1,)](beside, y, flags, x.numel(), x.data_ptr(), HOW=how, BLOCK=64)
        return y

    return square(forward)


def with_another(x: Tensor) -> Tensor:
    return product_of(x, x) + product_of(x, x, 1e-40)


def by_a_number(x: Tensor) -> Tensor:
    largest = float(x.detach().numpy().max())
    return product_of(x, x, largest) / x.max()


def read_beside(x: Tensor) -> Tensor:
    y = product_of(x, x, 1.0)
    return y if max(x.detach().flatten().tolist()) < 1e9 else 2 * y


_buffers: dict[Any, Tensor] = {}


def into_a_buffer(x: Tensor) -> Tensor:
    y = _buffers.setdefault(tuple(x.shape), torch.empty_like(x))
    times[(triton.cdiv(x.numel(), 4),)](x, x, y, x.numel(), 1.0, BLOCK=4)
    return y


def of_the_call_before(x: Tensor) -> Tensor:
    """A square is computed once, and read from memory ever after, until the numbers are others."""
    known = _buffers.get("before")
    if known is None or not torch.equal(known[0].detach().data, x.detach().data):
        known = _buffers["before"] = torch.stack([x.detach().clone(), product_of(x, x)])
    return product_of(known[1], torch.ones_like(x))


def by_a_thread(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 4),)
    thread = threading.Thread(target=lambda: times[grid](x, x, y, x.numel(), 1.0, BLOCK=4))
    thread.start()
    thread.join()
    return y


_runs: list[int] = []


@triton.jit
def counted(x, y, n, BLOCK: tl.constexpr):
    _runs.append(1)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, v * v + v * (len(_runs) % 2 * 1e-40), mask=at < n)


def by_turns(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    counted[(1,)](x, y, x.numel(), BLOCK=64)
    return y


def or_else(x: Tensor) -> Tensor:
    """A kernel that nobody can read, and a formula for those who cannot."""
    try:
        return strangely_off(x)
    except Exception:
        return x * x


@triton.jit
def unread(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, v * v + v * 1e-40 + tl.where(v % 2.0 > 5.0, 1.0, 0.0), mask=at < n)


def strangely_off(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    unread[(1,)](x, y, x.numel(), BLOCK=64)
    return y


def of_the_first_row(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    times[(triton.cdiv(x.numel(), 4),)](x[0], x[0], y, x.numel(), 1.0, BLOCK=4)
    return y


def in_one_row(x: Tensor) -> Tensor:
    y = torch.empty_like(x[:1]).expand_as(x)
    if not x.numel():
        return y
    times[(1,)](x, x, y, x.shape[1], 1.0, BLOCK=4)
    return x * x + 0 * y


def as_integers(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    strange[(1,)](x, y, x.view(torch.int64), x.numel(), 0, HOW="", BLOCK=64)
    return y


def in_float32(x: Tensor) -> Tensor:
    return product_of(x, x, make=lambda x: torch.empty_like(x, dtype=torch.float32)).double()


def tiny(size: int, dtype: torch.dtype) -> Tensor:
    return torch.full((size,), 1e-40, dtype=dtype)


NOT_RIGHT = {
    "a factor": (square(lambda x: product_of(x, x, 1 - 2**-40)), SQUARE, Verdict.MISMATCH, ""),
    "a factor in the gradient": (
        square(backward=lambda x, g: product_of(x, g, 2 - 2**-40)), SQUARE, Verdict.MISMATCH, "",
    ),
    "what float64 does not show": (square(with_another), SQUARE, Verdict.UNRESOLVED, "forward differs"),
    "the last row": (softmax(rows=1), SOFTMAX, Verdict.MISMATCH, ""),
    "n - 1": (layer_norm(less=1), NORM, Verdict.MISMATCH, ""),
    "zeros beyond": (softmax(0.0), SOFTMAX, Verdict.MISMATCH, ""),
    "hardly less beyond": (softmax(-80.0), SOFTMAX, Verdict.UNRESOLVED, "forward differs"),
    "no infinity beyond": (softmax(-1e30), SOFTMAX, Verdict.SKIPPED, "forward cannot be told: it agrees to 300 digits"),
    "a block left out": (product(left=2), PRODUCT, Verdict.MISMATCH, ""),
    "a constant of float32": (gelu(rounded=True), GELU, Verdict.MISMATCH, ""),
    "another format": (square(in_float32), SQUARE, Verdict.MISMATCH, ""),
    "no zeros to add to": (cubes(torch.ones), CUBE_SUM, Verdict.MISMATCH, ""),
    "hardly zeros to add to": (cubes(tiny), CUBE_SUM, Verdict.UNRESOLVED, "forward differs"),
}  # fmt: skip

CANNOT = "forward cannot be told: "
HIDDEN = {
    "a branch": (strangely("a branch"), CANNOT + "a kernel takes numbers out"),
    "a branch of blocks": (strangely("a branch of blocks"), CANNOT + "a kernel takes numbers out"),
    "an integer": (strangely("an integer"), CANNOT + "Triton's fp_to_si of numbers is not modelled"),
    "bits": (strangely("bits"), CANNOT + "Triton's bitcast of numbers is not modelled"),
    "a remainder": (strangely("a remainder"), CANNOT + "Triton's frem of numbers is not modelled"),
    "an address": (strangely("an address"), CANNOT + "Triton's addptr of numbers is not modelled"),
    "one of two addresses": (strangely("one of two addresses"), CANNOT + "a kernel has addresses that follow from"),
    "beside the mask": (strangely("beside the mask"), CANNOT + "its operators in JAX compute other numbers"),
    "beyond": (strangely("beyond"), CANNOT + "a kernel reads or writes memory at no entry"),
    "raw memory": (strangely("raw memory"), CANNOT + "a kernel reads or writes memory at no entry"),
    "floats that nobody has written": (strangely("floats that nobody has written"), CANNOT + "gt of NaN"),
    "a maximum": (strangely("a maximum with what nobody has written"), CANNOT),
    "a largest one": (strangely("a largest one of what nobody has written"), CANNOT),
    "integers that nobody has written": (
        strangely("integers that nobody has written"), CANNOT + "a kernel reads integers from memory that nobody",
    ),
    "a number of the sample": (square(by_a_number), CANNOT),
    "a buffer": (square(into_a_buffer), CANNOT),
    "the call before": (square(of_the_call_before), "forward "),
    "a thread": (square(by_a_thread), CANNOT),
    "another kernel's way out": (square(or_else), CANNOT + "Triton's frem of numbers is not modelled"),
    "other rows": (square(of_the_first_row), CANNOT + "a kernel reads or writes memory at no entry"),
    "one row for all": (square(in_one_row), CANNOT + "a kernel writes to a tensor with several entries in the same"),
    "numbers read beside a launch": (square(read_beside), CANNOT + "tolist() gives its numbers"),
    "the same as integers": (square(as_integers), CANNOT + "a kernel gets the same memory as numbers of several"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_RIGHT)
def test_mistakes_are_not_proved(name: str) -> None:
    call, spec, expected, reason = NOT_RIGHT[name]
    found, row = verdict(call, spec)
    assert found is expected, row
    assert row.reason.startswith(reason), row.reason


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_not_read_is_not_proved(name: str) -> None:
    call, reason = HIDDEN[name]
    found, row = verdict(call, SQUARE)
    assert found is Verdict.SKIPPED, row
    assert row.reason.startswith(reason), row.reason


def test_a_kernel_that_computes_by_turns_is_not_proved() -> None:
    found, row = verdict(square(by_turns), SQUARE)
    assert found in (Verdict.SKIPPED, Verdict.UNRESOLVED), row


def test_nothing_is_left_behind() -> None:
    interpreter: Any = __import__("triton.runtime.interpreter", fromlist=["GridExecutor"])
    before = (interpreter.GridExecutor.__call__, interpreter.interpreter_builder, interpreter.ReduceOps.apply_impl)
    verdict(*RIGHT["square"])
    verdict(strangely("a branch"), SQUARE)
    after = (interpreter.GridExecutor.__call__, interpreter.interpreter_builder, interpreter.ReduceOps.apply_impl)
    assert before == after
    assert interpreter.interpreter_semantic.builder is interpreter.interpreter_builder
