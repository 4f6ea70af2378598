"""Rounding errors through control flow: calls, loops, branches, and linear solvers with a derivative of their own.

Each rule gets the interpreter of `rounding` as its last argument, by which it evaluates the jaxprs that it runs:
(jaxpr, constants, pairs of a value and its bound, precision) -> such pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.rounding import matrix as rounding_matrix
from parity_tests.harness.rounding import regrouped as rounding_regrouped
from parity_tests.harness.rounding import scales as rounding_scales
from parity_tests.harness.rounding.base import capped
from parity_tests.harness.rounding.evaluation import closed
from parity_tests.harness.rounding.missing import NoRule
from parity_tests.harness.rounding.registry import Kind, primitive


def operands_of_scan(params: Mapping[str, Any], operands: Sequence) -> tuple[list, list, list]:
    """The operands of a scan: those of every step, those that are carried, and those that have an entry for each."""
    if "ft_in" in params:  # JAX 0.12
        consts, carry, sequences = params["ft_in"].update(operands).unpack()
        return list(consts), list(carry), list(sequences)
    first, last = params["num_consts"], params["num_consts"] + params["num_carry"]
    return list(operands[:first]), list(operands[first:last]), list(operands[last:])


@primitive("scan", kinds=Kind.CONTROL)
def _scan(eqn, operands, precision, interpret):
    p, body = eqn.params, closed(eqn.params["jaxpr"])
    consts, carry, sequences = operands_of_scan(p, operands)
    num_carry = len(carry)
    steps: list[list[tuple]] = []
    order = range(p["length"])
    in_order = list(reversed(order) if p["reverse"] else order)
    first = carry
    for i in in_order:
        slices = [(x[i], e[i]) for x, e in sequences]
        outputs = interpret(body.jaxpr, body.consts, [*consts, *carry, *slices], precision)
        carry = outputs[:num_carry]
        steps.append(outputs[num_carry:])
    outputs = [*carry, *_stacked(steps, eqn.outvars[num_carry:], p["reverse"])]
    if num_carry and p["length"] > 1 and rounding_regrouped.is_recurrence(body.jaxpr):
        return _in_groups(body, (consts, first, sequences), in_order, outputs, precision)
    return outputs


def _stacked(steps: Sequence[Sequence[tuple]], outvars: Sequence, reverse: bool) -> list[tuple]:
    """The results of all steps as arrays, with their bounds."""
    rows = list(reversed(steps)) if reverse else list(steps)
    if not rows:
        return [(np.zeros(var.aval.shape, var.aval.dtype), np.zeros(var.aval.shape)) for var in outvars]
    return [(np.stack([row[j][0] for row in rows]), np.stack([row[j][1] for row in rows])) for j in range(len(outvars))]


def _in_groups(
    body: Any,
    operands: tuple[list, list, list],
    in_order: Sequence[int],
    outputs: Sequence[tuple],
    precision: Precision,
) -> list[tuple]:
    """The results of a linear recurrence with bounds that hold for parallel scans, too: see `rounding.regrouped`."""
    of_consts, carry, sequences = ([rounding_regrouped.magnitudes_of(pair) for pair in group] for group in operands)
    steps, num_carry = [], len(carry)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in in_order:
            slices = [x[i] for x in sequences]
            made = rounding_regrouped.step(body.jaxpr, body.consts, [*of_consts, *carry, *slices])
            carry = made[:num_carry]
            steps.append(made[num_carry:])
        rows = steps if list(in_order) == sorted(in_order) else steps[::-1]
        stacked = [np.stack([row[j] for row in rows]) for j in range(len(outputs) - num_carry)]
        found = []
        for (y, e), size in zip(outputs, [*carry, *stacked], strict=True):
            if y.dtype.kind in "fc":
                wider = e + rounding_regrouped.allowance(size, len(in_order), precision)
                found.append(
                    rounding_regrouped.Regrouped((y, capped(y, np.where(e == 0, 0.0, wider), precision)), size)
                )
            else:
                found.append((y, e))
    return found


@primitive("cond", kinds=Kind.CONTROL)
def _cond(eqn, operands, precision, interpret):
    """The branch that is taken; where rounding may choose another one, its results are as right."""
    (index, uncertain), *args = operands
    branches = eqn.params["branches"]
    first, last = (int(np.clip(index + shift, 0, len(branches) - 1)) for shift in (-uncertain, uncertain))

    def results(number: int) -> list[tuple]:
        branch = closed(branches[number])
        return interpret(branch.jaxpr, branch.consts, args, precision)

    taken = results(int(index))
    for number in range(first, last + 1):
        if number != int(index):
            taken = [_either(mine, other, precision) for mine, other in zip(taken, results(number), strict=True)]
    return taken


def _either(taken: tuple, other: tuple, precision: Precision) -> tuple:
    """A value with a bound that covers another one with its bound, too."""
    scale = rounding_scales.common([taken, other])
    (y, bound), (z, further) = (rounding_scales.at(pair, scale, precision) for pair in (taken, other))
    with np.errstate(invalid="ignore"):
        apart = np.where(y == z, 0.0, np.abs(y * 1.0 - z * 1.0))
    pair = y, capped(y, np.maximum(bound, apart + further), precision)
    return rounding_scales.Scaled(pair, scale) if scale else pair


@primitive("while", kinds=Kind.CONTROL)
def _while(eqn, operands, precision, interpret):
    p = eqn.params
    test, body = closed(p["cond_jaxpr"]), closed(p["body_jaxpr"])
    of_test, of_body = p["cond_nconsts"], p["body_nconsts"]
    test_consts, body_consts = operands[:of_test], operands[of_test : of_test + of_body]
    carry = operands[of_test + of_body :]
    while True:
        ((again, uncertain),) = interpret(test.jaxpr, test.consts, [*test_consts, *carry], precision)
        if np.any(uncertain):
            raise NoRule("while (its condition depends on a value that rounding may change)")
        if not np.any(again):
            return carry
        after = interpret(body.jaxpr, body.consts, [*body_consts, *carry], precision)
        # Mapped by jax.vmap it has a condition for each example, and examples that have ended stay as they are.
        carry = after if np.all(again) else [_where(again, *pairs) for pairs in zip(after, carry, strict=True)]


def _where(condition: np.ndarray, first: tuple, second: tuple) -> tuple:
    """Values with their bounds, the first ones where the condition of their example, along their first axes, holds."""
    (x, e), (y, bound) = first, second
    of_example = np.expand_dims(condition, tuple(range(np.ndim(condition), x.ndim)))
    return np.where(of_example, x, y), np.where(of_example, e, bound)


@primitive("custom_linear_solve", kinds=Kind.CONTROL)
def _linear_solve(eqn, operands, precision, interpret):
    """The solution of a linear system: of one matrix along the last axis, which is how jnp.linalg has it."""
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    count = sum(lengths)
    matrix, ((b, e_b),) = operands[: lengths.matvec], operands[count:]
    of_solve = operands[lengths.matvec + lengths.vecmat :][: lengths.solve]
    solve = closed(jaxprs.solve)
    ((x, e_x),) = interpret(solve.jaxpr, solve.consts, [*of_solve, (b, e_b)], precision)
    if len(matrix) != 1 or matrix[0][0].shape != 2 * b.shape[-1:] or not b.size or not np.isfinite(x).all():
        return [(x, e_x)]
    ((A, e_A),) = matrix
    rows = x.reshape(-1, x.shape[-1])
    if not np.allclose(rows @ A.T, b.reshape(rows.shape), rtol=1e-6, atol=1e-6 * np.abs(rows).max(initial=0)):
        return [
            (x, e_x)
        ]  # another operator than the matrix: what the solver itself does bounds the error, if less well
    bound = rounding_matrix.linear_solve(A, e_A, rows.T, e_b.reshape(rows.shape).T, precision)
    return [(x, capped(x, bound.T.reshape(x.shape), precision))]
