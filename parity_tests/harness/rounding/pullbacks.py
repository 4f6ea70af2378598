"""The derivative of one equation of a program, from its results to its operands, for many cotangents at once.

JAX has it for every primitive, and traces it anew for each number of cotangents, which takes milliseconds. Of the few
primitives that most equations are of NumPy computes the same, operation by operation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from parity_tests.harness.language.values import evaluate


class NoDerivative(Exception):
    """Raised where JAX has no derivative of a primitive by an operand, as of the order of a polygamma function."""


def pulled_back(
    eqn: core.JaxprEqn, moved: tuple[int, ...], operands: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]
) -> Sequence[np.ndarray]:
    """The cotangents of these operands of an equation, by the cotangents of its results, which have a first axis.

    Must run inside `np.errstate(all="ignore")`.

    Raises:
        NoDerivative: there is none by one of these operands.
    """
    name = eqn.primitive.name
    if name in _MOVING:
        return [_MOVING[name](eqn, cotangents[0])]
    if name in _ENTRY_BY_ENTRY and all(operands[i].shape == cotangents[0].shape[1:] for i in moved):
        every = _ENTRY_BY_ENTRY[name](cotangents[0], *operands)
        return [every[i] for i in moved]
    return evaluate(pullback(eqn, moved, len(cotangents[0])), *operands, *cotangents)


def _summed(eqn: core.JaxprEqn, c: np.ndarray) -> np.ndarray:
    """Sum a cotangent over the entries that one was broadcast to."""
    old, axes = _shape(eqn.invars[0])[0], eqn.params["broadcast_dimensions"]
    kept = [axis for axis, size in zip(axes, old, strict=True) if size != 1]
    summed = tuple(axis + 1 for axis in range(c.ndim - 1) if axis not in kept)
    return np.add.reduce(c, summed).reshape(len(c), *old)


def _repeated(eqn: core.JaxprEqn, c: np.ndarray) -> np.ndarray:
    """Repeat a cotangent for each of the entries that were summed."""
    old = _shape(eqn.invars[0])[0]
    kept = [1 if axis in eqn.params["axes"] else size for axis, size in enumerate(old)]
    return np.broadcast_to(c.reshape(len(c), *kept), (len(c), *old))


_MOVING: dict[str, Callable[[core.JaxprEqn, np.ndarray], np.ndarray]] = {
    "broadcast_in_dim": _summed,
    "reduce_sum": _repeated,
    "neg": lambda eqn, c: -c,
}
# (cotangent, operands...) -> those of all operands, of which each that is asked for has the shape of the result.
_ENTRY_BY_ENTRY: dict[str, Callable[..., Sequence[np.ndarray]]] = {
    "add": lambda c, x, y: (c, c),
    "add_any": lambda c, x, y: (c, c),
    "sub": lambda c, x, y: (c, -c),
    "mul": lambda c, x, y: (c * y, c * x),
}


def pullback(eqn: core.JaxprEqn, moved: tuple[int, ...], rows: int) -> core.ClosedJaxpr:
    """The program that takes an equation's operands and cotangents of its results, with a first axis, to theirs."""
    of_operands, of_results = (tuple(map(_shape, atoms)) for atoms in (eqn.invars, eqn.outvars))
    asked = eqn.primitive, tuple(sorted(eqn.params.items())), of_operands, of_results, moved, rows
    try:
        return _traced_pullback(*asked)
    except TypeError:  # of parameters without a hash
        return _traced_pullback.__wrapped__(*asked)


def _shape(atom: Any) -> tuple[tuple[int, ...], np.dtype]:
    return tuple(atom.aval.shape), np.dtype(atom.aval.dtype)


@functools.lru_cache(maxsize=4096)
def _traced_pullback(
    primitive: Any, params: tuple, of_operands: tuple, of_results: tuple, moved: tuple[int, ...], rows: int
) -> core.ClosedJaxpr:
    def pulled_back(operands: Sequence, cotangents: Sequence) -> Sequence:
        def of_moved(*x: Any) -> Any:
            there = dict(zip(moved, x, strict=True))
            return primitive.bind(*(there.get(i, operand) for i, operand in enumerate(operands)), **dict(params))

        try:
            _, pullback = jax.vjp(of_moved, *(operands[i] for i in moved))
        except (ValueError, NotImplementedError) as error:  # which its rule raises
            raise NoDerivative(f"{primitive.name}: {error}") from error
        return jax.vmap(pullback)(list(cotangents) if primitive.multiple_results else cotangents[0])

    operands = [jax.ShapeDtypeStruct(*each) for each in of_operands]
    cotangents = [jax.ShapeDtypeStruct((rows, *shape), dtype) for shape, dtype in of_results]
    return jax.make_jaxpr(pulled_back)(operands, cotangents)
