"""On which side of a jump a program is: the choices between two integers that rounding may make."""

from __future__ import annotations

from collections.abc import Mapping

# The number that is near a jump, and its bound: whatever else is as near to the same one has been computed alike.
Jump = tuple[float, float]

BELOW, AT, ABOVE = range(3)
SIDES = (BELOW, AT, ABOVE)


class Jumps:
    """The sides that are chosen; `found`: the jumps that rounding may cross, and of which none is chosen."""

    def __init__(self, sides: Mapping[Jump, int] | None = None) -> None:
        self.found: dict[Jump, None] = {}
        self._sides = sides or {}

    def side(self, jump: Jump) -> int | None:
        """The side that is chosen; None if there is none, which is noted."""
        if jump not in self._sides:
            self.found[jump] = None
        return self._sides.get(jump)
