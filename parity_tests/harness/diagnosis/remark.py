"""An explanation of a wrong result that knows what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Remark:
    """A description of a wrong result; `to_do`: what to do about it, if the page of the check does not say that."""

    text: str
    to_do: str = ""
