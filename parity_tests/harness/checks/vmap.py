"""vmap: values, VJP and JVP under torch.func.vmap, for every way of batching, against one example at a time."""

import itertools

import numpy as np
import torch

from parity_tests.harness.candidate import refusals
from parity_tests.harness.checks.check import Check
from parity_tests.harness.checks.jvp import has_forward_mode

_EXAMPLES = 2
_ALL_IN_DIMS_UP_TO = 3  # inputs; beyond, one input at a time and all of them


def _in_dims(ndims, every):
    choices = [(None, 0) if ndim == 0 else (None, 0, -1) for ndim in ndims]
    if every and len(ndims) <= _ALL_IN_DIMS_UP_TO:
        return [dims for dims in itertools.product(*choices) if any(d is not None for d in dims)]
    single = [tuple(0 if i == j else None for i in range(len(ndims))) for j in range(len(ndims))]
    return [*single, (0,) * len(ndims), tuple(c[-1] for c in choices)]


def _run(trial):
    count, call = len(trial.primals), trial.candidate.forward

    def forward(*args):
        return call(args)

    def gradients(*args):
        return torch.func.vjp(forward, *args[:count])[1](tuple(args[count:]))

    def tangents(*args):
        return torch.func.jvp(forward, args[:count], args[count:])[1]

    maps, forward_mode = {"forward": forward, "vjp": gradients, "jvp": tangents}, has_forward_mode(trial)
    examples = {name: [trial.arguments(name, example) for example in range(_EXAMPLES)] for name in maps}
    for dims in _in_dims([x.ndim for x in trial.primals], trial.sample.generic):
        yield from _batched(trial, "forward", forward, examples["forward"], dims)
        yield from _batched(trial, "vjp", gradients, examples["vjp"], dims)
        if forward_mode:  # else the check "jvp" reports it
            yield from _batched(trial, "jvp", tangents, examples["jvp"], dims)
        yield from _autograd_outside(trial, examples["vjp"], dims)


def _batched(trial, name, function, examples, dims):
    """A map under vmap; cotangents and tangents are batched along their first axis."""
    every = (*dims, *_zeros(examples, len(dims)))
    batch = [_stacked(xs, dim) for xs, dim in zip(zip(*examples, strict=True), every, strict=True)]
    with refusals():
        results = torch.func.vmap(function, in_dims=every)(*trial.tensors(batch))
    for i, example in enumerate(examples):
        args = [examples[0][j] if dim is None else example[j] for j, dim in enumerate(every)]
        yield from trial.compare(name, args, [y[i] for y in results], f"in_dims {dims}, example {i}")


def _autograd_outside(trial, examples, dims):
    """The gradients of a vmapped call by autograd: of an input that is not batched, the sum over the examples."""
    count = len(dims)
    batch = [
        _stacked(xs, dim)
        for xs, dim in zip(zip(*examples, strict=True), (*dims, *_zeros(examples, count)), strict=True)
    ]
    tensors = trial.tensors(batch)
    leaves, cotangents = [x.requires_grad_() for x in tensors[:count]], tensors[count:]
    with refusals():
        outputs = torch.func.vmap(lambda *x: trial.candidate.forward(x), in_dims=dims)(*leaves)
        pairs = [(y, w) for y, w in zip(outputs, cotangents, strict=True) if y.requires_grad]
        roots, weights = zip(*pairs, strict=True) if pairs else ((), ())
        gradients = torch.autograd.grad(roots, leaves, weights, allow_unused=True) if pairs else [None] * count
    truths = [
        trial.truth("vjp", [examples[0][j] if j < count and dims[j] is None else x for j, x in enumerate(example)])
        for example in examples
    ]
    where = f"in_dims {dims}, autograd outside of vmap"
    labels = trial.oracle.map("vjp").results
    for slot, dim, gradient, of_examples in zip(labels, dims, gradients, zip(*truths, strict=True), strict=True):
        values, bounds = ([pair[i] for pair in of_examples] for i in range(2))
        if dim is None:
            rounding = trial.precision.u * sum(map(np.abs, values))
            yield from trial.compare_result(slot, gradient, sum(values), sum(bounds) + rounding, where)
        else:
            parts = [None] * _EXAMPLES if gradient is None else gradient.unbind(dim)
            for i, part in enumerate(parts):
                yield from trial.compare_result(slot, part, values[i], bounds[i], f"{where}, example {i}")


def _zeros(examples, count):
    return (0,) * (len(examples[0]) - count)


def _stacked(examples, dim):
    return examples[0] if dim is None else np.stack(examples, axis=dim)


CHECK = Check(
    "vmap",
    "a rule that mixes the examples of a batch, or handles only one way of batching",
    ("vjp", "jvp"),
    _run,
    costly=True,
)
