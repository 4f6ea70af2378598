"""linearity: the VJP is additive in its cotangents, and homogeneous over six orders of magnitude and both signs.

The parts into which cotangents are divided are sparse as those of losses are: every other entry is 0; only the last row
is not, as where one token has a loss; each row has one entry, as those of a Jacobian and of a cross entropy have.

A power of two changes no rounding, so that Jᵀ(s w) and s Jᵀ w agree bit for bit, but for what underflows.
"""

import math
from dataclasses import replace

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.numbers import conversion

_SCALES = {"-1": -1.0, "2^-10": 2.0**-10, "-2^10": -(2.0**10)}
_GRID = 2.0**14  # multiples of 2^-14 are normal or subnormal numbers of every format even after a scaling by 2^-10


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    primals, cotangents = args[:count], [np.round(w * _GRID) / _GRID for w in args[count:]]
    args = [*primals, *cotangents]
    truths = trial.truth("vjp", args)
    gradients = [
        np.zeros_like(truth.value) if x is None else conversion.to_numpy(x)
        for x, truth in zip(trial.evaluate("vjp", args), truths, strict=True)
    ]
    for name, scale in _SCALES.items():
        scaled = [*primals, *(scale * w for w in cotangents)]
        where = f"the cotangents times {name}, against the gradient times {name}"
        with under(where):
            evaluated = trial.evaluate("vjp", scaled)
        results = zip(evaluated, gradients, truths, trial.truth("vjp", scaled), strict=True)
        for result, gradient, truth, of_scaled in results:
            allowed = _allowed(trial, scale, truth.bound, of_scaled.bound)
            expected = replace(truth, value=scale * gradient, bound=allowed)
            yield from trial.compare_result(expected, result, where)
    for where, kept in _PARTS.items():  # additive: the oracle is, and each part agrees with it
        masks = [kept(np.indices(w.shape), w.shape) for w in cotangents]
        if all(mask.all() for mask in masks):
            continue  # that is the whole, as of a scalar
        part = [*primals, *(np.where(mask, w, 0.0) for mask, w in zip(masks, cotangents, strict=True))]
        with under(where):
            results = trial.evaluate("vjp", part)
        yield from trial.compare("vjp", part, results, where)


def _entries(shape):
    return np.arange(math.prod(shape)).reshape(shape)


def _one_in_each_row(at, shape):
    """A mask of one entry along the last axis, another one in each row."""
    if not shape:
        return np.ones(shape, bool)
    return at[-1] == at[:-1].sum(0) * 5 % max(shape[-1], 1)


# What a part of the cotangents is, and which entries it has: of the indices along each axis, and the shape.
_PARTS = {
    "the odd entries of the cotangents are 0": lambda at, shape: _entries(shape) % 2 == 0,
    "the even entries of the cotangents are 0": lambda at, shape: _entries(shape) % 2 == 1,
    "all rows of the cotangents but the last are 0": lambda at, shape: (
        at[0] == shape[0] - 1 if shape else np.ones(shape, bool)
    ),
    "each row of the cotangents has one entry that is not 0": _one_in_each_row,
}


def _allowed(trial, scale, bound, scaled_bound):
    """How far a gradient of scaled cotangents may be from the scaled gradient.

    What the two bounds do not have in proportion is what may underflow, U. An error of U flips a later rounding by more
    than U / u with a chance of u only.
    """
    with np.errstate(invalid="ignore"):
        both = scaled_bound + abs(scale) * bound
        if trial.device != "cpu":  # sums by atomic additions come in another order every time
            return both
        if abs(scale) == 1:
            return np.where(np.isfinite(both), 0.0, np.inf)
        underflow = np.abs(scaled_bound - abs(scale) * bound) / abs(abs(scale) - 1)
        exact = (1 + abs(scale)) * underflow / trial.precision.u_acc
        return np.where(np.isfinite(both), np.minimum(exact, both), np.inf)


CHECK = Check(
    "linearity",
    "a VJP that is not linear: clipped or dropped small cotangents, 0/0 or a skipped row where cotangents are zero",
    ("vjp",),
    _run,
    generic=True,
)
