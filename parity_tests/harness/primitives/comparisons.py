"""Comparisons of numbers."""

from __future__ import annotations

import numpy as np
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives.exact.arrays import of_numbers
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, primitive
from parity_tests.harness.primitives.value.functions import of_any, of_reals

_OF_ANY = {"kinds": Kind.COMPARES, "complex": BY_MODULUS}


@primitive(of_jax.eq_p, **_OF_ANY, value=of_any(np.equal), exact=of_numbers(lambda mp, x, y: x == y))
@primitive(of_jax.ne_p, **_OF_ANY, value=of_any(np.not_equal), exact=of_numbers(lambda mp, x, y: x != y))
@primitive(of_jax.lt_p, kinds=Kind.COMPARES, value=of_any(np.less), exact=of_numbers(lambda mp, x, y: x < y))
@primitive(of_jax.le_p, kinds=Kind.COMPARES, value=of_any(np.less_equal), exact=of_numbers(lambda mp, x, y: x <= y))
@primitive(of_jax.gt_p, kinds=Kind.COMPARES, value=of_any(np.greater), exact=of_numbers(lambda mp, x, y: x > y))
@primitive(of_jax.ge_p, kinds=Kind.COMPARES, value=of_any(np.greater_equal), exact=of_numbers(lambda mp, x, y: x >= y))
@primitive(of_jax.lt_to_p, of_jax.le_to_p, kinds=Kind.COMPARES)
def _comparison(eqn, x, e, y, p):
    """1 where rounding may change the answer, else 0."""
    if x[0].dtype.kind == "b":
        return np.maximum(e[0], e[1])
    if x[0].dtype.kind in "iu":
        return _comparison_of_integers(eqn.primitive.name.removesuffix("_to"), x, e)
    # An exact tie comes from the structure (x against itself, or against the maximum it is part of), not by accident.
    return ((x[0] != x[1]) & (np.abs(x[0] - x[1]) <= e[0] + e[1])).astype(float)


def _comparison_of_integers(name, x, e):
    """An integer that rounding may change, such as the place of the largest entry, equals another by accident only."""
    apart, moved = x[0] * 1.0 - x[1] * 1.0, np.floor(e[0] + e[1] + 0.5)
    if name in ("eq", "ne"):
        return ((np.abs(apart) <= moved) & (moved > 0)).astype(float)
    compare = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[name]
    return (compare(apart - moved, 0) != compare(apart + moved, 0)).astype(float)


@primitive(of_jax.is_finite_p, value=of_reals(np.isfinite), exact=of_numbers(lambda mp, x: bool(mp.isfinite(x))))
def _is_finite(eqn, x, e, y, p):
    return np.isinf(e[0]).astype(float)
