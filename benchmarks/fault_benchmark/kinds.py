"""Faults of a backward by kinds, each as a change of the values at named sites.

An operator's backward passes each value that a fault may change through `at(site, value)`, so that one line of code
serves the right version and every wrong one, in every arithmetic. Values are changed where they arise: what is computed
from them is wrong as it would be in a kernel with this fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

Change = Callable[..., torch.Tensor]
Kind = Literal[
    "factor",  # a factor is missing, or there once too often
    "term",  # a summand is left out
    "sign",
    "cotangent",  # a cotangent is ignored, or that of one row is used for all
    "order",  # shifted, transposed or swapped
    "entry",  # one entry is wrong
    "region",  # one row, column or tile is wrong
    "sum",  # the last block is left out of a sum
    "mask",  # a mask or a boundary is off by one
    "index",  # an index is off by one, or duplicates are treated wrongly
    "stale",  # a saved value is that of another block or step
    "slight",  # 0.1 % too large
    "epsilon",  # the small constant that avoids a division by zero is in the wrong place
    "size",  # a mean divides by a wrong size
    "formula",  # the formula of a similar operator, or a wrong constant
]


@dataclass(frozen=True)
class Fault:
    """A fault: what is wrong, its kind, and how the values at some sites change.

    A change takes the value at its site, and what else the operator hands over there, and returns the wrong value.
    """

    name: str
    kind: Kind
    changes: Mapping[str, Change]

    def __call__(self, site: str, value: torch.Tensor, *others: Any) -> torch.Tensor:
        """Return the value at a site, changed if this fault is there."""
        change = self.changes.get(site)
        return value if change is None else change(value, *others)


def right(site: str, value: torch.Tensor, *others: Any) -> torch.Tensor:
    """Return the value at a site as it is: the version without a fault."""
    return value


At = Callable[..., torch.Tensor]


def _scaled(index: Callable[[torch.Size], Any], factor: float) -> Change:
    """Return the change that multiplies a region, which depends on the shape, by a factor."""

    def change(x: torch.Tensor, *others: Any) -> torch.Tensor:
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


def factor(site: str, by: float, what: str) -> Fault:
    """Return the fault that a value is `by` times the right one."""
    return Fault(what, "factor", {site: lambda x, *others: x * by})


def half(site: str) -> Fault:
    """Return the fault that a factor 2 is missing."""
    return factor(site, 0.5, f"a factor 2 is missing in {site}")


def sign(site: str) -> Fault:
    """Return the fault that a value has the wrong sign."""
    return Fault(f"{site} has the wrong sign", "sign", {site: lambda x, *others: -x})


def left_out(site: str, what: str) -> Fault:
    """Return the fault that a summand is left out."""
    return Fault(what, "term", {site: lambda x, *others: torch.zeros_like(x)})


def ignored(site: str) -> Fault:
    """Return the fault that a cotangent is taken to be zero."""
    return Fault(f"{site} is ignored", "cotangent", {site: lambda x, *others: torch.zeros_like(x)})


def first_row_for_all(site: str) -> Fault:
    """Return the fault that the cotangent of the first row is used for every row, as in Liger-Kernel#968 and #1298."""
    name = f"the first row of {site} is used for every row"
    return Fault(name, "cotangent", {site: lambda x, *others: x[:1].expand_as(x).clone()})


def entry(site: str) -> Fault:
    """Return the fault that one entry is 1.5 times too large."""
    change = _scaled(lambda shape: tuple(size // 2 for size in shape), 1.5)
    return Fault(f"one entry of {site} 1.5 times too large", "entry", {site: change})


def zero_row(site: str) -> Fault:
    """Return the fault that one row is zero."""
    return Fault(f"one row of {site} is zero", "region", {site: _scaled(lambda shape: shape[0] // 2, 0.0)})


def negated_column(site: str) -> Fault:
    """Return the fault that the first column has the wrong sign."""
    name = f"one column of {site} has the wrong sign"
    return Fault(name, "region", {site: _scaled(lambda shape: (..., 0), -1.0)})


def doubled_tile(site: str) -> Fault:
    """Return the fault that one tile, an eighth of the rows and half of the columns, is doubled."""
    return Fault(f"one tile of {site} is doubled", "region", {site: _scaled(_middle_tile, 2.0)})


def last_block(site: str, what: str, axis: int = 0) -> Fault:
    """Return the fault that the last eighth of a summand is left out of the sum over an axis."""
    return Fault(what, "sum", {site: _scaled(lambda shape: _last_block(shape, axis), 0.0)})


def last_one(site: str, what: str, axis: int = 0) -> Fault:
    """Return the fault that the last summand is left out of the sum over an axis."""

    def region(shape: torch.Size) -> tuple[Any, ...]:
        return tuple(size - 1 if i == axis % len(shape) else slice(None) for i, size in enumerate(shape))

    return Fault(what, "sum", {site: _scaled(region, 0.0)})


def shifted(site: str, what: str, axis: int = 0, by: int = 1) -> Fault:
    """Return the fault that a value is that of the row, column or step before."""
    return Fault(what, "order", {site: lambda x, *others: x.roll(by, axis)})


def stale_row(site: str, what: str, by: float = 1.1) -> Fault:
    """Return the fault that what was saved for one row is wrong by a factor."""
    return Fault(what, "stale", {site: _scaled(lambda shape: shape[0] // 2, by)})


def slight(site: str) -> Fault:
    """Return the fault that a value is 0.1 % too large."""
    return Fault(f"{site} 0.1 % too large", "slight", {site: lambda x, *others: x * 1.001})
