"""The residues of an equation's results in finite fields: the rules by kind, and what the others are made of.

A function is a random one: f(x) is f(x), and nothing more is known of it, unless `functions` has it. What is linear, or
bilinear, is added up by NumPy or JAX, exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.field.fields import Field, Residues
from parity_tests.harness.primitives.field.numbers import Model, Number, Operand, Pair, Unmodelled, is_finite
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.primitives.registry import Kind, has, record_of
from parity_tests.harness.primitives.value.evaluated import evaluated

_MOST = 2**21  # terms of a sum: with limbs of 16 bits it is exact in float64

# (model, equation, operands...) -> the residues of each result.
Rule = Callable[..., Sequence[Pair]]


def rule_of(name: str) -> Rule:
    """Return the rule of a primitive: its own, or that of its kind.

    Raises:
        Unmodelled: there is none.
    """
    record = record_of(name)
    if record is not None and record.field is not None:
        return record.field
    if has(name, Kind.BILINEAR):
        return _bilinear
    if has(name, Kind.LINEAR):
        return linear
    if has(name, Kind.FUNCTION):
        return functools.partial(_function, name)
    raise Unmodelled(str(NoRule(name, "field")))


def chosen(which: np.ndarray, cases: Sequence[Operand], real: np.ndarray) -> Number:
    """The entries of the cases that are counted in `which`."""
    index = np.asarray(which).astype(int)
    numbers = [x for x in cases if isinstance(x, Number)]

    def taken(residues: Sequence[Residues]) -> Residues:
        each = np.stack([np.broadcast_to(r, index.shape) for r in residues])
        return np.take_along_axis(each, index[None], 0)[0]

    return Number(of_each(numbers, taken), real)


def of_each(numbers: Sequence[Number], f: Callable[[Sequence[Residues]], Residues]) -> Pair:
    """A function of the residues modulo p, and of those modulo q if all have them."""
    q = [r for x in numbers if (r := x.residues[1]) is not None]
    return f([x.residues[0] for x in numbers]), f(q) if len(q) == len(numbers) else None


def in_both(
    model: Model, operands: Sequence[Operand], f: Callable[[Field, Sequence[np.ndarray]], list[Residues]]
) -> Sequence[Pair]:
    """The results in each field in which all operands have residues."""
    p = f(model.fields[0], [x.residues[0] if isinstance(x, Number) else x for x in operands])
    modulo_q = [x.residues[1] if isinstance(x, Number) else x for x in operands]
    known = [x for x in modulo_q if x is not None]
    q = f(model.fields[1], known) if len(known) == len(operands) else [None] * len(p)
    return [*zip(p, q, strict=True)]


def entrywise(f: Callable[..., Residues]) -> Rule:
    """The rule of a function of residues in either field, (field, residues...) -> residues."""
    return lambda model, eqn, *operands: in_both(model, operands, lambda field, r: [f(field, *r)])


def linear(model: Model, eqn: core.JaxprEqn, *operands: Operand) -> Sequence[Pair]:
    """Sums of entries, or of their negatives: exact in float64, as NumPy or JAX adds them up."""
    if sum(x.real.size for x in operands if isinstance(x, Number)) > _MOST:
        raise Unmodelled("a sum of so many terms")

    def summed(field: Field, residues: Sequence[np.ndarray]) -> list[Residues]:
        y = evaluated(eqn, *(r.astype(np.float64) if r.dtype == np.uint64 else r for r in residues))
        return [np.mod(a, float(field.p)).astype(np.uint64) for a in (y if eqn.primitive.multiple_results else [y])]

    return in_both(model, operands, summed)


def _bilinear(model: Model, eqn: core.JaxprEqn, x: Number, y: Number) -> Sequence[Pair]:
    """Sums of products, by limbs of 16 bits."""
    if max(x.real.size, y.real.size) > _MOST:
        raise Unmodelled("a sum of so many products")

    def product(field: Field, residues: Sequence[np.ndarray]) -> list[Residues]:
        limbs = [[(r & np.uint64(0xFFFF)).astype(float), (r >> np.uint64(16)).astype(float)] for r in residues]
        total = np.uint64(0)
        for i, a in enumerate(limbs[0]):
            for j, b in enumerate(limbs[1]):
                part = np.asarray(evaluated(eqn, a, b)).astype(np.uint64) % field.p
                total = (total + part * np.uint64(pow(2, 16 * (i + j), field.p))) % field.p
        return [np.asarray(total)]

    return in_both(model, (x, y), product)


def _function(name: str, model: Model, eqn: core.JaxprEqn, *operands: Number) -> Sequence[Pair]:
    if not all(isinstance(x, Number) for x in operands):
        raise Unmodelled(f"the JAX primitive {name!r} of integers")
    if not has(name, Kind.LIMIT) and not all(is_finite(x.real).all() for x in operands):
        raise Unmodelled(f"the JAX primitive {name!r} of an infinity or NaN")
    return [model.random_function(f"{name} {eqn.params}", *operands)]


def itself(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The rule of what is its operand."""
    return [x.residues]
