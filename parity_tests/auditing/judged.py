"""An operation's results and gradients against its counterpart in JAX, at the numbers that it had in the step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from torch import Tensor
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from parity_tests.auditing.operation import AS_IT_SHOULD_BE, NO_BOUND, NOT_FINITE
from parity_tests.auditing.program import NotFollowed, Program, is_integral, is_real, stop_gradient
from parity_tests.certificate.certificate import Row, compared
from parity_tests.certificate.within_bounds import bounds_of
from parity_tests.conversion.graph import Graph, OneReal, numbers_of
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned_jax

_WIDE = np.dtype(np.float64)
GIVEN_NAN = "it was given a NaN"
COTANGENT_NAN = "its gradients are not judged, since its cotangent has a NaN"


@dataclass(frozen=True)
class Differentiated:
    """An operation with the cotangents that it had, and the gradients that it returned.

    Attributes:
        program: the operation.
        cotangents: by the places of its results; of the others it has none.
        gradients: by the places of its inputs; None is zero.
        compared: the places of the results that are compared.
    """

    program: Program
    cotangents: dict[int, Tensor]
    gradients: dict[int, Tensor | None]
    compared: Collection[int]


@dataclass(frozen=True)
class Compared:
    """A comparison of an operation with its counterpart.

    Attributes:
        rows: the comparisons, those of its results first.
        arrays: all that were compared, by name.
        reason: why its gradients were not.
    """

    rows: Sequence[Row]
    arrays: Mapping[str, np.ndarray]
    reason: str


class _Stored(NamedTuple):
    """An array of an operation: the exact one with its bound, and the one that was found.

    `is_finite`: whether all numbers that it was made of are.
    """

    name: str
    exact: np.ndarray
    bound: np.ndarray
    found: np.ndarray
    is_finite: bool


def compare(operation: Differentiated) -> Compared:
    """Compare an operation's results, and its gradients, with JAX's at the same inputs and cotangents.

    All that JAX computes is in float64. An error may be as large as the program allows in the narrowest dtype
    among the operation's tensors (`harness.rounding`). Of a NaN among its inputs or cotangents another is to blame.

    Raises:
        NotFollowed: there is nothing to compare it with.
        CannotConvert: the same, in an operator of it.
    """
    program, cotangents, gradients = operation.program, operation.cotangents, operation.gradients
    precision = _format(program)
    numbers = [numbers_of(x.before()) for x in program.inputs]
    real = [i for i, x in enumerate(program.inputs) if is_real(x.tensor)]
    drawn = [_numbers(c, program.outputs[k].tensor.shape) for k, c in cotangents.items()]
    given = [*(numbers[i].astype(_WIDE) for i in real), *drawn]
    if any(np.isnan(x).any() for x in given[: len(real)]):
        raise NotFollowed(GIVEN_NAN)
    with pinned_jax():
        pairs = bounds_of(_counterpart(operation, numbers, real, given), given, precision)
    if isinstance(pairs, str):
        raise NotFollowed(f"no bound of its rounding errors is known: {pairs}")
    moved = [i for i in real if i in gradients]
    found = [numbers_of(y.before()) for y in program.outputs]
    for y, (x, _) in zip(found, pairs, strict=False):
        if y.dtype.kind in "iub" and not np.array_equal(x, y):
            raise NotFollowed("it chose otherwise among equal numbers, since its integers are not JAX's")
    of_inputs, of_all = (all(np.isfinite(x).all() for x in each) for each in (given[: len(real)], given))
    stored = [
        _Stored(f"result {k}" if len(found) > 1 else "result", *pairs[k], found[k], of_inputs and program.is_finite)
        for k in operation.compared
    ]
    undefined = any(np.isnan(c).any() for c in drawn)
    for i, pair in zip([] if undefined else moved, pairs[len(found) :], strict=not undefined):
        gradient = _numbers(gradients[i], numbers[i].shape)
        stored.append(_Stored(f"gradient of {program.names[i]}", *pair, gradient, of_all))
    names = [
        *(f"input {name.removeprefix('input ')}" for name in program.names),
        *(f"cotangent {k}" for k in cotangents),
    ]
    arrays = dict(zip(names, [*numbers, *drawn], strict=True))
    for each in stored:
        arrays |= {each.name: each.found, f"right {each.name}": each.exact, f"bound of {each.name}": each.bound}
    return Compared([_row(each, precision.tiny) for each in stored], arrays, COTANGENT_NAN if undefined else "")


# The programs of JAX: operations that differ in their numbers only have one, in this audit or another.
_TRACED: dict[Any, core.ClosedJaxpr] = {}
_MOST = 1024


def _counterpart(
    operation: Differentiated, numbers: Sequence[np.ndarray], real: Sequence[int], given: Sequence[np.ndarray]
) -> core.ClosedJaxpr:
    """Return the program of an operation's results and gradients, of its real inputs and its cotangents."""
    program, places = operation.program, [*operation.cotangents]
    moved = [i for i in real if i in operation.gradients]

    def in_jax(*arrays: jax.Array) -> list[jax.Array]:
        inputs: list[Any] = [*numbers]  # an index stays one of NumPy, whose numbers are known
        for i, array in zip(real, arrays, strict=False):
            inputs[i] = array

        def results(*by: jax.Array) -> Any:
            for i, array in zip(moved, by, strict=True):
                inputs[i] = array
            stopped = {node: lax.stop_gradient for node in program.graph.nodes if node.target is stop_gradient}
            graph = Graph(program, OneReal(_WIDE), _no_number, detaches=False, functions=stopped)
            found = list(map(jnp.asarray, graph.run(inputs)))
            return [found[k] for k in places], found

        if not moved:
            return results()[1]
        _, pull, found = jax.vjp(results, *(inputs[i] for i in moved), has_aux=True)
        return [*found, *pull(list(arrays[len(real) :]))]

    if len(real) < len(numbers):  # the program has the numbers of integers in it
        return jax.make_jaxpr(in_jax)(*given)
    key = program.text, tuple(moved), tuple(places), tuple(x.shape for x in given)
    if key not in _TRACED:
        if len(_TRACED) == _MOST:
            del _TRACED[next(iter(_TRACED))]  # the oldest
        _TRACED[key] = jax.make_jaxpr(in_jax)(*given)
    return _TRACED[key]


def _no_number(node: Node, _: Any) -> Any:
    raise NotFollowed(f"{node.target} draws random numbers")


def _numbers(x: Tensor | None, shape: Sequence[int]) -> np.ndarray:
    return np.zeros(shape) if x is None else numbers_of(x).astype(_WIDE)


def _format(program: Program) -> Precision:
    """The narrowest dtype that a tensor of the operation has.

    Raises:
        NotFollowed: one is of complex numbers, or of a dtype whose roundings are no rounding errors.
    """
    tensors = [x for node in program.graph.nodes for x in tree_leaves(node.meta.get("val")) if isinstance(x, Tensor)]
    inexact = [x.dtype for x in (*tensors, *(y.tensor for y in program.outputs)) if not is_integral(x)]
    names = {str(dtype).removeprefix("torch.") for dtype in inexact}
    unknown = sorted(names - PRECISIONS.keys())
    if unknown:
        raise NotFollowed(f"numbers of {unknown[0]} are not judged here")
    return max((PRECISIONS[name] for name in names or {"float64"}), key=lambda each: each.u)


def _row(of: _Stored, underflow: float) -> Row:
    """The comparison of an array; `underflow`: how much an entry may lose to it where it is stored."""
    exact, found = of.exact, of.found
    if exact.shape != found.shape or exact.dtype.kind not in "f":
        return compared(of.name, exact, of.bound, found)
    bound = np.broadcast_to(of.bound + underflow, exact.shape)
    overflows = np.isinf(found) & np.isfinite(exact)
    known = np.isfinite(bound) & ~overflows
    row = compared(of.name, *(np.where(known, each, 0.0) for each in (exact, bound, found)))
    wrong = ~np.isfinite(found)
    if not row.agrees:
        return row
    if of.is_finite and wrong.any():
        place = tuple(map(int, np.unravel_index(int(np.argmax(wrong)), wrong.shape)))
        right = f"{exact[place]:.3g} is right" if np.isfinite(exact[place]) else AS_IT_SHOULD_BE
        reason = f"{int(wrong.sum())} of {wrong.size} entries {NOT_FINITE}; at {place} {found[place]}, {right}"
        return Row(of.name, row.error, reason)
    unknown = ~known & ~overflows & ~((exact == found) | (np.isnan(exact) & np.isnan(found)))
    if unknown.any():
        return Row(of.name, None, f"{NO_BOUND} of {int(unknown.sum())} of {unknown.size} entries is known")
    return row
