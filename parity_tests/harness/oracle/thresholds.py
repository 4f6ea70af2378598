"""Regions beyond a threshold of an intermediate, such as a norm held above an eps, which no drawn sample visits.

At a drawn sample each norm is above 1e-8, and `max(norm, 1e-8)` has the derivative of the norm everywhere. Whoever
forgets the other branch in a backward is right there, and wrong wherever the norm is smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.language.steps import Step
from parity_tests.harness.language.values import Values
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.rounding.unrolled import NotUnrolled, unrolled

# The places of the operands that a primitive compares.
_PAIRS = dict.fromkeys(("max", "min", "lt", "le", "gt", "ge"), ((0, 1), (1, 0))) | {"clamp": ((1, 0), (1, 2))}
_BEYOND_ALL = 1e30  # the constant of a mask, and no threshold
_POWERS = (*range(4, 21, 4), *range(-4, -61, -4))  # of two, by which inputs are multiplied
_MOST_STEPS = 2000
_MOST = 3  # thresholds that are visited, since each is judged as a special point

Scaled = tuple[tuple[int, ...], float]


class _Sides(Values):
    """Float64 in NumPy; on which side of each constant threshold every entry is."""

    def __init__(self) -> None:
        super().__init__()
        self.below: list[np.ndarray] = []

    def apply(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation; what it compares with a constant is remembered."""
        self.below += [x < limit for x, limit in _compared(step, operands)]
        return super().apply(step, operands)


def _compared(step: Step, operands: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers that an equation compares with a constant other than 0, each with that."""
    for i, j in _PAIRS.get(step.name, ()):
        x, limit = operands[i], np.abs(operands[j])
        if (
            step.fixed[j]
            and not step.fixed[i]
            and limit.dtype == np.float64
            and ((limit > 0) & (limit < _BEYOND_ALL)).all()
        ):
            yield x, operands[j]


def beyond(oracle: Oracle, primals: Sequence[np.ndarray], inputs: Sequence[int]) -> Sequence[Scaled]:
    """Which of these inputs, times which power of two, bring most entries of an intermediate beyond its threshold.

    Only of thresholds that all entries are on one side of at the given inputs. Each input is tried by itself, then all
    of them together. Nothing is found in a program with branches or a `while`, or of more than 2000 equations.

    Args:
        oracle: the operator.
        primals: its inputs at a drawn sample.
        inputs: the places of those that may be multiplied.
    """
    key = "thresholds", *(x.shape for x in primals), *inputs
    if key not in oracle.kept:
        with pinned():
            oracle.kept[key] = [*islice(_found(oracle, primals, inputs), _MOST)]
    return oracle.kept[key]


def _found(oracle: Oracle, primals: Sequence[np.ndarray], inputs: Sequence[int]) -> Iterator[Scaled]:
    try:
        program = unrolled(oracle.traced("forward", list(primals), by_autodiff=False).closed)
    except NotUnrolled:
        return
    if len(program.jaxpr.eqns) > _MOST_STEPS:
        return
    sides = _sides(program, primals)
    waiting = {i: side for i, side in enumerate(sides) if side.size and (side.all() or not side.any())}
    for group in [*((i,) for i in inputs), *([tuple(inputs)] if len(inputs) > 1 else [])]:
        for power in _POWERS:
            if not waiting:
                return
            if _crossed(waiting, _sides(program, _times(primals, group, power))):
                step = 1 if power > 0 else -1
                nearer = range(power - 3 * step, power + step, step)
                least = next(p for p in nearer if _crossed(waiting, _sides(program, _times(primals, group, p))))
                for i in _crossed(waiting, _sides(program, _times(primals, group, least))):
                    del waiting[i]
                yield group, 2.0**least


def _times(primals: Sequence[np.ndarray], group: Sequence[int], power: int) -> list[np.ndarray]:
    return [np.ldexp(x, power) if i in group else x for i, x in enumerate(primals)]


def _sides(program: core.ClosedJaxpr, primals: Sequence[np.ndarray]) -> list[np.ndarray]:
    domain = _Sides()
    with np.errstate(all="ignore"):
        interpret(program, primals, domain)
    return domain.below


def _crossed(waiting: Mapping[int, np.ndarray], now: Sequence[np.ndarray]) -> list[int]:
    """Return the indices of the thresholds that most entries have crossed now."""
    return [i for i, side in waiting.items() if np.mean(now[i] != side) > 0.5]
