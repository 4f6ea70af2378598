"""The outcome of an item, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

RIGHT, WRONG, MEASURED, LEFT_OUT, RAISED = "right", "wrong", "measured", "left out", "raised"
Ended = Literal["right", "wrong", "measured", "left out", "raised"]
BAD = (WRONG, RAISED)


class LeftOut(Exception):
    """An item, or a version, that cannot be had here; the message is the reason."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an item: how it ended, and its data.

    Attributes:
        ended: right or wrong by a verdict, or measured; left out, where it cannot be had; raised, with the reason: an
            exception, no memory, a process that ended or took too long.
        data: what was found.
    """

    ended: Ended
    reason: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def raised(error: BaseException) -> Outcome:
    """The outcome of an item that raised."""
    text = " ".join(str(error).split())
    return Outcome(RAISED, f"{type(error).__name__}: {text[:500]}")
