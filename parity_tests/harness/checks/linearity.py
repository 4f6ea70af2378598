"""linearity: the VJP is additive in its cotangents, and homogeneous over six orders of magnitude and both signs.

A power of two changes no rounding, so that Jᵀ(s w) and s Jᵀ w agree bit for bit, but for what underflows.
"""

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
    for parity, which in enumerate(("odd", "even")):  # additive: the oracle is, and each part agrees with it
        part = [*primals, *(np.where(np.arange(w.size).reshape(w.shape) % 2 == parity, w, 0.0) for w in cotangents)]
        where = f"the {which} entries of the cotangents are 0"
        with under(where):
            results = trial.evaluate("vjp", part)
        yield from trial.compare("vjp", part, results, where)


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
    "a VJP that is not linear: clipped or dropped small cotangents, 0/0 where a cotangent is zero",
    ("vjp",),
    _run,
    generic=True,
)
