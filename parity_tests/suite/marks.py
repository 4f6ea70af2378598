"""Parameters of a test of which a few are judged with the fast tests, and all with the slow ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest


def marks(fast: Collection[str], every: Iterable[str]) -> list:
    """Every name, those that are not fast marked as slow."""
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in every]
