"""Is a derivative right? Ask the function itself: the Taylor remainder, whose rate needs no choice of step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from parity_tests.harness.oracle import Oracle
from parity_tests.harness.precision import FLOAT64

# Small enough for the leading term to rule; two of them, since for one the next term may happen to cancel it.
_STEPS = (2.0**-10, 2.0**-15)
RIGHT = 1.5  # half-way between 1, the rate of a wrong derivative, and 2, that of a right one

Evaluate = Callable[[list[np.ndarray]], Sequence[np.ndarray | None]]


def taylor_rate(
    oracle: Oracle, base: str, evaluate: Evaluate, slope: float, args: list[np.ndarray], p: list[np.ndarray], w: list
) -> float:
    """The rate at which ⟨w, F(x + h p)⟩ - ⟨w, F(x)⟩ - h slope vanishes with h: 2 (or more) if slope = ⟨w, F'(x) p⟩, else 1.

    Infinite where the remainder is nothing but rounding: F is linear along p, and the slope is right. The oracle's error
    bounds for the map `base` say how much rounding there may be in F, which is `evaluate`.
    """

    def remainder(h: float) -> tuple[float, float]:
        point = [x + h * d for x, d in zip(args, p, strict=True)]
        values = evaluate(point)
        bounds = [e for _, e in oracle.evaluate(base, point, FLOAT64)]
        value = sum(float(np.sum(a * y)) for a, y in zip(w, values, strict=True) if y is not None)
        bound = sum(float(np.sum(np.abs(a) * e)) for a, e in zip(w, bounds, strict=True))
        return value - h * slope, bound

    at_zero, noise = remainder(0.0)
    rate = math.inf
    for h in _STEPS:
        (at_h, noise_h), (at_half, _) = remainder(h), remainder(h / 2)
        whole, half = abs(at_h - at_zero), abs(at_half - at_zero)
        if whole <= noise + noise_h:
            return math.inf
        rate = math.log2(whole / half) if half > 0 else math.inf
        if rate > RIGHT:
            return rate
    return rate
