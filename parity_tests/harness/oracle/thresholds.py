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
from parity_tests.harness.language.values import Values
from parity_tests.harness.language.values.steps import Step
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.rounding.unrolled import NotUnrolled, unrolled

# The places of the operands that a primitive compares.
_PAIRS = dict.fromkeys(("max", "min", "lt", "le", "gt", "ge"), ((0, 1), (1, 0))) | {"clamp": ((1, 0), (1, 2))}
_BEYOND_ALL = 1e30  # the constant of a mask, and no threshold
_POWERS = (*range(4, 21, 4), *range(-4, -61, -4))  # of two, by which inputs are multiplied
_MOST_STEPS = 2000
# Several roundings of 16 bits: a region is visited, and not the kink at its edge, where each format has its own side.
_NEAR = 1 / 16
_FARTHER = (1.0, 1.25, 1.5, 1.75)  # times a power of two, of which the first without an entry near a threshold is taken
_MOST = 3  # thresholds that are visited, since each is judged as a special point

Scaled = tuple[tuple[int, ...], float]


class _Sides(Values):
    """Float64 in NumPy; on which side of each constant threshold every entry is, and whether any is near."""

    def __init__(self) -> None:
        super().__init__()
        self.below: list[np.ndarray] = []
        self.near: list[bool] = []

    def apply(self, step: Step, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The results of an equation; what it compares with a constant is remembered."""
        for x, limit in _compared(step, operands):
            self.below.append(x < limit)
            self.near.append(bool((np.abs(x - limit) <= _NEAR * np.abs(limit)).any()))
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
    """Which of these inputs, times which factor, bring most entries of an intermediate beyond its threshold.

    Only of thresholds that all entries are on one side of at the given inputs. Each input is tried by itself, then all
    of them together. No entry is near a threshold that is crossed. Nothing is found in a program with branches or a
    `while`, or of more than 2000 equations.

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
    sides = _sides(program, primals).below
    waiting = {i: side for i, side in enumerate(sides) if side.size and (side.all() or not side.any())}
    for group in [*((i,) for i in inputs), *([tuple(inputs)] if len(inputs) > 1 else [])]:
        for power in _POWERS:
            if not waiting:
                return
            if not _crossed(waiting, _sides(program, _times(primals, group, 2.0**power))):
                continue
            for factor in _factors(power):
                found = _sides(program, _times(primals, group, factor))
                crossed = _crossed(waiting, found)
                if crossed and not any(found.near[i] for i in crossed):
                    for i in crossed:
                        del waiting[i]
                    yield group, factor
                    break


def _factors(power: int) -> Iterator[float]:
    """Those from the power of two of the coarse grid before this one up to it, in steps of about a quarter."""
    step = 1 if power > 0 else -1
    for nearer in range(power - 3 * step, power + step, step):
        yield from (2.0**nearer * more**step for more in _FARTHER)


def _times(primals: Sequence[np.ndarray], group: Sequence[int], factor: float) -> list[np.ndarray]:
    return [x * factor if i in group else x for i, x in enumerate(primals)]


def _sides(program: core.ClosedJaxpr, primals: Sequence[np.ndarray]) -> _Sides:
    domain = _Sides()
    with np.errstate(all="ignore"):
        interpret(program, primals, domain)
    return domain


def _crossed(waiting: Mapping[int, np.ndarray], now: _Sides) -> list[int]:
    """Return the indices of the thresholds that most entries have crossed now."""
    return [i for i, side in waiting.items() if np.mean(now.below[i] != side) > 0.5]
