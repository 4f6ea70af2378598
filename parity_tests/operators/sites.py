"""Faults of a backward by kinds, each as a change of the values at a named site: see `Formulas`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from parity_tests.operators.operator import Change, Fault

# The sizes of an operator on rows.
ROWS = {"small": {"n": 8, "m": 32}, "medium": {"n": 64, "m": 256}, "kernel": {"n": 256, "m": 1024}}


def rows(count: int, scale: float = 1.0) -> Callable[[np.random.Generator, Mapping[str, int]], list[np.ndarray]]:
    """Return what draws so many inputs of these sizes, normally distributed."""
    return lambda rng, sizes: [scale * rng.standard_normal((sizes["n"], sizes["m"])) for _ in range(count)]


def _scaled(index: Callable[[torch.Size], Any], factor: float) -> Change:
    """Return the change that multiplies a region, which depends on the shape, by a factor."""

    def change(x: torch.Tensor, *others: Any) -> torch.Tensor:
        if not x.numel():
            return x  # an empty one has no region
        x = x.clone()
        region = index(x.shape)
        x[region] = x[region] * factor
        return x

    return change


def _middle_tile(shape: torch.Size) -> tuple[Any, ...]:
    rows = slice(shape[0] // 2, shape[0] // 2 + max(1, shape[0] // 8))
    return (rows, ..., slice(0, max(1, shape[-1] // 2))) if len(shape) > 1 else (rows,)


def _last_block(shape: torch.Size, axis: int) -> tuple[slice, ...]:
    length = max(1, shape[axis] // 8)
    return tuple(slice(size - length, size) if i == axis % len(shape) else slice(None) for i, size in enumerate(shape))


def last_block_masked(x: torch.Tensor, *others: Any) -> torch.Tensor:
    """Return a value whose last eighth of columns is zero."""
    return _scaled(lambda shape: _last_block(shape, -1), 0.0)(x)


def factor(site: str, by: float, what: str) -> Fault:
    """Return the fault that a value is `by` times the right one."""
    return (what, "factor", {site: lambda x, *others: x * by})


def half(site: str) -> Fault:
    """Return the fault that a factor 2 is missing."""
    return factor(site, 0.5, f"a factor 2 is missing in {site}")


def sign(site: str) -> Fault:
    """Return the fault that a value has the wrong sign."""
    return (f"{site} has the wrong sign", "sign", {site: lambda x, *others: -x})


def left_out(site: str, what: str) -> Fault:
    """Return the fault that a summand is left out."""
    return (what, "term", {site: lambda x, *others: torch.zeros_like(x)})


def ignored(site: str) -> Fault:
    """Return the fault that a cotangent is taken to be zero."""
    return (f"{site} is ignored", "cotangent", {site: lambda x, *others: torch.zeros_like(x)})


def first_row_for_all(site: str) -> Fault:
    """Return the fault that the cotangent of the first row is used for every row, as in Liger-Kernel#968 and #1298."""
    name = f"the first row of {site} is used for every row"
    return (name, "cotangent", {site: lambda x, *others: x[:1].expand_as(x).clone()})


def entry(site: str) -> Fault:
    """Return the fault that one entry is 1.5 times too large."""
    change = _scaled(lambda shape: tuple(size // 2 for size in shape), 1.5)
    return (f"one entry of {site} 1.5 times too large", "entry", {site: change})


def zero_row(site: str) -> Fault:
    """Return the fault that one row is zero."""
    return (f"one row of {site} is zero", "region", {site: _scaled(lambda shape: shape[0] // 2, 0.0)})


def negated_column(site: str) -> Fault:
    """Return the fault that the first column has the wrong sign."""
    name = f"one column of {site} has the wrong sign"
    return (name, "region", {site: _scaled(lambda shape: (..., 0), -1.0)})


def doubled_tile(site: str) -> Fault:
    """Return the fault that one tile, an eighth of the rows and half of the columns, is doubled."""
    return (f"one tile of {site} is doubled", "region", {site: _scaled(_middle_tile, 2.0)})


def last_block(site: str, what: str, axis: int = 0) -> Fault:
    """Return the fault that the last eighth of a summand is left out of the sum over an axis."""
    return (what, "sum", {site: _scaled(lambda shape: _last_block(shape, axis), 0.0)})


def last_one(site: str, what: str, axis: int = 0) -> Fault:
    """Return the fault that the last summand is left out of the sum over an axis."""

    def region(shape: torch.Size) -> tuple[Any, ...]:
        return tuple(size - 1 if i == axis % len(shape) else slice(None) for i, size in enumerate(shape))

    return (what, "sum", {site: _scaled(region, 0.0)})


def shifted(site: str, what: str, axis: int = 0, by: int = 1) -> Fault:
    """Return the fault that a value is that of the row, column or step before."""
    return (what, "order", {site: lambda x, *others: x.roll(by, axis)})


def stale_row(site: str, what: str, by: float = 1.1) -> Fault:
    """Return the fault that what was saved for one row is wrong by a factor."""
    return (what, "stale", {site: _scaled(lambda shape: shape[0] // 2, by)})


def slight(site: str) -> Fault:
    """Return the fault that a value is 0.1 % too large."""
    return (f"{site} 0.1 % too large", "slight", {site: lambda x, *others: x * 1.001})


def added_up_in_bfloat16(x: torch.Tensor, axis: int = 0) -> torch.Tensor:
    """The summands of a sum over an axis, changed so that they add up to what a sum in bfloat16 has."""
    total = torch.zeros_like(x.select(axis, 0))
    for summand in x.unbind(axis):
        total = (total + summand).bfloat16().to(x.dtype)
    wrong = torch.zeros_like(x)
    wrong.select(axis, 0).copy_(total)
    return wrong


def in_bfloat16(site: str, axis: int = 0) -> Fault:
    """Return the fault that a sum is added up in bfloat16, one summand after the other."""
    name = f"{site} are added up in bfloat16"
    return (name, "sum", {site: lambda x, *others: added_up_in_bfloat16(x, axis)})
