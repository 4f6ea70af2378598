"""The slopes of a differentiated map, which tell which framework is right about one number of its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.sweep.cases import Case, Side
from parity_tests.sweep.comparison import EXTREME
from parity_tests.sweep.slopes import Slopes, by_differences, can_be_exact, exact_slopes

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


def traced(case: Case, function: Callable, mode: str) -> core.ClosedJaxpr | None:
    """Return the program of the map that a mode differentiates, if it can be evaluated with hundreds of bits."""
    arguments = [jnp.asarray(x) for x in case.arguments(BASES[mode])]
    if any(x.dtype != jnp.float64 for x in arguments):
        return None
    program = jax.make_jaxpr(case.program(function, BASES[mode]))(*arguments)
    return program if can_be_exact(program) else None


def exactly(program: core.ClosedJaxpr, path: Path) -> Slopes:
    """Return the slopes of a program's map with hundreds of bits."""
    return exact_slopes(program, list(path.arguments), list(path.direction), list(path.weights), path.size)
