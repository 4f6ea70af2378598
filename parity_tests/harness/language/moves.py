"""Equations that only move numbers, in any number system: where each entry of a result comes from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.value.evaluated import evaluated


def places(eqn: core.JaxprEqn, operands: Sequence[np.ndarray], is_moved: Sequence[bool]) -> list[np.ndarray]:
    """For each result, the places of its entries among all entries of the operands that are moved, one after another.

    The equation is applied to the places in the operands' stead. NaN stands for what `gather` has outside of an array.
    """
    count, numbered = 0, []
    for x, moved in zip(operands, is_moved, strict=True):
        numbered.append(count + np.arange(np.size(x), dtype=float).reshape(np.shape(x)) if moved else x)
        count += np.size(x) if moved else 0
    y = evaluated(eqn, *numbered)
    return [np.asarray(a) for a in (y if eqn.primitive.multiple_results else [y])]
