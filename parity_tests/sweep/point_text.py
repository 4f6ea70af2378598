"""The point at which a derivative was compared, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parity_tests.sweep.cases import Case

_WRITTEN_OUT = 16  # numbers of an argument


def in_short(case: Case, mode: str, arguments: Sequence[np.ndarray]) -> str:
    """Return the arguments of a map by name; of those with many numbers the shape."""
    slots = case.map(mode).arguments
    return "; ".join(f"{slot.label} = {written(x)}" for slot, x in zip(slots, arguments, strict=True))


def written(x: np.ndarray) -> str:
    """Return an array in a line; the shape, if it has many numbers."""
    if x.size > _WRITTEN_OUT:
        return f"{x.dtype.name} of shape {x.shape}"
    with np.printoptions(precision=17):
        return " ".join(np.array2string(x, separator=", ").split())
