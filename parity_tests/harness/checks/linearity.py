"""linearity: the VJP is additive in its cotangents, and homogeneous over six orders of magnitude and both signs.

The parts into which cotangents are divided are sparse as those of losses are: every other entry is 0; only the last row
is not, as where one token has a loss; each row has one entry, as those of a Jacobian and of a cross entropy have.

A power of two changes no rounding of sums and products, so that Jᵀ(s w) and s Jᵀ w agree bit for bit, but for what
underflows. A VJP that takes logarithms of its cotangents, as those of a sum of exponentials may, is right up to its
bound and no further. It is told by the factors 2 and 1/2, at which nothing is clipped or skipped: where its arithmetic
does not commute with these, either, the scaled gradients are judged by their bounds alone.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Finding
from parity_tests.harness.numbers import conversion
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.trial.trial import Trial

_SCALES = {"-1": -1.0, "2^-10": 2.0**-10, "-2^10": -(2.0**10)}
_GRID = 2.0**14  # multiples of 2^-14 are normal or subnormal numbers of every format even after a scaling by 2^-10


def _run(trial: Trial) -> Iterator[Finding]:
    args, count = trial.arguments("vjp"), len(trial.primals)
    primals, cotangents = args[:count], [np.round(w * _GRID) / _GRID for w in args[count:]]
    args = [*primals, *cotangents]
    truths = trial.truth("vjp", args)
    gradients = [
        np.zeros_like(truth.value) if x is None else conversion.to_numpy(x)
        for x, truth in zip(trial.evaluate("vjp", args), truths, strict=True)
    ]
    unscaled = [replace(truth, value=x) for x, truth in zip(gradients, truths, strict=True)]

    @functools.cache
    def rounds_alike() -> bool:
        scaled = [f for s in (2.0, 0.5) for f in _scaled(trial, primals, cotangents, unscaled, "", s, _exactly)]
        return all(f.holds for f in scaled)

    for name, scale in _SCALES.items():
        where = f"the cotangents times {name}, against the gradient times {name}"
        yield from _judged(trial, primals, cotangents, unscaled, where, scale, rounds_alike)
    for where, kept in _PARTS.items():  # additive: the oracle is, and each part agrees with it
        masks = [kept(np.indices(w.shape), w.shape) for w in cotangents]
        if all(mask.all() for mask in masks):
            continue  # that is the whole, as of a scalar
        part = [*primals, *(np.where(mask, w, 0.0) for mask, w in zip(masks, cotangents, strict=True))]
        with under(where):
            results = trial.evaluate("vjp", part)
        yield from trial.compare("vjp", part, results, where)


def _judged(
    trial: Trial,
    primals: Sequence[np.ndarray],
    cotangents: Sequence[np.ndarray],
    gradients: Sequence[Truth],
    where: str,
    scale: float,
    rounds_alike: Callable[[], bool],
) -> list[Finding]:
    """Gradients of scaled cotangents against scaled gradients: exactly, if that can be demanded of the candidate."""
    if trial.device != "cpu":  # sums by atomic additions come in another order every time
        return _scaled(trial, primals, cotangents, gradients, where, scale, _within_rounding)
    found = _scaled(trial, primals, cotangents, gradients, where, scale, _exactly)
    if all(f.holds for f in found) or rounds_alike():
        return found
    return _scaled(trial, primals, cotangents, gradients, where, scale, _within_rounding)


def _scaled(
    trial: Trial,
    primals: Sequence[np.ndarray],
    cotangents: Sequence[np.ndarray],
    gradients: Sequence[Truth],
    where: str,
    scale: float,
    allowed: Callable[[Trial, float, np.ndarray, np.ndarray], np.ndarray],
) -> list[Finding]:
    scaled = [*primals, *(scale * w for w in cotangents)]
    with under(where):
        evaluated = trial.evaluate("vjp", scaled)
    found: list[Finding] = []
    for result, gradient, truth in zip(evaluated, gradients, trial.truth("vjp", scaled), strict=True):
        bound = allowed(trial, scale, gradient.bound, truth.bound)
        expected = replace(gradient, value=scale * gradient.value, bound=bound)
        found += trial.compare_result(expected, result, where)
    return found


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


def _within_rounding(trial: Trial, scale: float, bound: np.ndarray, scaled_bound: np.ndarray) -> np.ndarray:
    """How far a right gradient of scaled cotangents may be from the scaled gradient, whatever its arithmetic."""
    with np.errstate(invalid="ignore"):
        both = scaled_bound + abs(scale) * bound
        return np.where(np.isfinite(both), both, np.inf)


def _exactly(trial: Trial, scale: float, bound: np.ndarray, scaled_bound: np.ndarray) -> np.ndarray:
    """How far it may be if the cotangents take part in sums and products only: by what underflows.

    What the two bounds do not have in proportion is what may underflow, U. An error of U flips a later rounding by more
    than U / u with a chance of u only.
    """
    both = _within_rounding(trial, scale, bound, scaled_bound)
    if abs(scale) == 1:
        return np.where(np.isfinite(both), 0.0, np.inf)
    with np.errstate(invalid="ignore"):
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
