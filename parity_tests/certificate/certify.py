"""A converted function against PyTorch: end to end, and, where that differs, operator by operator."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import torch

from jax_ref.aten import OPERATORS
from parity_tests.certificate.by_operator import culprits
from parity_tests.certificate.certificate import Certificate, Row, compared
from parity_tests.certificate.within_bounds import bounds_of, cotangents_of
from parity_tests.conversion import trees
from parity_tests.conversion.exported import in_float64
from parity_tests.conversion.graph import is_inexact, is_known, listed, numbers_of
from parity_tests.conversion.program import Program, Returned
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
        returned = list[Returned]()
        function = exact.pytorch(without_arrays(leaves), structure, returned)
        names = [*exact.weights.tensors, *exact.names_of(args, kwargs)]
        arrays = [np.asarray(x) for x in inputs]
        with exact.as_at_first():
            rows = _end_to_end(program, function, returned, arrays, names, seed)
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
    program: Program, function: Any, returned: Sequence[Returned], inputs: Sequence[np.ndarray], names: Any, seed: int
) -> list[Row]:
    constant = {*program.buffers, *program.read}
    moved = [i for i, x in enumerate(inputs) if x.dtype == np.float64 and i not in constant]
    outputs, new, gradients = _of_pytorch(program, function, returned, inputs, moved, seed)
    drawn = cotangents_of(outputs, seed)
    real = [k for k, y in enumerate(outputs) if y.dtype == torch.float64]

    def results(*arrays: jax.Array) -> Any:
        given = dict(zip(moved, arrays, strict=True))
        result, buffers = program.evaluated([given.get(i, x) for i, x in enumerate(inputs)], None)
        leaves = [y for y in jax.tree.leaves(result) if isinstance(y, jax.Array | np.ndarray)]
        return [leaves[k] for k in real], [*leaves, *(buffers[name] for name in program.written)]

    def in_jax(*arrays: jax.Array) -> list[jax.Array]:
        _, pull, found = jax.vjp(results, *arrays, has_aux=True)
        return [*found, *pull([drawn[k] for k in real])]

    labels = [f"output {k}" for k in range(len(outputs))] + [f"new {name}" for name in program.written]
    labels += [f"gradient of {names[i]}" for i in moved]
    pairs = bounds_of(in_jax, [inputs[i] for i in moved])
    if isinstance(pairs, str):
        return [Row(label, None, f"not compared, no bound: {pairs}") for label in labels]
    expected = [numbers_of(y) for y in (*outputs, *new, *gradients)]
    rows = [compared(label, x, e, y) for label, (x, e), y in zip(labels, pairs, expected, strict=True)]
    if any(y.is_complex() for y in outputs) or any(np.iscomplexobj(x) for x in inputs):
        rows.append(Row("gradients through complex arguments and results", None, "not compared; only values are"))
    return rows


def _of_pytorch(
    program: Program,
    function: Any,
    returned: Sequence[Returned],
    inputs: Sequence[np.ndarray],
    moved: Sequence[int],
    seed: int,
) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor], Sequence[torch.Tensor]]:
    """PyTorch's results, the buffers that it has written to, and the gradients of the random combination."""
    leaves = [as_tensor(x).requires_grad_(i in moved) for i, x in enumerate(inputs)]
    tensors = [x.clone() if i in moved else x for i, x in enumerate(leaves)]  # an argument may be written to
    with in_float64():
        found = function(*tensors)
    count = len(found) - len(returned[-1].replaced)
    replaced = dict(zip(returned[-1].replaced, found[count:], strict=True))
    position = {name: i for i, name in program.buffers.items()}
    new = [replaced[name] if name in replaced else tensors[position[name]] for name in program.written]
    pairs = zip(cotangents_of(found[:count], seed), found[:count], strict=True)
    total: Any = sum((torch.as_tensor(c) * y).sum() for c, y in pairs if y.requires_grad and y.is_floating_point())
    own = [leaves[i] for i in moved]
    if not isinstance(total, torch.Tensor) or not own:
        return found[:count], new, [torch.zeros_like(x) for x in own]
    return found[:count], new, torch.autograd.grad(total, own, materialize_grads=True)


def _convention(name: str) -> str:
    """The part of the operator's docstring that says what its derivative is at a kink, a tie or saturation."""
    found = _CONVENTION.search(inspect.getdoc(OPERATORS[listed(name)]) or "")
    return " ".join(found[0].split()) if found else ""
