"""vmap: values, VJP and JVP under vmap, for every way of batching, against one example at a time."""

import functools
import itertools
from dataclasses import replace

import numpy as np

from parity_tests.harness.candidates.reasons import first_to_tell
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
    """The axes of the inputs' batches in each call. Where a candidate is handed an axis as it is, a middle one, too."""
    choices = [(None, 0) if ndim == 0 else (None, *axes) for ndim in ndims]
    if every and len(ndims) <= _ALL_IN_DIMS_UP_TO:
        found = [dims for dims in itertools.product(*choices) if any(d is not None for d in dims)]
    else:
        single = [tuple(0 if i == j else None for i in range(len(ndims))) for j in range(len(ndims))]
        found = dict.fromkeys([*single, (0,) * len(ndims), tuple(c[-1] for c in choices)])
    middle = [_axes_of(ndim, axes)[-1] for ndim in ndims]
    return dict.fromkeys([*found, *([tuple(middle)] if every else [])])


def _axes_of(ndim, axes):
    """The axes at which an argument may have its batch; the last one is a middle axis if there is one."""
    if ndim == 0:
        return (0,)
    return (*axes, 1) if len(axes) > 1 and ndim > 1 else axes


def _run(trial):
    """Compare everything that is supported, then raise the first refusal."""
    refusals, all_hold = [], True

    def calls():
        yield from _calls(trial)
        if not refusals:  # what refuses one vmap is not asked for two, where PyTorch's error may be another
            yield from _nested_calls(trial)

    for compared in calls():
        try:
            for finding in judged(trial, compared):
                all_hold = all_hold and finding.holds
                yield finding
        except Refused as refusal:
            refusals.append(refusal)
    refusal = first_to_tell(refusals, CHECK.name, trial.precision.name)
    if refusal is not None and all_hold:
        raise refusal


def _calls(trial):
    ndims, axes, generic = [x.ndim for x in trial.primals], trial.candidate.batch_axes, trial.sample.generic
    forward_mode = functools.cache(functools.partial(has_forward_mode, trial))  # if not, the check "jvp" reports it
    for turn, dims in enumerate(_in_dims(ndims, axes, generic)):
        yield functools.partial(_values, trial, dims)
        yield functools.partial(_gradients, trial, dims, turn)
        if forward_mode():
            yield functools.partial(_tangents, trial, dims, turn)
        yield functools.partial(_gradients_of_all, trial, dims)


def _nested_calls(trial):
    if trial.sample.generic:
        for name in ("forward", "vjp"):
            yield functools.partial(_nested, trial, name)


def _values(trial, dims):
    examples = [args[: len(dims)] for args in _examples(trial)]
    with under(f"in_dims {dims}"):
        outputs = trial.candidate.vmap(dims, trial.tensors(_batch(examples, dims)))
    yield from of_examples(trial, "forward", _unbatched(examples, dims), outputs, f"in_dims {dims}")


def _gradients(trial, dims, turn):
    examples = _examples(trial)
    every = _with_directions(trial, examples, dims, turn)
    where = _in_words(dims, every, "cotangents")
    with under(where):
        results = trial.candidate.vmap_of_vjp(len(dims), every, trial.tensors(_batch(examples, every)))
    yield from of_examples(trial, "vjp", _unbatched(examples, every), results, where)


def _tangents(trial, dims, turn):
    examples = [trial.arguments("jvp", example) for example in range(_EXAMPLES)]
    every = _with_directions(trial, examples, dims, turn)
    where = _in_words(dims, every, "tangents")
    with under(where):
        results = trial.candidate.vmap_of_jvp(len(dims), every, trial.tensors(_batch(examples, every)))
    yield from of_examples(trial, "jvp", _unbatched(examples, every), results, where)


def _in_words(dims, every, directions):
    of_directions = every[len(dims) :]
    return f"in_dims {dims}" + (
        f", of the {directions} {of_directions}" if any(dim != 0 for dim in of_directions) else ""
    )


def _nested(trial, name):
    """vmap of vmap: of every three arguments the first has both batch axes, the second the outer, the third the inner.

    A rule sees the inner axis only; what it calls must be right for the outer one.
    """
    examples, pair = [trial.arguments("vjp", example) for example in range(_EXAMPLES**2)], range(_EXAMPLES)
    members = range(len(trial.primals) if name == "forward" else len(examples[0]))
    arguments = [  # of each example
        [examples[(_EXAMPLES * outer + inner, outer, inner)[i % 3]][i] for i in members]
        for outer in pair
        for inner in pair
    ]
    of_inner = [arguments[_EXAMPLES * outer : _EXAMPLES * (outer + 1)] for outer in pair]
    inner = tuple(None if i % 3 == 1 else 0 for i in members)
    outer = tuple(None if i % 3 == 2 else trial.candidate.batch_axes[-1] for i in members)
    batch = _batch([_batch(some, inner) for some in of_inner], outer)
    where = f"in_dims {inner} inside of a vmap with in_dims {outer}"
    with under(where):
        if name == "forward":
            results = trial.candidate.vmap(inner, trial.tensors(batch), outer)
        else:
            results = trial.candidate.vmap_of_vjp(len(trial.primals), inner, trial.tensors(batch), outer)
    wrong = list(_wrongly_batched(trial, name, (_EXAMPLES, _EXAMPLES), results, where))
    yield from wrong
    if not wrong:
        flat = [None if x is None else x.flatten(0, 1) for x in results]
        yield from of_examples(trial, name, arguments, flat, where)


def of_examples(trial, name, arguments, results, where):
    """A map's results for a batch, which is the first axis of each, compared example by example.

    Facts instead, with both shapes, if that axis is missing or has another size.
    """
    wrong = list(_wrongly_batched(trial, name, (len(arguments),), results, where))
    yield from wrong
    if not wrong:
        for i, args in enumerate(arguments):
            own = [None if x is None else x[i] for x in results]
            yield from trial.compare(name, args, own, f"{where}, example {i}")


def _wrongly_batched(trial, name, sizes, results, where):
    shapes = trial.oracle.shapes(tuple(x.shape for x in trial.primals))
    for slot, x in zip(trial.oracle.map(name).results, results, strict=False):  # `compare` looks at their number
        if x is not None and tuple(x.shape[: len(sizes)]) != sizes:
            expected = (*sizes, *shapes[slot.like])
            batch = " times ".join(map(str, sizes))
            text = f"has shape {tuple(x.shape)} for a batch of {batch}, the oracle's is {expected}"
            yield Fact(slot.label, False, text, where)


def _gradients_of_all(trial, dims):
    """The gradients of a vmapped call: of an input that is not batched, the sum over the examples."""
    examples = _examples(trial)
    every = (*dims, *(0,) * (len(examples[0]) - len(dims)))
    where = f"in_dims {dims}, the derivative of the vmapped call"
    with under(where):
        gradients = trial.candidate.vjp_of_vmap(dims, trial.tensors(_batch(examples, every)))
    slots, arguments = trial.oracle.map("vjp").results, _unbatched(examples, every)
    own = {slot.label for slot, dim in zip(slots, dims, strict=True) if dim is not None}
    for i, args in enumerate(arguments):
        parts = [None if dim is None or x is None else x.select(dim, i) for x, dim in zip(gradients, dims, strict=True)]
        yield from trial.compare("vjp", args, parts, f"{where}, example {i}", only=own)
    truths = zip(*(trial.truth("vjp", args) for args in arguments), strict=True)
    for k, (dim, gradient, of_examples) in enumerate(zip(dims, gradients, truths, strict=True)):
        if dim is not None:
            continue
        bound = sum(y.bound for y in of_examples) + trial.precision.u * sum(np.abs(y.value) for y in of_examples)
        total = replace(of_examples[0], value=sum(y.value for y in of_examples), bound=bound)
        findings = list(trial.compare_result("vjp", total, gradient, where))
        if not all(finding.holds for finding in findings):  # at a kink each example has a choice
            bound = bound + sum(jumps(trial, "vjp", args)[k] for args in arguments)
            findings = list(trial.compare_result("vjp", replace(total, bound=bound), gradient, where))
        yield from findings


def _examples(trial):
    return [trial.arguments("vjp", example) for example in range(_EXAMPLES)]


def _with_directions(trial, examples, dims, turn):
    """The axes of the inputs' batches, and of the directions': on generic samples other ones from call to call.

    None is one direction for all examples. No call more than with all of them in front, and every axis has its turn.
    """
    directions = examples[0][len(dims) :]
    if not trial.sample.generic:
        return (*dims, *(0,) * len(directions))
    return (*dims, *(_turns(x.ndim, trial.candidate.batch_axes, turn + i) for i, x in enumerate(directions)))


def _turns(ndim, axes, turn):
    first, *others = _axes_of(ndim, axes)
    choices = (*others[:1], None, first, *others[1:]) if others else (first, None)
    return choices[turn % len(choices)]


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
