"""An operation's results and gradients against its counterpart in JAX, at the numbers that it had in the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from torch import Tensor
from torch.fx import Node

from parity_tests.auditing.operation import NOT_FINITE
from parity_tests.auditing.program import NotFollowed, Program, is_real
from parity_tests.certificate.certificate import Row, compared
from parity_tests.certificate.within_bounds import bounds_of
from parity_tests.conversion.graph import Graph, OneReal, numbers_of
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned_jax

_WIDE = np.dtype(np.float64)


@dataclass(frozen=True)
class Differentiated:
    """An operation with the cotangents that it had, and the gradients that it returned.

    Attributes:
        program: the operation.
        cotangents: by the places of its results; None is zero.
        gradients: by the places of its inputs; None is zero.
    """

    program: Program
    cotangents: dict[int, Tensor | None]
    gradients: dict[int, Tensor | None]


class Counterparts:
    """The programs of JAX for operations, traced once for those that differ in their numbers only."""

    def __init__(self) -> None:
        self._traced: dict[Any, core.ClosedJaxpr] = {}

    def compare(self, operation: Differentiated) -> tuple[list[Row], dict[str, np.ndarray]]:
        """Compare an operation's results, and its gradients, with JAX's at the same inputs and cotangents.

        All that JAX computes is in float64. An error may be as large as the program allows in the narrowest dtype
        among the operation's tensors (`harness.rounding`).

        Of a NaN among its inputs or cotangents another is to blame.

        Returns:
            the comparisons, and, if one of them is no agreement, all arrays by name.

        Raises:
            NotFollowed: there is nothing to compare it with.
            CannotConvert: the same, in an operator of it.
        """
        program, cotangents, gradients = operation.program, operation.cotangents, operation.gradients
        numbers = [numbers_of(x.before()) for x in program.inputs]
        real = [i for i, x in enumerate(program.inputs) if is_real(x.tensor)]
        drawn = [_numbers(c, program.outputs[k].tensor.shape) for k, c in cotangents.items()]
        given = [*(numbers[i].astype(_WIDE) for i in real), *drawn]
        if any(np.isnan(x).any() for x in given[: len(real)]):
            raise NotFollowed("it was given a NaN")
        precision = _format(program)
        with pinned_jax():
            pairs = bounds_of(self._of(operation, numbers, real, given), given, precision)
        if isinstance(pairs, str):
            raise NotFollowed(f"no bound of its rounding errors is known: {pairs}")
        moved = [i for i in real if i in gradients]
        several = len(program.outputs) > 1
        names = [f"result {k}" if several else "result" for k in range(len(program.outputs))]
        names += [f"gradient of {program.names[i]}" for i in moved]
        found = [numbers_of(y.before()) for y in program.outputs]
        found += [_numbers(gradients[i], numbers[i].shape) for i in moved]
        of_inputs, of_all = (all(np.isfinite(x).all() for x in each) for each in (given[: len(real)], given))
        finite = [of_inputs] * len(program.outputs) + [of_all] * len(moved)
        rows = [_row(name, *pair, y, of) for name, pair, y, of in zip(names, pairs, found, finite, strict=True)]
        if any(np.isnan(c).any() for c in drawn):
            rows = rows[: len(program.outputs)]
        if all(row.agrees for row in rows):
            return rows, {}
        given_to = [f"input {name.removeprefix('input ')}" for name in program.names]
        arrays = dict(zip(given_to, numbers, strict=True))
        arrays |= {f"cotangent {k}": c for k, c in zip(cotangents, drawn, strict=True)}
        for name, (x, e), y in zip(names, pairs, found, strict=True):
            arrays |= {name: y, f"right {name}": x, f"bound of {name}": e}
        return rows, arrays

    def _of(
        self, operation: Differentiated, numbers: Sequence[np.ndarray], real: Sequence[int], given: Sequence[np.ndarray]
    ) -> core.ClosedJaxpr:
        """Return the program of an operation's results and gradients, of its real inputs and its cotangents."""
        program, places = operation.program, [*operation.cotangents]
        moved = [i for i in real if i in operation.gradients]

        def in_jax(*arrays: jax.Array) -> list[jax.Array]:
            inputs = list(map(jnp.asarray, numbers))
            for i, array in zip(real, arrays, strict=False):
                inputs[i] = array

            def results(*by: jax.Array) -> Any:
                for i, array in zip(moved, by, strict=True):
                    inputs[i] = array
                graph = Graph(program, OneReal(_WIDE), _no_number, detaches=False)
                found = list(map(jnp.asarray, graph.run(inputs)))
                return [found[k] for k in places], found

            _, pull, found = jax.vjp(results, *(inputs[i] for i in moved), has_aux=True)
            return [*found, *pull(list(arrays[len(real) :]))]

        if len(real) < len(numbers):  # the program has the numbers of integers in it
            return jax.make_jaxpr(in_jax)(*given)
        key = program.text, tuple(moved), tuple(places), tuple(x.shape for x in given)
        if key not in self._traced:
            self._traced[key] = jax.make_jaxpr(in_jax)(*given)
        return self._traced[key]


def _no_number(node: Node, _: Any) -> Any:
    raise NotFollowed(f"{node.target} draws random numbers")


def _numbers(x: Tensor | None, shape: Sequence[int]) -> np.ndarray:
    return np.zeros(shape) if x is None else numbers_of(x).astype(_WIDE)


def _format(program: Program) -> Precision:
    """The narrowest dtype that a tensor of the operation has.

    Raises:
        NotFollowed: one is of complex numbers, or of a dtype whose roundings are no rounding errors.
    """
    inexact = [x.tensor.dtype for x in (*program.inputs, *program.outputs) if not is_integral(x.tensor)]
    names = {str(dtype).removeprefix("torch.") for dtype in inexact}
    unknown = sorted(names - PRECISIONS.keys())
    if unknown:
        raise NotFollowed(f"numbers of {unknown[0]} are not judged here")
    return max((PRECISIONS[name] for name in names or {"float64"}), key=lambda each: each.u)


def is_integral(x: Tensor) -> bool:
    """Return whether a tensor is of integers or booleans."""
    return not x.is_floating_point() and not x.is_complex()


def _row(name: str, found: np.ndarray, bound: np.ndarray, expected: np.ndarray, finite: bool) -> Row:
    """The comparison of an array; `finite`: all numbers that it was made of are."""
    if found.shape != expected.shape or found.dtype.kind not in "f":
        return compared(name, found, bound, expected)
    bound = np.broadcast_to(bound, found.shape)
    known = np.isfinite(bound) & ~(np.isinf(expected) & np.isfinite(found))
    row = compared(name, *(np.where(known, each, 0.0) for each in (found, bound, expected)))
    wrong = ~np.isfinite(expected)
    if not row.agrees or not finite or not wrong.any():
        return row
    place = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), wrong.shape)))
    exact = f"{found[place]:.3g} is right" if np.isfinite(found[place]) else "as it should be"
    reason = f"{int(wrong.sum())} of {wrong.size} entries {NOT_FINITE}; at {place} {expected[place]}, {exact}"
    return Row(name, row.error, reason)
