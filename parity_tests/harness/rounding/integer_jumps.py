"""Numbers that are rounded to integers, next to where the integer changes: both sides, each for the whole program.

A quantile lies between the elements floor(m) and ceil(m), m = q (n - 1), with the weight m - floor(m). Where m is 3 but
for rounding, floor(m) is 2 or 3, ceil(m) is 3 or 4, and the weight is 1 or 0: each of them by itself may be off by 1,
and with these errors nothing is known of the quantile. But m is below 3, or at it, or above for all of them, and on
each side the quantile is nearly element 3. So the program is analysed once for each side, with the integers of that
side, and a bound covers all of these results with theirs. Where the program itself jumps, as m - floor(m) does, the
bound is the jump.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.numbers.jumps import ABOVE, AT, BELOW, SIDES, Jumps
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.primitives.value.evaluated import evaluated

_MOST = 3  # jumps of one program: each has three sides, in all combinations

Pair = tuple[np.ndarray, np.ndarray]


def on_every_side(analysed: Callable[[Precision], list[Pair]], precision: Precision) -> list[Pair]:
    """Return bounds of an analysis that cover all choices at its jumps; if they are too many, those without choices."""
    jumps = Jumps()
    outputs = analysed(replace(precision, jumps=jumps))
    if not 0 < len(jumps.found) <= _MOST:
        return outputs
    worst = [np.zeros(e.shape) for _, e in outputs]
    for sides in itertools.product(SIDES, repeat=len(jumps.found)):
        chosen = analysed(replace(precision, jumps=Jumps(dict(zip(jumps.found, sides, strict=True)))))
        worst = [np.maximum(w, _reach(y, *pair)) for w, (y, _), pair in zip(worst, outputs, chosen, strict=True)]
    # The first analysis covers every choice, too.
    return [(y, np.where(np.isnan(w), e, np.minimum(w, e))) for (y, e), w in zip(outputs, worst, strict=True)]


def _reach(y: np.ndarray, other: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """How far y is at most from another number with its bound."""
    return np.where(y == other, 0.0, np.abs(y * 1.0 - other * 1.0)) + bound


def on_chosen_side(eqn: core.JaxprEqn, operands: Sequence[Pair], y: np.ndarray, jumps: Jumps) -> Pair | None:
    """The integers that an equation makes, on the sides that are chosen; None where none is."""
    name = eqn.primitive.name
    if not has(name, Kind.STEP) or (name == "convert_element_type" and y.dtype.kind not in "iu"):
        return None
    ((x, e),) = operands
    if x.dtype.kind != "f" or not np.any(e):
        return None
    nearest = np.rint(2 * x) / 2 if name == "round" else np.rint(x)  # where it jumps
    at = {side: np.asarray(evaluated(eqn, z)) for side, z in ((BELOW, x - e), (AT, nearest), (ABOVE, x + e))}
    apart = at[ABOVE].astype(float) - at[BELOW].astype(float)
    value = y.copy()
    for index in zip(*np.nonzero(apart != 0), strict=True) if y.ndim else [()] * int(apart != 0):
        side = jumps.side((float(x[index]), float(e[index]))) if apart[index] == 1 else None
        if side is not None:
            value[index] = at[side][index]
        elif apart[index] != 1 or len(jumps.found) > _MOST:
            return None
    return None if jumps.found else (value, np.zeros(y.shape))
