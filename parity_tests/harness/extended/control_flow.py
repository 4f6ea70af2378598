"""Loops and branches in extended precision."""

from __future__ import annotations

import numpy as np

from parity_tests.harness.extended.registry import control


@control("cond")
def _cond(interpret, eqn, index, *operands):
    branches = eqn.params["branches"]
    return interpret(branches[int(np.clip(index, 0, len(branches) - 1))], list(operands))


@control("scan")
def _scan(interpret, eqn, *operands):
    p = eqn.params
    if "ft_in" in p:  # JAX 0.12
        consts, carry, sequences = map(list, p["ft_in"].update(operands).unpack())
    else:
        first, last = p["num_consts"], p["num_consts"] + p["num_carry"]
        consts, carry, sequences = list(operands[:first]), list(operands[first:last]), list(operands[last:])
    count, steps = len(carry), []
    order = range(p["length"])
    for i in reversed(order) if p["reverse"] else order:
        slices = [_entry(x, i) for x in sequences]
        outputs = interpret(p["jaxpr"], [*consts, *carry, *slices])
        carry = outputs[:count]
        steps.append(outputs[count:])
    if p["reverse"]:
        steps.reverse()
    shapes = [var.aval.shape for var in eqn.outvars[count:]]
    stacked = [_stacked([step[j] for step in steps], shape) for j, shape in enumerate(shapes)]
    return [*carry, *stacked]


def _entry(x: np.ndarray, i: int) -> np.ndarray:
    return x[i, ...]  # with an ellipsis it is an array, also where it has no axis


def _stacked(x: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    return np.stack(x) if x else np.empty(shape, object)


@control("while")
def _while(interpret, eqn, *operands):
    p = eqn.params
    of_test, of_body = p["cond_nconsts"], p["body_nconsts"]
    test_consts, body_consts = operands[:of_test], operands[of_test : of_test + of_body]
    carry = list(operands[of_test + of_body :])
    while np.any(again := interpret(p["cond_jaxpr"], [*test_consts, *carry])[0]):
        after = interpret(p["body_jaxpr"], [*body_consts, *carry])
        # Mapped by jax.vmap it has a condition for each example, and examples that have ended stay as they are.
        carry = [
            np.where(np.expand_dims(again, tuple(range(np.ndim(again), np.ndim(x)))), x, y)
            for x, y in zip(after, carry, strict=True)
        ]
    return carry
