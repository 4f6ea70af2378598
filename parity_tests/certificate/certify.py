"""A converted function against PyTorch: end to end, and, where that differs, operator by operator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import torch

from jax_ref.aten import OPERATORS
from parity_tests.certificate.by_operator import culprits
from parity_tests.certificate.certificate import Certificate, Row, compared
from parity_tests.certificate.own_run import OwnRun, own_run
from parity_tests.certificate.within_bounds import bounds_of, cotangents_of
from parity_tests.conversion import trees
from parity_tests.conversion.graph import is_inexact, is_known, listed, numbers_of
from parity_tests.conversion.program import TENSOR, Program
from parity_tests.conversion.to_jax import Converted, without_arrays
from parity_tests.conversion.weights import as_array, as_tensor
from parity_tests.harness.numbers.numerics import pinned

_CONVENTION = re.compile(r"[^.;]*\b(?:derivatives?|gradients?|ties?|kinks?)\b[^.;]*", re.IGNORECASE)


def certify(f: Converted, *example: Any, seed: int = 0, **kwargs: Any) -> Certificate:
    """Compare what `to_jax` returned with PyTorch's own run of the module, in float64.

    The values, the new buffers, and the gradients of a random combination of the results, by all parameters and real
    arguments, are compared entry by entry. What an error may be is derived from the program (`harness.rounding`). All
    real numbers are float64, whatever the code says, as with `precision="exact"`. If something differs, each operator
    is compared by itself at the numbers that PyTorch has there.

    Args:
        f: what `to_jax` returned.
        example: arguments, as for `f`, without `params`: the parameters and buffers are the module's own.
        seed: of the combination.
        kwargs: keyword arguments.

    Raises:
        ValueError: the function draws random numbers.
        CannotConvert: it cannot be made a function of JAX in float64.
    """
    with pinned():
        exact = Converted(f.function, exact=True)
        leaves, structure = trees.flatten((example, kwargs))
        args, kwargs = structure.rebuilt([_wide(x) for x in leaves])
        params = {name: _wide(x) for name, x in exact.weights.tensors.items()}
        program, inputs = exact.program(params, args, kwargs)
        if program.drawing:
            raise ValueError(
                "certify: the function draws random numbers, which PyTorch draws otherwise; call the module's eval(), "
                "and convert it anew"
            )
        names = [*exact.weights.tensors, *exact.names_of(args, kwargs)]
        arrays = [np.asarray(x) for x in inputs]
        constant = {*program.buffers, *program.read}
        moved = [i for i, x in enumerate(arrays) if x.dtype == np.float64 and i not in constant]
        tensors = iter(map(as_tensor, arrays[len(exact.weights.tensors) :]))
        fixed = [next(tensors) if x is TENSOR else x for x in without_arrays(leaves)]
        run = own_run(exact, fixed, structure, moved, seed)
        rows = _end_to_end(program, run, arrays, {i: names[i] for i in moved}, seed)
        wrong = [] if all(row.agrees for row in rows) else culprits(program, arrays, seed)
    known = [name for name in program.operators if is_known(name)]
    return Certificate(
        rows,
        wrong,
        tuple(names[i] for i in program.read),
        {name: OPERATORS.family(listed(name)) for name in known},
        {name: text for name in known if (text := _convention(name))},
    )


def _wide(x: Any) -> Any:
    """An array of real numbers in float64, one of NumPy; of others too; anything else as it is."""
    if not isinstance(x, torch.Tensor | jax.Array | np.ndarray | np.generic):
        return x
    array = numbers_of(x) if isinstance(x, torch.Tensor) else np.asarray(x)
    if not is_inexact(x):
        return as_array(array)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _end_to_end(
    program: Program, run: OwnRun, inputs: Sequence[np.ndarray], moved: Mapping[int, str], seed: int
) -> list[Row]:
    """The comparison of results, new buffers and gradients; `moved` are the names of what these are by."""

    def results(*arrays: jax.Array) -> Any:
        given = dict(zip(moved, arrays, strict=True))
        result, buffers = program.evaluated([given.get(i, x) for i, x in enumerate(inputs)], None)
        leaves = [y for y in jax.tree.leaves(result) if isinstance(y, jax.Array | np.ndarray)]
        return leaves, [buffers[name] for name in program.written]

    shapes = [y.shape for y in jax.eval_shape(results, *(inputs[i] for i in moved))[0]]
    if shapes != [tuple(y.shape) for y in run.outputs]:
        expected = [tuple(y.shape) for y in run.outputs]
        return [Row("outputs", None, f"JAX's shapes are {shapes}, PyTorch's {expected}")]
    drawn = cotangents_of(run.outputs, seed)
    real = [k for k, y in enumerate(run.outputs) if y.dtype == torch.float64]

    def in_jax(*arrays: jax.Array) -> list[jax.Array]:
        def differentiated(*arrays: jax.Array) -> Any:
            leaves, new = results(*arrays)
            return [leaves[k] for k in real], [*leaves, *new]

        _, pull, found = jax.vjp(differentiated, *arrays, has_aux=True)
        return [*found, *pull([drawn[k] for k in real])]

    labels = [f"output {k}" for k in range(len(run.outputs))] + [f"new {name}" for name in program.written]
    labels += [f"gradient of {name}" for name in moved.values()]
    arrays = [inputs[i] for i in moved]
    pairs = bounds_of(jax.make_jaxpr(in_jax)(*arrays), arrays)
    if isinstance(pairs, str):
        return [Row(label, None, f"not compared, no bound: {pairs}") for label in labels]
    tensors = [*run.outputs, *(run.buffers[name] for name in program.written), *run.gradients]
    expected = map(numbers_of, tensors)
    rows = [compared(label, x, e, y) for label, (x, e), y in zip(labels, pairs, expected, strict=True)]
    missed = [name for name in run.written if name not in program.written]
    rows += [Row(f"new {name}", None, "PyTorch writes to it, and the program does not") for name in missed]
    if any(y.is_complex() for y in run.outputs) or any(np.iscomplexobj(x) for x in inputs):
        rows.append(Row("gradients through complex arguments and results", None, "not compared; only values are"))
    return rows


def _convention(name: str) -> str:
    """The part of the operator's docstring that says what its derivative is at a kink, a tie or saturation."""
    found = _CONVENTION.search(inspect.getdoc(OPERATORS[listed(name)]) or "")
    return " ".join(found[0].split()) if found else ""
