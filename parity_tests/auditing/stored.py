"""An array of an operation: the right one with its bound, and the one that was found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parity_tests.auditing.operation import AS_IT_SHOULD_BE, NO_BOUND, NOT_FINITE
from parity_tests.certificate.certificate import Row, compared


@dataclass(frozen=True)
class Stored:
    """An array of an operation.

    Attributes:
        name: of the array, "result" or "gradient of x".
        exact: the right numbers.
        bound: of the rounding error of each.
        found: the operation's own numbers.
        is_finite: whether all numbers that it was made of are.
    """

    name: str
    exact: np.ndarray
    bound: np.ndarray
    found: np.ndarray
    is_finite: bool

    def row(self, underflow: float) -> Row:
        """Return the comparison; `underflow`: how much an entry may lose to it where it is stored."""
        exact, found = self.exact, self.found
        if exact.shape != found.shape or exact.dtype.kind not in "f":
            return compared(self.name, exact, self.bound, found)
        bound = np.broadcast_to(self.bound + underflow, exact.shape)
        if np.isfinite(bound).all() and np.isfinite(found).all():  # as nearly all are
            return compared(self.name, exact, bound, found)
        overflows = np.isinf(found) & np.isfinite(exact)
        known = np.isfinite(bound) & ~overflows
        row = compared(self.name, *(np.where(known, each, 0.0) for each in (exact, bound, found)))
        wrong = ~np.isfinite(found)
        if not row.agrees:
            return row
        if self.is_finite and wrong.any():
            place = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), wrong.shape)))
            right = f"{exact[place]:.3g} is right" if np.isfinite(exact[place]) else AS_IT_SHOULD_BE
            reason = f"{int(wrong.sum())} of {wrong.size} entries {NOT_FINITE}; at {place} {found[place]}, {right}"
            return Row(self.name, row.error, reason)
        unknown = ~known & ~overflows & ~((exact == found) | (np.isnan(exact) & np.isnan(found)))
        if unknown.any():
            return Row(self.name, None, f"{NO_BOUND} of {int(unknown.sum())} of {unknown.size} entries is known")
        return row
