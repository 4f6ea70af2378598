"""Values and their bounds through loops, branches, and linear solvers with a derivative of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.extend import core

from parity_tests.harness.language.calls import closed
from parity_tests.harness.language.interpret import operands_of_scan
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.primitives import matrix
from parity_tests.harness.primitives.bound.base import capped
from parity_tests.harness.rounding import regrouped, scales
from parity_tests.harness.rounding.steps import Step

Pair = tuple[np.ndarray, np.ndarray]


def stacked(rows: Sequence[Pair], result: core.Var) -> Pair:
    """The values of all steps as an array, with their bounds."""
    if not rows:
        shape = result.aval.shape  # type: ignore[attr-defined]
        return np.zeros(shape, result.aval.dtype), np.zeros(shape)  # type: ignore[attr-defined]
    return np.stack([y for y, _ in rows]), np.stack([e for _, e in rows])


def where(which: np.ndarray, first: Pair, second: Pair) -> Pair:
    """Values with their bounds, the first ones where the condition of their example, along their first axes, holds."""
    (x, e), (y, bound) = first, second
    of_example = np.expand_dims(which, tuple(range(np.ndim(which), x.ndim)))
    return np.where(of_example, x, y), np.where(of_example, e, bound)


def either(taken: Pair, other: Pair, precision: Precision) -> Pair:
    """A value with a bound that covers another one with its bound, too."""
    scale = scales.common([taken, other])
    (y, bound), (z, further) = (scales.at(pair, scale, precision) for pair in (taken, other))
    apart = np.where(y == z, 0.0, np.abs(y * 1.0 - z * 1.0))
    pair = y, capped(y, np.maximum(bound, apart + further), precision)
    return scales.Scaled(pair, scale) if scale else pair


def in_groups(step: Step, operands: Sequence[Pair], outputs: list[Pair], precision: Precision) -> list[Pair]:
    """The results of a scan; those of a linear recurrence have bounds that hold for parallel scans, too.

    See `rounding.regrouped`.
    """
    params = step.eqn.params
    _, carry, _ = operands_of_scan(params, operands)
    if not carry or params["length"] <= 1 or not regrouped.is_recurrence(closed(params["jaxpr"]).jaxpr):
        return outputs
    sizes = regrouped.Magnitudes().run(step, [*map(regrouped.magnitudes_of, operands)], {})
    found = []
    for (y, e), size in zip(outputs, sizes, strict=True):
        if y.dtype.kind in "fc":
            wider = e + regrouped.allowance(size, params["length"], precision)
            found.append(regrouped.Regrouped((y, capped(y, np.where(e == 0, 0.0, wider), precision)), size))
        else:
            found.append((y, e))
    return found


def solved(step: Step, operands: Sequence[Pair], outputs: list[Pair], precision: Precision) -> list[Pair]:
    """The solution of a linear system: of one matrix along the last axis, which is how jnp.linalg has it.

    Of another operator than a matrix, the errors of the solver itself are the bound, if a worse one.
    """
    lengths = step.eqn.params["const_lengths"]
    of_matrix, (right_side, *_) = operands[: lengths.matvec], operands[sum(lengths) :]
    (b, e_b), (x, _) = right_side, outputs[0]
    is_matrix = len(of_matrix) == len(outputs) == 1 and of_matrix[0][0].shape == 2 * b.shape[-1:]
    if not is_matrix or not b.size or not np.isfinite(x).all():
        return outputs
    ((A, e_A),) = of_matrix
    rows = x.reshape(-1, x.shape[-1])
    if not np.allclose(rows @ A.T, b.reshape(rows.shape), rtol=1e-6, atol=1e-6 * np.abs(rows).max(initial=0)):
        return outputs
    bound = matrix.linear_solve(A, e_A, rows.T, e_b.reshape(rows.shape).T, precision)
    return [(x, capped(x, bound.T.reshape(x.shape), precision))]
