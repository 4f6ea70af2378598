"""The rules of extrema, by the order that the numbers have in a run, and of magnitudes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.field.numbers import OF_INTEGERS, Model, Number, Operand, Pair, Unmodelled
from parity_tests.harness.primitives.field.rules import Rule, chosen, in_both

_ZERO = np.array(0, np.uint64)


def _extremum(largest: bool) -> Rule:
    """The rule of max or min."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number, y: Number) -> Sequence[Pair]:
        second = np.asarray(y.real > x.real if largest else y.real < x.real)
        return [chosen(second, [x, y], x.real).residues]

    return rule


def clamped(model: Model, eqn: core.JaxprEqn, low: Number, x: Number, high: Number) -> Sequence[Pair]:
    """The rule of clamp."""
    which = np.where((x.real > high.real) | (low.real > high.real), 2, np.where(x.real < low.real, 0, 1))
    return [chosen(which, [low, x, high], x.real).residues]


def _reduced_extremum(largest: bool) -> Rule:
    """The rule of reduce_max or reduce_min."""

    def rule(model: Model, eqn: core.JaxprEqn, x: Number, *, axes: tuple[int, ...]) -> Sequence[Pair]:
        def rows(a: np.ndarray) -> np.ndarray:
            moved = np.moveaxis(a, axes, tuple(range(-len(axes), 0)))
            return moved.reshape(*moved.shape[: a.ndim - len(axes)], -1)

        real = rows(x.real)
        at = (np.argmax(real, -1) if largest else np.argmin(real, -1))[..., None]
        return [x.each(lambda r: np.take_along_axis(rows(r), at, -1)[..., 0])]

    return rule


def absolute(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The rule of abs."""
    negative = x.real < 0
    return in_both(model, [x], lambda field, r: [np.where(negative, field.sub(_ZERO, r[0]), r[0])])


def in_order(model: Model, eqn: core.JaxprEqn, *operands: Operand, dimension: int, num_keys: int) -> Sequence[Pair]:
    """The rule of sort, by one key."""
    if num_keys != 1:
        raise Unmodelled("a sort by several keys")
    key = operands[0]
    order = np.argsort(key.real if isinstance(key, Number) else key, dimension, kind="stable")
    return [
        x.each(lambda r: np.take_along_axis(r, order, dimension)) if isinstance(x, Number) else OF_INTEGERS
        for x in operands
    ]


larger, smaller = _extremum(largest=True), _extremum(largest=False)
largest, smallest = _reduced_extremum(largest=True), _reduced_extremum(largest=False)
