"""vmap: values, VJP and JVP under vmap, for every way of batching, against one example at a time."""

import functools
import itertools

import numpy as np

from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.checks.jvp import has_forward_mode
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact
from parity_tests.harness.oracle.kinks import jumps
from parity_tests.harness.trial.generated_vmap import judged

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
    refusals, all_hold = [], True
    forward_mode = functools.cache(functools.partial(has_forward_mode, trial))  # if not, the check "jvp" reports it
    for dims in _in_dims([x.ndim for x in trial.primals], trial.candidate.batch_axes, trial.sample.generic):
        for compared in (_values, _gradients, _tangents, _gradients_of_all):
            try:
                if compared is _tangents and not forward_mode():
                    continue
                for finding in judged(trial, functools.partial(compared, trial, dims)):
                    all_hold = all_hold and finding.holds
                    yield finding
            except Refused as refusal:
                refusals.append(refusal)
    if refusals and all_hold:
        raise refusals[0]


def _values(trial, dims):
    examples = [args[: len(dims)] for args in _examples(trial)]
    with under(f"in_dims {dims}"):
        outputs = trial.candidate.vmap(dims, trial.tensors(_batch(examples, dims)))
    yield from of_examples(trial, "forward", _unbatched(examples, dims), outputs, f"in_dims {dims}")


def _gradients(trial, dims):
    examples = _examples(trial)
    every = _with_directions(examples, dims)
    with under(f"in_dims {dims}"):
        results = trial.candidate.vmap_of_vjp(dims, trial.tensors(_batch(examples, every)))
    yield from of_examples(trial, "vjp", _unbatched(examples, every), results, f"in_dims {dims}")


def _tangents(trial, dims):
    examples = [trial.arguments("jvp", example) for example in range(_EXAMPLES)]
    every = _with_directions(examples, dims)
    with under(f"in_dims {dims}"):
        results = trial.candidate.vmap_of_jvp(dims, trial.tensors(_batch(examples, every)))
    yield from of_examples(trial, "jvp", _unbatched(examples, every), results, f"in_dims {dims}")


def of_examples(trial, name, arguments, results, where):
    """A map's results for a batch, which is the first axis of each, compared example by example.

    Facts instead, with both shapes, if that axis is missing or has another size.
    """
    wrong = list(_wrongly_batched(trial, name, arguments, results, where))
    yield from wrong
    if not wrong:
        for i, args in enumerate(arguments):
            own = [None if x is None else x[i] for x in results]
            yield from trial.compare(name, args, own, f"{where}, example {i}")


def _wrongly_batched(trial, name, arguments, results, where):
    size, shapes = len(arguments), trial.oracle.shapes(tuple(x.shape for x in trial.primals))
    for slot, x in zip(trial.oracle.map(name).results, results, strict=False):  # `compare` looks at their number
        if x is not None and tuple(x.shape[:1]) != (size,):
            expected = (size, *shapes[slot.like])
            text = f"has shape {tuple(x.shape)} for a batch of {size}, the oracle's is {expected}"
            yield Fact(slot.label, False, text, where)


def _gradients_of_all(trial, dims):
    """The gradients of a vmapped call: of an input that is not batched, the sum over the examples."""
    examples = _examples(trial)
    every = _with_directions(examples, dims)
    where = f"in_dims {dims}, the derivative of the vmapped call"
    with under(where):
        gradients = trial.candidate.vjp_of_vmap(dims, trial.tensors(_batch(examples, every)))
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
