"""A candidate that cannot be called on this machine. This module does not import PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NotBuilt:
    """A candidate that cannot be called on this machine, so that nothing of it is judged.

    Attributes:
        name: the name of the candidate in reports.
        reason: why it cannot be called, and what to do about it.
        expected: True if a run may pass without it, because the machine lacks something; False if it is broken.
        op: the name of the operator of which it is a candidate, if reports must tell it from others of its name.
    """

    name: str
    reason: str
    expected: bool = True
    op: str = ""
