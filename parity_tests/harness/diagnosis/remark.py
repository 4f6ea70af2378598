"""An explanation of a wrong result that knows what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Remark:
    """What a wrong result looks like; `to_do`: what to do about it, if the page of the check does not say that."""

    text: str
    to_do: str = ""
