"""One-sided slopes of a function of one real variable at 0, by differences in hundreds of bits.

No rule of differentiation has a part in them, and no side's rounding: they say who is right where two derivatives
differ. A slope is the quotient at a step of 2^-220 of what is moved. The step before it is 2^60 times as wide, so that
the change between the two is 2^60 times what is left of a smooth function's curvature, and shows a slope that grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.extended.adaptive import context
from parity_tests.harness.extended.evaluation import evaluate, missing, numbers_of, work
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.bound.base import relative

_MOST_WORK = 500  # entries of all equations, which take milliseconds each with many bits
_BITS = 640  # of extended precision: 53, what cancels, and twice what a step takes
_MOST_BITS = 2200  # between the largest number of float64 and the smallest one
_STEP_BITS = 160  # the wide step, 2^-160 of the size of the argument
_NARROWER = 60  # bits by which the narrow step is less


@dataclass(frozen=True)
class Slopes:
    """The slopes of a function on both sides of a point, and how they were found.

    Attributes:
        behind, ahead: the slopes on both sides; NaN where the function is not finite on that side, infinite where its
            slope grows as the step shrinks.
        error: how far they may be from the limits.
        witness: how they were found.
    """

    behind: float
    ahead: float
    error: float
    witness: str

    @property
    def known(self) -> bool:
        """True if the function has a finite slope on at least one side, and none that grows without bound."""
        sides = [s for s in (self.behind, self.ahead) if not math.isnan(s)]
        return bool(sides) and all(map(math.isfinite, sides)) and math.isfinite(self.error)

    @property
    def low(self) -> float:
        """The smaller one."""
        return float(np.fmin(self.behind, self.ahead))

    @property
    def high(self) -> float:
        """The larger one."""
        return float(np.fmax(self.behind, self.ahead))

    @property
    def smooth(self) -> bool:
        """True if both are the same, within their errors."""
        return self.high - self.low <= 2 * self.error

    def __str__(self) -> str:
        """The slope, or the interval between the two."""
        return f"{self.high:.17g}" if self.smooth else f"between {self.low:.17g} and {self.high:.17g}"


def can_be_exact(program: core.ClosedJaxpr) -> bool:
    """Return whether a program can be evaluated with hundreds of bits, in little time."""
    real = all(np.dtype(x.aval.dtype).kind != "c" for x in (*program.jaxpr.invars, *program.jaxpr.outvars))
    return real and work(program) <= _MOST_WORK and missing(program) is None


def exact_slopes(
    program: core.ClosedJaxpr,
    arguments: Sequence[np.ndarray],
    direction: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    size: float,
) -> Slopes:
    """Return the slopes of ⟨weights, program(arguments + t direction)⟩, with hundreds of bits.

    Args:
        program: that `can_be_exact`.
        arguments, direction: of float64.
        weights: for each result of the program.
        size: of what is moved; steps are relative to it.
    """
    mp = context()

    def moved(x: np.ndarray, d: np.ndarray, t: Any) -> np.ndarray:
        return numbers_of(mp, x) + t * numbers_of(mp, d) if d.any() else numbers_of(mp, x)

    def along(t: Any) -> Any:
        given = [moved(x, d, t) for x, d in zip(arguments, direction, strict=True)]
        values = evaluate(mp, program, given)
        pairs = [(w, y) for ws, ys in zip(weights, values, strict=True) for w, y in zip(ws.flat, ys.flat, strict=True)]
        return mp.fsum(mp.mpf(float(w)) * y for w, y in pairs if w != 0)

    return extended_slopes(mp, along, size)


def extended_slopes(mp: Any, along: Callable[[Any], Any], size: float) -> Slopes:
    """Return the slopes at 0 of a function of one of mpmath's numbers, with hundreds of bits.

    Args:
        mp: the context of mpmath.
        along: the function.
        size: of what it moves; steps are relative to it.
    """
    found = _with_bits(mp, along, size, _BITS + _bits_between(mp, along, size))
    if found.behind == 0 and found.ahead == 0:  # as of 1 + tanh(x) at -300, of which nothing is left in so few bits
        return _with_bits(mp, along, size, _BITS + _MOST_BITS)
    return found


def _with_bits(mp: Any, along: Callable[[Any], Any], size: float, bits: int) -> Slopes:
    witness = f"differences in {bits} bits"
    with mp.workprec(bits):
        step, middle = mp.ldexp(mp.mpf(size), -_STEP_BITS), along(mp.mpf(0))
        if not mp.isfinite(middle):
            return Slopes(math.nan, math.nan, math.inf, witness)
        limits = [_limit(mp, lambda h, s=s: s * (along(s * h) - middle) / h, step) for s in (-1, 1)]
        sides = [slope for slope, _ in limits]
        if any(map(math.isinf, sides)) and _is_small_jump(mp, [along(-step), along(step)], middle):
            return Slopes(math.nan, math.nan, math.inf, witness)
    # The last step's own curvature is 2^60 times less than the change; what is left is that a slope is rounded
    errors = [change + FLOAT64.u * abs(slope) + FLOAT64.smallest for slope, change in limits if not math.isnan(slope)]
    error = max(errors, default=0.0)
    return Slopes(sides[0], sides[1], error, witness)


def _bits_between(mp: Any, along: Callable[[Any], Any], size: float) -> int:
    """The bits between the first one of a value and that of what moves it: 1 + x at 1e-300 needs so many more."""
    with mp.workprec(_BITS):
        middle = along(mp.mpf(0))
        if not mp.isfinite(middle) or middle == 0:
            return 0
        return min(_MOST_BITS, max(0, int(mp.mag(middle) - mp.mag(mp.mpf(size)))))


def _is_small_jump(mp: Any, values: Sequence[Any], middle: Any) -> bool:
    """Whether a function whose slope grows without bound jumps by less than the error of an elementary function.

    A function that is approximated by pieces may do so where two of them meet.
    """
    finite = [y for y in values if mp.isfinite(y)]
    return middle != 0 and all(abs(y - middle) <= relative(FLOAT64) * abs(middle) for y in finite)


def _limit(mp: Any, quotient: Callable[[Any], Any], step: Any) -> tuple[float, float]:
    """The limit of a difference quotient, and how much it changes from a wider step to a narrow one."""
    wide, narrow = quotient(step), quotient(mp.ldexp(step, -_NARROWER))
    if not (mp.isfinite(wide) and mp.isfinite(narrow)):
        return math.nan, math.inf
    if abs(narrow) > abs(wide) * (1 + mp.ldexp(1, -_NARROWER)):  # it grows, by more than a wide step's curvature
        return math.inf, math.inf
    return float(narrow), float(abs(wide - narrow))
