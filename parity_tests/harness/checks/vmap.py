"""vmap: values and gradients under torch.func.vmap, for every way of batching, against one example at a time."""

import itertools

import numpy as np
import torch

from parity_tests.harness.candidate import refusals
from parity_tests.harness.checks.check import Check

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
    examples = [trial.arguments("vjp", example) for example in range(_EXAMPLES)]

    def gradients(*args):
        return torch.func.vjp(lambda *x: call(x), *args[:count])[1](tuple(args[count:]))

    for dims in _in_dims([x.ndim for x in trial.primals], trial.sample.generic):
        every = (*dims, *_zeros(examples, count))
        batch = [_stacked(xs, dim) for xs, dim in zip(zip(*examples, strict=True), every, strict=True)]
        tensors = trial.tensors(batch)
        with refusals():
            outputs = torch.func.vmap(lambda *x: call(x), in_dims=dims)(*tensors[:count])
            results = torch.func.vmap(gradients, in_dims=every)(*tensors)
        for i, example in enumerate(examples):
            args = [examples[0][j] if dim is None else example[j] for j, dim in enumerate(every)]
            where = f"in_dims {dims}, example {i}"
            yield from trial.compare("forward", args[:count], [y[i] for y in outputs], where)
            yield from trial.compare("vjp", args, [x[i] for x in results], where)
        yield from _autograd_outside(trial, examples, dims)


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
    ("vjp",),
    _run,
    costly=True,
)
