"""A candidate that cannot be called here. Whoever only tells of a run imports this, and not PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NotBuilt:
    """A candidate that cannot be called here, so that nothing of it is judged.

    Attributes:
        name: its name in reports.
        reason: why, and what to do about it.
        expected: may a run pass without it? Yes where the machine lacks something, no where the candidate is broken.
    """

    name: str
    reason: str
    expected: bool = True
