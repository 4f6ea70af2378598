"""The derivative of one equation of a program, from its results to its operands, for many cotangents at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core


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

        _, pullback = jax.vjp(of_moved, *(operands[i] for i in moved))
        return jax.vmap(pullback)(list(cotangents) if primitive.multiple_results else cotangents[0])

    operands = [jax.ShapeDtypeStruct(*each) for each in of_operands]
    cotangents = [jax.ShapeDtypeStruct((rows, *shape), dtype) for shape, dtype in of_results]
    return jax.make_jaxpr(pulled_back)(operands, cotangents)
