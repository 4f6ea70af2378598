"""shortcuts: the candidate computes its results itself, from its inputs, and has a backward.

What a solution that was made to pass a test may do instead: return zeros, or what an earlier call returned; call the
reference; write to its inputs; detach its outputs; put functions of its own in the place of PyTorch's. Most of it makes
other checks fail, too, which cannot say what it is; a call of the reference makes none fail.
"""

from dataclasses import replace

import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import may_be_written
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Fact
from parity_tests.harness.numbers import conversion
from parity_tests.harness.solutions.proxy import Solution
from parity_tests.harness.solutions.signs import signs_of
from parity_tests.harness.trial.reference_calls import is_operator, reference_of, watched
from parity_tests.harness.trial.replaced_functions import replaced_functions

_WHO = "the candidate"


def _run(trial):
    yield from _remembered(trial)
    yield from _in_part(trial)
    yield from _written(trial)
    yield from _detached(trial)
    called = getattr(trial.candidate.source, "func", trial.candidate.source)
    if isinstance(called, Solution):
        yield from _said(trial, called)
        return
    replaced = replaced_functions(trial.candidate.source)
    yield _fact(not replaced, f"replaces {', '.join(replaced)} by functions of its own")
    yield from _called(trial)  # last, since the backward raises if what it needs was written to


def _fact(holds, violation):
    """A property of the candidate, which is no evidence that it computes anything if it holds."""
    return Fact(_WHO, holds, violation, evidence=0)


def _said(trial, solution):
    """Yield each sign of a shortcut that the process of a solution reports, after a forward and a backward."""
    args, count = trial.tensors(trial.arguments("vjp")), len(trial.primals)
    before = signs_of(solution)  # of how it was loaded, and of the calls that were made until now
    trial.candidate.vjp(args[:count], args[count:])
    for violation in dict.fromkeys((*before, *signs_of(solution))):
        yield _fact(False, violation)
    yield _fact(True, "")


def _called(trial):
    reference = reference_of(trial.oracle.spec)
    if reference is None:
        return
    count, tensors = len(trial.primals), trial.tensors(trial.arguments("vjp"))
    with watched(reference) as calls:
        if is_operator(reference):  # of which the backward of another one may well be made
            trial.candidate.forward(tensors[:count])
        else:
            trial.candidate.vjp(tensors[:count], tensors[count:])
    yield _fact(not calls, f"calls the reference's {calls[0] if calls else ''}")


def _written(trial):
    """Inputs that are written to by a call without gradients, as an inference makes it."""
    arrays = trial.arguments("forward")
    tensors = trial.tensors(arrays)
    with torch.no_grad():
        trial.candidate.forward(tensors)
    for name, array, tensor in zip(trial.oracle.inputs, arrays, tensors, strict=True):
        same = np.array_equal(conversion.to_numpy(tensor), array, equal_nan=True) and tensor._version == 0
        yield _fact(same, f"writes to its input {name}")


def _detached(trial):
    """Outputs that need no gradient although the oracle's derivative is none of zeros."""
    args, count = trial.arguments("vjp"), len(trial.primals)
    graph = trial.candidate.record(trial.tensors(args)[:count])
    if not any(np.any(np.abs(truth.value) > truth.bound) for truth in trial.truth("vjp", args)):
        return
    detached = not any(y.requires_grad for y in graph.outputs)
    yield Fact(_WHO, not detached, f"returns a detached {trial.oracle.outputs[0]}: no gradient reaches its inputs")


def _remembered(trial):
    """Outputs that do not follow the inputs: at others of the same shapes, and at others in the same memory."""
    arrays = [trial.arguments("forward", example) for example in range(2)]
    truths = [trial.truth("forward", each) for each in arrays]
    tensors = trial.tensors(arrays[0])
    first = _values(trial, tensors)
    second = _values(trial, trial.tensors(arrays[1]))
    for one, other, before, after in zip(*truths, first, second, strict=True):
        if np.any(np.abs(one.value - other.value) > one.bound + other.bound):
            zero = not np.any(before) and not np.any(after)
            text = "is zero at every input" if zero else "does not change with the input"
            yield Fact(one.label, not np.array_equal(before, after, equal_nan=True), text)
    for tensor, new in zip(tensors, trial.tensors(arrays[1]), strict=True):
        if not may_be_written(tensor):
            return
        tensor.detach().copy_(new)
    again = [replace(truth, value=y, bound=np.zeros(y.shape)) for truth, y in zip(truths[1], second, strict=True)]
    for old, truth, exact, result in zip(*truths, again, _values(trial, tensors), strict=True):
        same = np.array_equal(exact.value, result, equal_nan=True)
        near = np.all(np.abs(result - exact.value) <= 2 * truth.bound)
        text = "does not change with the numbers in its input's memory"
        telling = np.any(np.abs(old.value - truth.value) > old.bound + truth.bound)
        yield Fact(truth.label, bool(same or near), text, evidence=int(telling))


def _in_part(trial):
    """Outputs that do not follow the second half of the inputs, as if their first numbers stood for all of them."""
    arrays, others = (trial.arguments("forward", example) for example in range(2))
    changed = [x.copy() for x in arrays]
    for x, other, domain in zip(changed, others, trial.sample.domains, strict=False):
        if domain.elementwise and x.size > 1:
            x.flat[x.size // 2 :] = other.flat[x.size // 2 :]
    truths = [trial.truth("forward", each) for each in (arrays, changed)]
    results = [_values(trial, trial.tensors(each)) for each in (arrays, changed)]
    for one, other, before, after in zip(*truths, *results, strict=True):
        if np.any(np.abs(one.value - other.value) > one.bound + other.bound):
            text = "does not change with the second half of its input"
            yield Fact(one.label, not np.array_equal(before, after, equal_nan=True), text)


def _values(trial, tensors):
    results = trial.counted("forward", trial.candidate.forward(tensors))
    return [conversion.to_numpy(y) for y in results]


CHECK = Check(
    "shortcuts",
    "zeros, results of an earlier call, calls of the reference, writes to inputs, detached outputs, replaced functions",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
    torch_only="JAX arrays are immutable, and JAX functions have no state",
)
