"""linearity: the VJP is additive in its cotangents, and homogeneous over six orders of magnitude and both signs.

The parts into which cotangents are divided are sparse as those of losses are: every other entry is 0; only the last row
is not, as where one token has a loss; each row has one entry, as those of a Jacobian and of a cross entropy have.

A power of two changes no rounding of sums and products, so that Jᵀ(s w) and s Jᵀ w agree bit for bit, but for what
underflows. A VJP of other arithmetic is right up to its bound and no further: one that takes logarithms of its
cotangents, as that of a sum of exponentials, or scales and squares by their norm, as that of a matrix's exponential.
It is told by factors of 2, which change many entries of such a gradient at once, and few of one that clips or skips:
there the scaled gradients are judged by their bounds alone.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.numbers import conversion
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.trial.trial import Trial

_SCALES = {"-1": -1.0, "2^-10": 2.0**-10, "-2^10": -(2.0**10)}
_GRID = 2.0**14  # multiples of 2^-14 are normal or subnormal numbers of every format even after a scaling by 2^-10


# Shares of a gradient's entries. Logarithms round an entry otherwise at several factors of 2, which a threshold does
# once; a norm that decides between formulas does so with all entries at once.
_SOME, _NEARLY_ALL = 1 / 16, 0.9


def _run(trial: Trial) -> Iterator[Finding]:
    args, count = trial.arguments("vjp"), len(trial.primals)
    primals, cotangents = args[:count], [np.round(w * _GRID) / _GRID for w in args[count:]]
    args = [*primals, *cotangents]
    unscaled = _gradients(trial, args)
    for name, scale in _SCALES.items():
        where = f"the cotangents times {name}, against the gradient times {name}"
        yield from _judged(trial, primals, cotangents, unscaled, where, scale)
    for where, kept in _PARTS.items():  # additive: the oracle is, and each part agrees with it
        masks = [kept(np.indices(w.shape), w.shape) for w in cotangents]
        if all(mask.all() for mask in masks):
            continue  # that is the whole, as of a scalar
        part = [*primals, *(np.where(mask, w, 0.0) for mask, w in zip(masks, cotangents, strict=True))]
        with under(where):
            results = trial.evaluate("vjp", part)
        yield from trial.compare("vjp", part, results, where)


def _gradients(trial: Trial, args: Sequence[np.ndarray]) -> list[Truth]:
    """The candidate's gradients, with the bounds of the oracle's."""
    gradients = []
    for x, truth in zip(trial.evaluate("vjp", args), trial.truth("vjp", args), strict=True):
        value = np.zeros_like(truth.value) if x is None else conversion.to_numpy(x)
        gradients.append(replace(truth, value=value, bound=truth.bound_of(value)))
    return gradients


def _judged(
    trial: Trial,
    primals: Sequence[np.ndarray],
    cotangents: Sequence[np.ndarray],
    gradients: Sequence[Truth],
    where: str,
    scale: float,
) -> list[Finding]:
    """Gradients of scaled cotangents against scaled gradients: exactly, if that can be demanded of the candidate."""
    if trial.device == "cpu":  # elsewhere sums by atomic additions come in another order every time
        found = _scaled(trial, primals, cotangents, gradients, where, scale, _exactly)
        if all(f.holds for f in found) or _rounds_alike(trial, primals, cotangents, scale):
            return found
    return _scaled(trial, primals, cotangents, gradients, where, scale, _within_rounding)


def _rounds_alike(trial: Trial, primals: Sequence[np.ndarray], cotangents: Sequence[np.ndarray], scale: float) -> bool:
    """True if factors of 2, one after the other up to the scale, multiply nearly all entries of a gradient exactly."""
    end = round(math.log2(abs(scale)))
    exponents = range(min(end, 0), max(end, 0)) if end else range(-5, 5)
    changed = np.array([_changed(trial, primals, [2.0**k * w for w in cotangents]) for k in exponents])
    often = (changed.sum(0) > 1).mean()
    return not changed.size or bool(often <= _SOME and changed.mean(-1).max() <= _NEARLY_ALL)


def _changed(trial: Trial, primals: Sequence[np.ndarray], cotangents: Sequence[np.ndarray]) -> np.ndarray:
    """Which entries of a gradient are not twice as large, bit for bit, for twice these cotangents."""
    gradients = _gradients(trial, [*primals, *cotangents])
    found = _scaled(trial, primals, cotangents, gradients, "cotangents twice as large", 2.0, _exactly)
    return np.concatenate([f.wrong.ravel() for f in found if isinstance(f, Comparison)])


def _scaled(
    trial: Trial,
    primals: Sequence[np.ndarray],
    cotangents: Sequence[np.ndarray],
    gradients: Sequence[Truth],
    where: str,
    scale: float,
    allowed: Callable[[Trial, float, Truth, Truth], np.ndarray],
) -> list[Finding]:
    scaled = [*primals, *(scale * w for w in cotangents)]
    with under(where):
        evaluated = trial.evaluate("vjp", scaled)
    found: list[Finding] = []
    for result, gradient, truth in zip(evaluated, gradients, trial.truth("vjp", scaled), strict=True):
        bound = allowed(trial, scale, gradient, truth)
        expected = replace(gradient, value=scale * gradient.value, bound=bound, overflows=truth.overflows)
        found += trial.compare_result("vjp", expected, result, where)
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


def _within_rounding(trial: Trial, scale: float, gradient: Truth, scaled: Truth) -> np.ndarray:
    """How far a right gradient of scaled cotangents may be from the scaled gradient, whatever its arithmetic."""
    with np.errstate(invalid="ignore"):
        both = scaled.bound + abs(scale) * gradient.bound
        return np.where(np.isfinite(both), both, np.inf)


def _exactly(trial: Trial, scale: float, gradient: Truth, scaled: Truth) -> np.ndarray:
    """How far it may be if the cotangents take part in sums and products only: by what underflows.

    What the two running bounds do not have in proportion is what may underflow, U. An error of U flips a later rounding
    by more than U / u with a chance of u only.
    """
    both = _within_rounding(trial, scale, gradient, scaled)
    if abs(scale) == 1:
        return np.where(np.isfinite(both), 0.0, np.inf)
    running, scaled_running = (y.bound if y.running is None else y.running for y in (gradient, scaled))
    with np.errstate(invalid="ignore"):
        underflow = np.abs(scaled_running - abs(scale) * running) / abs(abs(scale) - 1)
        exact = (1 + abs(scale)) * underflow / trial.precision.u_acc
        return np.where(np.isfinite(both), np.fmin(exact, both), np.inf)


CHECK = Check(
    "linearity",
    "a VJP that is not linear: clipped or dropped small cotangents, 0/0 or a skipped row where cotangents are zero",
    ("vjp",),
    _run,
    generic=True,
)
