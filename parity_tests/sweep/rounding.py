"""The error that rounding explains in a number of the reference, by the harness's bounds or by its own movement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.sweep.cases import Arrays, Case, Side

# The largest of so many draws is exceeded by a quarter of another one with the chance 2^-16 at most if that is as
# likely to be on either side of a half of it, and real rounding moves a number by a half of what is drawn.
DRAWS = 16
ROOM = 4


def explained(
    case: Case,
    side: Side,
    function: Callable[..., Any],
    mode: str,
    arguments: Arrays,
    index: int,
    precision: Precision,
) -> np.ndarray:
    """Return the error that rounding in a format explains in a result of a map, entry by entry.

    It is the bound of the rounding errors of the reference's program, if each of its operations has a rule, and no less
    than `ROOM` times what the result moves at most as each input moves by a rounding or two.

    Args:
        case, mode, arguments: the map, and where.
        side, function: the reference's maps, and the function itself.
        index: of the result.
        precision: the format; the arguments are numbers of it.
    """
    right, rng = side(mode, arguments)[index], np.random.default_rng(0)
    moved = np.zeros(right.shape)
    for _ in range(DRAWS):
        factors = [1 + 2 * precision.u * rng.uniform(-1, 1, x.shape) for x in arguments]
        near = [np.asarray(x * factor, x.dtype) for x, factor in zip(arguments, factors, strict=True)]
        moved = np.fmax(moved, np.abs(side(mode, near)[index] - right))
    return np.maximum(ROOM * moved, _bound(case, function, mode, arguments, index, precision))


def _bound(
    case: Case, function: Callable[..., Any], mode: str, arguments: Arrays, index: int, precision: Precision
) -> np.ndarray | float:
    """The bound of the rounding errors of the reference's program; 0 where it has none."""
    try:
        program = jax.make_jaxpr(case.program(function, mode))(*map(jnp.asarray, arguments))
        _, bound = bounded(program, *arguments, precision=precision)[index]
    except (NoRule, NotFloat64):
        return 0.0
    return np.where(np.isfinite(bound), bound, 0.0)
