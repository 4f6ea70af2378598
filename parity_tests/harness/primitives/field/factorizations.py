"""The rules of systems with a triangular matrix, and of factorizations, by the algorithms of `matrices`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.field import matrices
from parity_tests.harness.primitives.field.fields import Field, Residues
from parity_tests.harness.primitives.field.numbers import OF_INTEGERS, Model, Number, Pair
from parity_tests.harness.primitives.field.rules import in_both


def solved(model: Model, eqn: core.JaxprEqn, a: Number, b: Number, **params: Any) -> Sequence[Pair]:
    """The rule of triangular_solve."""
    return in_both(model, [a, b], lambda field, r: matrices.solved(matrices.of_a_field(field), *r, **params))


def pivoted(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The rule of lu, by the pivots of the run."""
    *_, orders = matrices.pivoted(matrices.OF_A_RUN, x.real)

    def factors(field: Field, r: Sequence[np.ndarray]) -> list[Residues]:
        return [matrices.factored(matrices.of_a_field(field), r[0], orders)]

    return [*in_both(model, [x], factors), OF_INTEGERS, OF_INTEGERS]


def rooted(model: Model, eqn: core.JaxprEqn, x: Number) -> Sequence[Pair]:
    """The rule of cholesky."""
    return [(matrices.rooted(matrices.of_a_field(model.fields[0]), x.residues[0])[0], None)]
