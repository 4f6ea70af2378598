"""The sides of jumps: where rounding may turn a real number into either of two integers, which of them is taken."""

from __future__ import annotations

from collections.abc import Mapping

# A number near a jump and its error bound. An equal pair is taken to come from the same computation.
Jump = tuple[float, float]

BELOW, AT, ABOVE = range(3)
SIDES = (BELOW, AT, ABOVE)


class Jumps:
    """The chosen sides of jumps.

    Attributes:
        found: the jumps that rounding may cross and for which no side has been chosen, in order.
    """

    def __init__(self, sides: Mapping[Jump, int] | None = None) -> None:
        self.found: dict[Jump, None] = {}
        self._sides = sides or {}

    def side(self, jump: Jump) -> int | None:
        """Return the side chosen for a jump; without a choice, add the jump to `found` and return None."""
        if jump not in self._sides:
            self.found[jump] = None
        return self._sides.get(jump)
