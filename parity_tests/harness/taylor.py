"""Is a derivative right? Ask the function itself: the Taylor remainder, whose rate needs no choice of tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.oracle import Oracle
from parity_tests.harness.precision import FLOAT64, PRECISIONS
from parity_tests.harness.real_parts import products

# From the smaller one's remainder a derivative that is wrong by more than one part in 2**20 stands out; that of a right
# one may drown in rounding there, and the larger one shows its rate.
_STEPS = (2.0**-10, 2.0**-20)
_CLEAR = 8  # times what may be rounding: a remainder whose rate can be told
RIGHT = 1.5  # half-way between 1, the rate of a wrong derivative, and 2, that of a right one

Arrays = Sequence[np.ndarray | None]
Evaluate = Callable[[str, list[np.ndarray]], Arrays]


def taylor_rate(
    oracle: Oracle, name: str, evaluate: Evaluate, args: list[np.ndarray], weights: list[np.ndarray]
) -> float:
    """The rate at which ⟨w, F(x + h p)⟩ - ⟨w, F(x)⟩ - h ⟨w, F'(x) p⟩ vanishes with h, in float64.

    2 (or more) for a right derivative, 1 for a wrong one, infinite where the remainder is nothing but rounding: then F
    is linear along p, and the derivative right.

    Args:
        oracle: says, by its error bounds, how much of a remainder may be rounding.
        name: the map F', a VJP or JVP of the map F = BASES[name].
        evaluate: the side that is asked: (map, arguments) -> results.
        args: of F': those of F, then a direction p for a JVP, or the cotangent w for a VJP.
        weights: one array for each result of F': w for a JVP, p for a VJP.
    """
    m = oracle.map(name)
    base = BASES[name]
    # x + h p is exact in float64 if x has 24 bits and p has 8, so that F is asked exactly where it is meant to be.
    args = [PRECISIONS["float32"].rounded(x) for x in args[: m.base]] + [_short(x) for x in args[m.base :]]
    weights = [_short(x) for x in weights]
    x, direction = args[: m.base], args[m.base :]
    p, w = (weights, direction) if ORDERS[name][-1] == "vjp" else (direction, weights)

    def functional(which: str, point: list[np.ndarray], against: list[np.ndarray]) -> tuple[float, float]:
        """⟨against, which(point)⟩, and how much of it may be rounding."""
        values = evaluate(which, point)
        bounds = [e for _, e in oracle.evaluate(which, point, FLOAT64)]
        pairs = [(a, y) for a, y in zip(against, values, strict=True) if y is not None]
        value = math.fsum(float(z) for a, y in pairs for z in products(a, y).flat)
        rounding = sum(float(np.sum(np.abs(a) * e)) for a, e in zip(against, bounds, strict=True))
        return value, rounding + 2 * FLOAT64.u * sum(float(np.sum(np.abs(a) * np.abs(y))) for a, y in pairs)

    slope, slope_noise = functional(name, args, weights)
    at_zero, noise = functional(base, x, w)

    def remainder(h: float) -> tuple[float, float]:
        at_h, noise_h = functional(base, [a + h * b for a, b in zip(x, p, strict=True)], w)
        value = abs(at_h - at_zero - h * slope)
        return value, noise + noise_h + h * slope_noise + 4 * FLOAT64.u * (abs(at_h) + h * abs(slope))

    rate = math.inf
    for h in _STEPS:
        (whole, _), (half, noise_half) = remainder(h), remainder(h / 2)
        if half <= _CLEAR * noise_half:
            # Nothing but rounding. A rate of 1 at a larger step came from a kink: a wrong derivative's stays.
            return rate if rate > RIGHT else math.inf
        rate = math.log2(whole / half) if whole > 0 else -math.inf
    return rate


def _short(x: np.ndarray) -> np.ndarray:
    return PRECISIONS["bfloat16"].rounded(x)
