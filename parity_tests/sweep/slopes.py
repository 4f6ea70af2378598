"""One-sided slopes of a function of one real variable at 0: differences in float64, or with hundreds of bits.

No rule of differentiation has a part in them: they say who is right where two derivatives differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.extended.adaptive import context
from parity_tests.harness.extended.evaluation import evaluate, missing, work

_STEPS = tuple(2.0**-k for k in range(4, 34, 2))
_MOST_WORK = 500  # entries of all equations, which take milliseconds each with many bits
_BITS = 640  # of extended precision: 53, what cancels, and twice what a step takes
_MOST_BITS = 2200  # between the largest number of float64 and the smallest one
_STEP_BITS = 160  # an extended step, 2^-160 of the size of the argument
_JUMP_BITS = 45  # a jump that is smaller, relative to the value, is the error of an approximation by pieces
_SAME = 2.0**-60  # relative: one-sided slopes of a smooth function with extended steps differ by less


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
        """True if both are the same, within their error and a part in 2^26."""
        return self.high - self.low <= 2 * self.error + 2.0**-26 * max(abs(self.low), abs(self.high))

    def __str__(self) -> str:
        """The slope, or the interval between the two."""
        return f"{self.high:.17g}" if self.smooth else f"between {self.low:.17g} and {self.high:.17g}"


def by_differences(along: Callable[[float], float], size: float, witness: str) -> Slopes:
    """Return the slopes of a function in float64: Richardson's extrapolation of one-sided differences.

    Of all steps those count at which the extrapolation changes least. Where the function is finite at the point alone,
    as 0 log y for y < 0 is if 0 times anything is 0, both slopes are infinite.

    Args:
        along: the function.
        size: of the argument that it moves; steps are relative to it.
        witness: see `Slopes`.
    """
    middle = along(0.0)
    if not math.isfinite(middle):
        return Slopes(math.nan, math.nan, math.inf, witness)
    if not any(math.isfinite(along(side * size * h)) for h in _STEPS for side in (-1, 1)):
        return Slopes(math.inf, math.inf, math.inf, witness)
    behind, first = _one_sided(lambda h: (middle - along(-h)) / h, size, middle)
    ahead, second = _one_sided(lambda h: (along(h) - middle) / h, size, middle)
    errors = [e for s, e in ((behind, first), (ahead, second)) if not math.isnan(s)]
    return Slopes(behind, ahead, max(errors, default=math.inf), witness)


def _one_sided(quotient: Callable[[float], float], size: float, middle: float) -> tuple[float, float]:
    """The limit of a difference quotient as its step vanishes, and the error of it."""
    with np.errstate(all="ignore"):
        rows = [(size * h, quotient(size * h)) for h in _STEPS]
    values = []
    for (_, a), (_, b), (h, c) in zip(rows, rows[1:], rows[2:], strict=False):
        # The step falls by 4: one extrapolation takes away what is linear in it, the next what is quadratic
        values.append((h, (16 * (4 * c - b) / 3 - (4 * b - a) / 3) / 15))
    best, least = math.nan, math.inf
    for (_, before), (h, value), (_, after) in zip(values, values[1:], values[2:], strict=False):
        # By luck one neighbour may agree; the two hardly do
        error = max(abs(value - before), abs(value - after)) + 32 * 2.0**-53 * abs(middle) / h
        if math.isfinite(value) and error < least:
            best, least = value, error
    quotients = [q for _, q in rows if math.isfinite(q)]
    grows = len(quotients) > 6 and (_grow(quotients[-6:]) or (middle == 0 and _do_not_settle(quotients[-6:])))
    return (math.inf, math.inf) if grows else (best, least)


def _grow(quotients: Sequence[float]) -> bool:
    """Whether quotients grow without bound: by a factor with each step, or by the same again, as those of t log t."""
    if all(abs(b) > 1.5 * abs(a) for a, b in itertools.pairwise(quotients)):
        return True
    increments = [b - a for a, b in itertools.pairwise(quotients)]
    return increments[0] != 0 and all(0.9 < d / increments[0] < 1.1 for d in increments)


def _do_not_settle(quotients: Sequence[float]) -> bool:
    """Whether the last steps change quotients as much as the first ones did, as those of t^0.9 or t^(0.9 + i) do.

    Of a function that is 0 at the point, so that what is lost in the difference is no more than its own rounding. As a
    quotient converges its changes shrink by 4 with each step, or by 2 beside a root.
    """
    changes = [abs(b - a) for a, b in itertools.pairwise(quotients)]
    return max(changes[2:]) > 0.9 * max(changes[:2]) and max(changes[2:]) > 2.0**-40 * max(map(abs, quotients))


def can_be_exact(program: core.ClosedJaxpr) -> bool:
    """Return whether a program can be evaluated with hundreds of bits, in little time."""
    real = all(np.dtype(x.aval.dtype).kind != "c" for x in (*program.jaxpr.invars, *program.jaxpr.outvars))
    return real and work(program) <= _MOST_WORK and missing(program) is None


def exact_slopes(
    program: core.ClosedJaxpr,
    arguments: list[np.ndarray],
    direction: list[np.ndarray],
    weights: list[np.ndarray],
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
        exact = np.empty(x.shape, object)
        for place in np.ndindex(*x.shape):
            exact[place] = mp.mpf(float(x[place])) + t * mp.mpf(float(d[place]))
        return exact

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
    known = [(abs(slope), change) for slope, change in limits if not math.isnan(slope)]
    error = max((max(_SAME * size, change) for size, change in known), default=0.0)
    return Slopes(sides[0], sides[1], error, witness)


def _bits_between(mp: Any, along: Callable[[Any], Any], size: float) -> int:
    """The bits between the first one of a value and that of what moves it: 1 + x at 1e-300 needs so many more."""
    with mp.workprec(_BITS):
        middle = along(mp.mpf(0))
        if not mp.isfinite(middle) or middle == 0:
            return 0
        return min(_MOST_BITS, max(0, int(mp.mag(middle) - mp.mag(mp.mpf(size)))))


def _is_small_jump(mp: Any, values: Sequence[Any], middle: Any) -> bool:
    """Whether a function whose slope grows without bound jumps by less than an approximation's error."""
    finite = [y for y in values if mp.isfinite(y)]
    return middle != 0 and all(abs(y - middle) <= mp.ldexp(abs(middle), -_JUMP_BITS) for y in finite)


def _limit(mp: Any, quotient: Callable[[Any], Any], step: Any) -> tuple[float, float]:
    """The limit of a difference quotient, and how much it changes from a wider step to a narrow one."""
    wide, narrow = quotient(step), quotient(step / 2**60)
    if not (mp.isfinite(wide) and mp.isfinite(narrow)):
        return math.nan, math.inf
    if abs(narrow) > abs(wide) * (1 + mp.ldexp(1, -60)):  # it grows as the step shrinks
        return math.inf, math.inf
    return float(narrow), float(abs(wide - narrow))
