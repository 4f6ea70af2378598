"""Seeds that are shown, and hidden ones: whoever is rewarded for a verdict must not know the inputs beforehand."""

from __future__ import annotations

import secrets
from typing import Self


class HiddenSeed(int):
    """A seed that no report, message or file shows."""

    @classmethod
    def drawn(cls) -> Self:
        """One that nobody can know."""
        return cls(secrets.randbelow(2**31))


def shown(seed: int) -> int | None:
    """The seed as reports and files have it: None if it is hidden."""
    return None if isinstance(seed, HiddenSeed) else seed


def seed_in_words(seed: int | None) -> str:
    """Return a seed that `shown` has returned in words: "seed 3"."""
    return "a hidden seed" if seed is None else f"seed {seed}"
