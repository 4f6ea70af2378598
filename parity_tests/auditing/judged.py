"""An operation's results and gradients against its counterpart in JAX, at the numbers that it had in the step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from torch import Tensor
from torch.fx import Node

from parity_tests.auditing.program import NotFollowed, Program, is_integral, is_real, stop_gradient
from parity_tests.auditing.recorded import Recorded, recorded
from parity_tests.auditing.stored import Stored
from parity_tests.auditing.structures import leaves
from parity_tests.certificate.certificate import Row
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
        places: of the program's results, among all that the operation returns; None of one that is none of these.
        changed: the names of the inputs that the operation writes to, by the places of the results that have the new
            numbers.
    """

    program: Program
    cotangents: dict[int, Tensor]
    gradients: dict[int, Tensor | None]
    compared: Collection[int]
    places: Sequence[int | None]
    changed: Mapping[int, str] = field(default_factory=dict)

    @property
    def names(self) -> Sequence[str]:
        """The names of the results."""
        count = len(self.program.outputs)
        return [
            f"{self.changed[k]} afterwards" if k in self.changed else f"result {k}" if count > 1 else "result"
            for k in range(count)
        ]


@dataclass(frozen=True)
class Compared:
    """A comparison of an operation with its counterpart.

    Attributes:
        rows: the comparisons, those of its results first.
        recorded: the operation as data, if something does not agree.
        reason: why its gradients were not.
    """

    rows: Sequence[Row]
    recorded: Recorded | None
    reason: str


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
        Stored(operation.names[k], *pairs[k], found[k], of_inputs and program.is_finite) for k in operation.compared
    ]
    undefined = any(np.isnan(c).any() for c in drawn)
    for i, pair in zip([] if undefined else moved, pairs[len(found) :], strict=not undefined):
        gradient = _numbers(gradients[i], numbers[i].shape)
        stored.append(Stored(f"gradient of {program.names[i]}", *pair, gradient, of_all))
    rows = [each.row(precision.tiny) for each in stored]
    kept = None
    if not all(row.agrees for row in rows):
        of_results = [*zip(operation.names, operation.places, strict=True)]
        kept = recorded(program, of_results, cotangents, precision.name, numbers, stored)
    return Compared(rows, kept, COTANGENT_NAN if undefined else "")


# The programs of JAX: operations that differ in their real numbers only have one, in this audit or another.
_TRACED: dict[Any, core.ClosedJaxpr] = {}
_MOST, _LARGE = 1024, 2**14  # programs; bytes of the integers of one


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

    fixed = [(i, numbers[i]) for i in range(len(numbers)) if i not in real]  # the program has these numbers in it
    if sum(x.nbytes for _, x in fixed) > _LARGE:
        return jax.make_jaxpr(in_jax)(*given)
    has = tuple((i, x.dtype, x.shape, x.tobytes()) for i, x in fixed)
    key = program.text, tuple(moved), tuple(places), tuple(x.shape for x in given), has
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
    tensors = [x for node in program.graph.nodes for x in leaves(node.meta.get("val")) if isinstance(x, Tensor)]
    inexact = [x.dtype for x in (*tensors, *(y.tensor for y in program.outputs)) if not is_integral(x)]
    names = {str(dtype).removeprefix("torch.") for dtype in inexact}
    unknown = sorted(names - PRECISIONS.keys())
    if unknown:
        raise NotFollowed(f"numbers of {unknown[0]} are not judged here")
    return max((PRECISIONS[name] for name in names or {"float64"}), key=lambda each: each.u)
