"""vmap: values, VJP and JVP under vmap, for every way of batching, against one example at a time."""

import itertools

import numpy as np

from parity_tests.harness.candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.checks.jvp import has_forward_mode
from parity_tests.harness.kinks import jumps

_EXAMPLES = 2
_ALL_IN_DIMS_UP_TO = 3  # inputs; beyond, one input at a time and all of them


def _in_dims(ndims, axes, every):
    choices = [(None, 0) if ndim == 0 else (None, *axes) for ndim in ndims]
    if every and len(ndims) <= _ALL_IN_DIMS_UP_TO:
        return [dims for dims in itertools.product(*choices) if any(d is not None for d in dims)]
    single = [tuple(0 if i == j else None for i in range(len(ndims))) for j in range(len(ndims))]
    return dict.fromkeys([*single, (0,) * len(ndims), tuple(c[-1] for c in choices)])


def _run(trial):
    """Everything that is supported is compared before a refusal is passed on."""
    findings, refusals = [], []
    for dims in _in_dims([x.ndim for x in trial.primals], trial.candidate.batch_axes, trial.sample.generic):
        for compared in (_values, _gradients, _tangents, _gradients_of_all):
            try:
                findings += list(compared(trial, dims))
            except Refused as refusal:
                refusals.append(refusal)
    if refusals and all(finding.holds for finding in findings):
        raise refusals[0]
    yield from findings


def _values(trial, dims):
    examples = [args[: len(dims)] for args in _examples(trial)]
    outputs = trial.candidate.vmap(dims, trial.tensors(_batch(examples, dims)))
    for i, args in enumerate(_unbatched(examples, dims)):
        yield from trial.compare("forward", args, [y[i] for y in outputs], f"in_dims {dims}, example {i}")


def _gradients(trial, dims):
    examples = _examples(trial)
    every = _with_directions(examples, dims)
    results = trial.candidate.vmap_of_vjp(dims, trial.tensors(_batch(examples, every)))
    for i, args in enumerate(_unbatched(examples, every)):
        yield from trial.compare("vjp", args, [x[i] for x in results], f"in_dims {dims}, example {i}")


def _tangents(trial, dims):
    if not has_forward_mode(trial):
        return  # the check "jvp" reports it
    examples = [trial.arguments("jvp", example) for example in range(_EXAMPLES)]
    every = _with_directions(examples, dims)
    results = trial.candidate.vmap_of_jvp(dims, trial.tensors(_batch(examples, every)))
    for i, args in enumerate(_unbatched(examples, every)):
        yield from trial.compare("jvp", args, [x[i] for x in results], f"in_dims {dims}, example {i}")


def _gradients_of_all(trial, dims):
    """The gradients of a vmapped call: of an input that is not batched, the sum over the examples."""
    examples = _examples(trial)
    every = _with_directions(examples, dims)
    gradients = trial.candidate.vjp_of_vmap(dims, trial.tensors(_batch(examples, every)))
    where = f"in_dims {dims}, the derivative of the vmapped call"
    slots, arguments = trial.oracle.map("vjp").results, _unbatched(examples, every)
    own = {slot.label for slot, dim in zip(slots, dims, strict=True) if dim is not None}
    for i, args in enumerate(arguments):
        parts = [None if dim is None or x is None else x.select(dim, i) for x, dim in zip(gradients, dims, strict=True)]
        yield from trial.compare("vjp", args, parts, f"{where}, example {i}", only=own)
    truths = zip(*(trial.truth("vjp", args) for args in arguments), strict=True)
    for k, (slot, dim, gradient, of_examples) in enumerate(zip(slots, dims, gradients, truths, strict=True)):
        if dim is not None:
            continue
        values, bounds = ([pair[i] for pair in of_examples] for i in range(2))
        bound = sum(bounds) + trial.precision.u * sum(map(np.abs, values))
        findings = list(trial.compare_result(slot, gradient, sum(values), bound, where))
        if not all(finding.holds for finding in findings):  # at a kink each example has a choice
            bound += sum(jumps(trial, "vjp", args)[k] for args in arguments)
            findings = list(trial.compare_result(slot, gradient, sum(values), bound, where))
        yield from findings


def _examples(trial):
    return [trial.arguments("vjp", example) for example in range(_EXAMPLES)]


def _with_directions(examples, dims):
    return (*dims, *(0,) * (len(examples[0]) - len(dims)))


def _batch(examples, dims):
    arguments = zip(zip(*examples, strict=True), dims, strict=True)
    return [xs[0] if dim is None else np.stack(xs, axis=dim) for xs, dim in arguments]


def _unbatched(examples, dims):
    """Every example's arguments; of those that are not batched, the first example's."""
    return [
        [first if dim is None else own for first, own, dim in zip(examples[0], example, dims, strict=True)]
        for example in examples
    ]


CHECK = Check(
    "vmap",
    "a rule that mixes the examples of a batch, or handles only one way of batching",
    ("vjp", "jvp"),
    _run,
    costly=True,
)
