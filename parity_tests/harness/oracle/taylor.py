"""The Taylor test: a derivative judged by the values of the function that it differentiates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.complex_parts import products
from parity_tests.harness.numbers.formats import FLOAT64, PRECISIONS
from parity_tests.harness.oracle.oracle import Oracle

# The smallest step is below almost every kink and shows errors down to one part in 2**20. The larger ones, where less
# of the remainder is rounding, show smaller errors, once what is of second and third order is extrapolated away.
_STEPS = (2.0**-21, 2.0**-17, 2.0**-13, 2.0**-9)
_RATIO = 16.0
_CLEAR = 8  # times what may be rounding: a remainder whose rate can be told
_RIGHT = 1.5  # half-way between 1, the rate of a wrong derivative, and 2, that of a right one

Arrays = Sequence[np.ndarray | None]
Evaluate = Callable[[str, list[np.ndarray]], Arrays]


@dataclass(frozen=True)
class TaylorTest:
    """The result of a test of F' by the remainder F(x + h p) - F(x) - h F'(x) p, in float64, against some weights.

    Attributes:
        rate: at which the remainder vanishes with h: 2 (or more) for a right derivative, 1 for a wrong one, infinite
            where nothing remains but rounding. It is for the reader: an error that is small beside the curvature of F
            leaves a rate of almost 2.
        low, high: the interval in which the slope of F minus F' lies. Its width comes from the rounding of F and from
            what extrapolation leaves of the terms of higher order.
        slope: F' itself, against the weights.
    """

    rate: float
    low: float
    high: float
    slope: float

    @property
    def right(self) -> bool:
        """True if the derivative may be right."""
        return self.low <= 0 <= self.high

    @property
    def shows_in_rate(self) -> bool:
        """True if the rate is that of a derivative that is wrong by more than the curvature of F."""
        return abs(self.rate - 1) < 0.1

    @property
    def relative_error(self) -> float:
        """The relative error of the derivative, about."""
        size = abs(self.slope) or abs(self.low + self.high) / 2
        return abs(self.low + self.high) / 2 / size if size else 0.0


def taylor_test(
    oracle: Oracle, name: str, evaluate: Evaluate | None, args: list[np.ndarray], weights: list[np.ndarray]
) -> TaylorTest | None:
    """Test a derivative against differences of the function that it differentiates.

    A wrong derivative is wrong on both sides of x, and in the same direction. What is seen on one side only, or in
    opposite directions, is a kink or a jump of F nearby.

    Args:
        oracle: says, by its error bounds, how much of a remainder may be rounding.
        name: the map F', a VJP or JVP of the map F = BASES[name].
        evaluate: the side whose F and F' are compared: (map, arguments) -> results. None: the oracle itself.
        args: of F': those of F, then a direction p for a JVP, or the cotangent w for a VJP.
        weights: one array for each result of F': w for a JVP, p for a VJP.

    Returns:
        None if F or F' is not finite there, or has no finite error bound: then nothing can be said.
    """
    m = oracle.map(name)
    base = BASES[name]
    # x + h p is exact in float64 if x has 24 bits and p has 8, so that F is evaluated exactly where it is meant to be.
    args = [PRECISIONS["float32"].rounded(x) for x in args[: m.base]] + [_short(x) for x in args[m.base :]]
    weights = [_short(x) for x in weights]
    x, direction = args[: m.base], args[m.base :]
    p, w = (weights, direction) if ORDERS[name][-1] == "vjp" else (direction, weights)

    def functional(which: str, point: list[np.ndarray], against: list[np.ndarray]) -> tuple[float, float]:
        """⟨against, which(point)⟩, and how much of it may be rounding."""
        truths = oracle.evaluate(which, point, FLOAT64)
        values = [truth.value for truth in truths] if evaluate is None else evaluate(which, point)
        terms, noise = [], 0.0
        for a, y, truth in zip(against, values, truths, strict=True):
            y = np.zeros_like(a) if y is None else y
            terms.append(products(a, y).ravel())
            with np.errstate(invalid="ignore"):
                noise += float(np.sum(np.where(a == 0, 0.0, np.abs(a) * (truth.bound + 2 * FLOAT64.u * np.abs(y)))))
        every = np.concatenate(terms) if terms else np.zeros(0)
        return (math.fsum(every) if np.isfinite(every).all() else math.nan), noise

    slope, slope_noise = functional(name, args, weights)
    at_zero, noise = functional(base, x, w)

    def side(sign: float) -> TaylorTest | None:
        remainders, noises = [], []
        for h in _STEPS:
            at_h, noise_h = functional(base, [a + sign * h * b for a, b in zip(x, p, strict=True)], w)
            remainders.append(sign * (at_h - at_zero) - h * slope)
            noises.append(noise + noise_h + h * slope_noise + 4 * FLOAT64.u * (abs(at_h) + h * abs(slope)))
        if not np.isfinite([*remainders, *noises]).all():
            return None
        low, high = _error(remainders, noises)
        return TaylorTest(_rate(remainders, noises, low <= 0 <= high), low, high, slope)

    above = side(1.0)
    if above is None or above.right:
        return above
    below = side(-1.0)
    if below is None:
        return above
    if below.right:
        return below
    if (above.low > 0) != (below.low > 0):  # the derivative lies between the slopes on the two sides
        return TaylorTest(math.inf, min(above.low, below.low), max(above.high, below.high), slope)
    return above


def _error(remainders: Sequence[float], noises: Sequence[float]) -> tuple[float, float]:
    """The interval in which R(h) / h tends to as h vanishes; the arguments are at `_STEPS`.

    R(h) = d h + c h² + e h³ + ... With the ratio r of two steps, (r R(h / r) - R(h) / r) / ... leaves no c, and so on:
    Richardson's extrapolation. The change that the last extrapolation makes is an estimate, too large by r at least, of
    what it leaves. An extrapolation over larger steps is used only if it agrees with what the smaller ones say: between
    larger ones there may be a kink. The series may not converge there, either, as beyond the pole of a quotient: the
    second extrapolation is used only over steps of which R(h) / h changes as h or h² does.
    """
    first = [r / h for r, h in zip(remainders, _STEPS, strict=True)]
    noise = [n / h for n, h in zip(noises, _STEPS, strict=True)]
    second = [(_RATIO * a - b) / (_RATIO - 1) for a, b in pairwise(first)]
    noise_of_second = [(_RATIO * a + b) / (_RATIO - 1) for a, b in pairwise(noise)]
    square = _RATIO**2
    third = [(square * a - b) / (square - 1) for a, b in pairwise(second)]
    noise_of_third = [(square * a + b) / (square - 1) for a, b in pairwise(noise_of_second)]
    intervals = [
        (first[0], noise[0] + 2 * abs(first[0] - second[0])),
        (second[0], noise_of_second[0] + abs(second[0] - second[1])),
        (third[0], noise_of_third[0] + abs(third[0] - second[0])),
        (third[1], noise_of_third[1] + abs(third[1] - second[1])),
    ]
    usable = [True, True, _changes_as_a_power(first[:3], noise), _changes_as_a_power(first[1:], noise[1:])]
    low, high = -math.inf, math.inf
    for (middle, radius), follows in zip(intervals, usable, strict=True):
        if not follows or middle - radius > high or middle + radius < low:
            break
        low, high = max(low, middle - radius), min(high, middle + radius)
    return low, high


def _changes_as_a_power(x: Sequence[float], noise: Sequence[float]) -> bool:
    """Whether numbers at three steps change as the step or its square does, within their noise, to a third or so."""
    change, next_change = x[1] - x[0], x[2] - x[1]
    room = noise[0] + noise[1]
    next_room = noise[1] + noise[2]
    for power in (_RATIO, _RATIO**2):
        ends = [power * factor * c for factor in (2 / 3, 3 / 2) for c in (change - room, change + room)]
        if min(ends) - next_room <= next_change <= max(ends) + next_room:
            return True
    return False


def _rate(remainders: Sequence[float], noises: Sequence[float], right: bool) -> float:
    """The rate between the two smallest steps of which it can be told."""
    rate, sizes = math.inf, [abs(r) for r in remainders]
    for i in range(len(_STEPS) - 1, 0, -1):
        if sizes[i - 1] <= _CLEAR * noises[i - 1]:
            # Nothing but rounding. A rate of 1 at a larger step came from a kink: a wrong derivative's stays.
            return math.inf if right and rate <= _RIGHT else rate
        rate = math.log(sizes[i] / sizes[i - 1], _RATIO) if sizes[i] > 0 else -math.inf
    return rate


def _short(x: np.ndarray) -> np.ndarray:
    return PRECISIONS["bfloat16"].rounded(x)
