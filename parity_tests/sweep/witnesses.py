"""The slopes of a differentiated map, which tell which framework is right about one number of its derivative.

They are differences of the map's values: in hundreds of bits (`harness.extended.slopes`) of a program that can be
evaluated so, and in float64 of a framework's own values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity_tests.harness.extended.slopes import Slopes, can_be_exact, exact_slopes
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.bound.base import relative
from parity_tests.sweep.cases import Case, Side
from parity_tests.sweep.comparison import EXTREME

_STEPS = tuple(2.0**-k for k in range(4, 34, 2))
# The extrapolation is (64 q(h) - 20 q(4 h) + q(16 h)) / 45 of quotients q of two values, each of which is at a point
# and has an error of its own: as an elementary function's, which is relative to the value in the middle.
_ERROR_OF_DIFFERENCES = 2 * (64 + 20 / 4 + 1 / 16) / 45 * relative(FLOAT64)
_AS_BEFORE = 0.9  # of the last change: one that is as large; where quotients converge it is a half at most

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Path:
    """A number of a derivative as a slope: of ⟨weights, base(arguments + t direction)⟩ at t = 0.

    A complex number is two slopes, of its real and of its imaginary part.

    Attributes:
        size: of what is moved.
        scale: a power of 2 by which the weights, or the direction, were divided, and with them the slope.
    """

    arguments: Arrays
    direction: Arrays
    weights: Arrays
    size: float
    scale: float = 1.0


def paths(case: Case, mode: str, arguments: Arrays, index: int, place: tuple[int, ...]) -> Iterator[Path]:
    """Yield the path of a number's real part, and that of its imaginary part if it has one."""
    count = case.map(mode).base
    base, scale = list(arguments[:count]), _power_of_two(arguments[count:])
    extra = [x / scale for x in arguments[count:]]
    like = [case.inputs[s.like] if s.like in case.inputs else _result(case, s.like) for s in case.map(mode).results]
    for unit in (1.0, 1j) if like[index].dtype.kind == "c" else (1.0,):
        one = np.zeros_like(like[index])
        one[place] = unit
        if ORDERS[mode][-1] == "vjp":
            direction = [one if i == index else np.zeros_like(x) for i, x in enumerate(base)]
            yield Path(base, direction, extra, _size(base[index][place]), scale)
        else:
            results = [one if i == index else np.zeros_like(y) for i, y in enumerate(like)]
            yield Path(base, extra, results, _size(*(x for x, d in zip(base, extra, strict=True) if d.any())), scale)


def _power_of_two(numbers: Arrays) -> float:
    """Return what large cotangents or tangents are divided by, so that products with values do not overflow."""
    largest = max((float(np.abs(x).max(initial=0)) for x in numbers), default=0.0)
    return math.ldexp(1.0, math.frexp(largest)[1]) if largest > EXTREME else 1.0


def _result(case: Case, name: str) -> np.ndarray:
    return case.call.results[case.results[name]]


def _size(*moved: np.ndarray) -> float:
    """The size that steps are relative to: of the smallest number that is moved, or 1 where all are 0."""
    sizes = np.concatenate([np.abs(x).ravel() for x in moved]) if moved else np.ones(1)
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(sizes.min()) if sizes.size else 1.0


def slopes_by(side: Side, case: Case, mode: str, path: Path, witness: str) -> Slopes:
    """Return the slopes of one side's own map, in float64; unknown if it refuses every neighbour."""
    refusals: list[Exception] = []

    def along(t: float) -> float:
        moved = [x + t * d if d.any() else x for x, d in zip(path.arguments, path.direction, strict=True)]
        try:
            values = side(BASES[mode], moved)
        except (RuntimeError, NotImplementedError, ValueError) as error:
            refusals.append(error)
            return np.nan
        with np.errstate(all="ignore"):
            # An entry without a weight has no part, be it infinite
            terms = [np.real(np.conj(w[w != 0]) * y[w != 0]) for w, y in zip(path.weights, values, strict=True)]
            return float(sum(term.sum() for term in terms))

    slopes = by_differences(along, path.size, witness)
    if refusals and math.isinf(slopes.error):
        return Slopes(math.nan, math.nan, math.inf, witness)
    return slopes


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
        error = max(abs(value - before), abs(value - after)) + _ERROR_OF_DIFFERENCES * abs(middle) / h
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
    return increments[0] != 0 and all(_AS_BEFORE < d / increments[0] < 1 / _AS_BEFORE for d in increments)


def _do_not_settle(quotients: Sequence[float]) -> bool:
    """Whether the last steps change quotients as much as the first ones did, as those of t^0.9 or t^(0.9 + i) do.

    Of a function that is 0 at the point, so that what is lost in the difference is no more than its own rounding. As a
    quotient converges its changes shrink by 4 with each step, or by 2 beside a root.
    """
    changes = [abs(b - a) for a, b in itertools.pairwise(quotients)]
    rounding = 2 * relative(FLOAT64) * max(map(abs, quotients))
    return max(changes[2:]) > _AS_BEFORE * max(changes[:2]) and max(changes[2:]) > rounding


def traced(case: Case, function: Callable, mode: str) -> core.ClosedJaxpr | None:
    """Return the program of the map that a mode differentiates, if it can be evaluated with hundreds of bits."""
    arguments = [jnp.asarray(x) for x in case.arguments(BASES[mode])]
    if any(x.dtype != jnp.float64 for x in arguments):
        return None
    program = jax.make_jaxpr(case.program(function, BASES[mode]))(*arguments)
    return program if can_be_exact(program) else None


def exactly(program: core.ClosedJaxpr, path: Path) -> Slopes:
    """Return the slopes of a program's map with hundreds of bits."""
    return exact_slopes(program, path.arguments, path.direction, path.weights, path.size)
