"""The oracle's answer for one result of a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity_tests.harness.maps import Slot
from parity_tests.harness.numbers.formats import Precision


@dataclass(frozen=True, eq=False)
class Truth:
    """One result of a map, with the error that a right candidate may make.

    Attributes:
        slot: which of the map's results it is.
        value: a float64 or complex128 array.
        bound: how far a right result may be from it, entry by entry; infinite where nothing is known.
        overflows: where a right result may be an infinity or NaN all the same, since a product overflows in another
            order of its factors; asked only where a result is none. None if nowhere.
        running: the bound of the running error analysis where that of some entries is another one, see
            `rounding.linearized`; None if it is none.
    """

    slot: Slot
    value: np.ndarray
    bound: np.ndarray
    overflows: Callable[[], np.ndarray] | None = None
    running: np.ndarray | None = None

    @property
    def linearized(self) -> bool:
        """Return whether the bound of some entries is linearized."""
        return self.running is not None

    @property
    def label(self) -> str:
        """The name of the result."""
        return self.slot.label

    @property
    def like(self) -> str:
        """The name of the operator's input or output that has the same shape as the result."""
        return self.slot.like

    def bound_of(self, result: np.ndarray) -> np.ndarray:
        """The bound that a result is held to: infinite where it is no number, and a right one may be none."""
        if self.overflows is None or result.shape != self.value.shape or np.isfinite(result).all():
            return self.bound
        no_number = ~np.isfinite(result) & np.isfinite(self.value) & np.isfinite(self.bound)
        return np.where(no_number & self.overflows(), np.inf, self.bound) if no_number.any() else self.bound


def total(truths: Sequence[Truth], precision: Precision) -> Truth:
    """Return the sum of results of one shape, with the bound of adding them up in a format, in any order.

    It has the first one's slot. Where a partial sum may be beyond the format's largest number there is no bound.
    """
    value = np.sum([truth.value for truth in truths], axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.sum([truth.bound for truth in truths], axis=0)
        magnitude = np.sum([np.abs(truth.value) for truth in truths], axis=0) + errors
        # Each of the n - 1 additions rounds a partial sum, of which none is larger than this. Two more cover u², and
        # that what is known of a sum is taken out of both sides of its comparison.
        bound = errors + (len(truths) + 1) * precision.u * magnitude + precision.tiny
        bound = np.where(magnitude < precision.largest, bound, np.inf)
    return replace(truths[0], value=value, bound=bound, overflows=None)
