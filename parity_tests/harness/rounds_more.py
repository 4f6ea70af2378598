"""Is a wrong result in a narrow format that of a formula which is right, and only rounds more than the oracle's?"""

from __future__ import annotations

import math

import numpy as np

from parity_tests.harness import bridge
from parity_tests.harness.findings import Comparison
from parity_tests.harness.spec import FORMULAS
from parity_tests.harness.trial import Trial

# Roundings of the largest entry, about as many as a formula has operations. The verdict does not depend on it: it only
# keeps the remark from gross errors, which code has that does something else in the narrow format.
_MODEST = 16


def rounds_more(trial: Trial, wrong: Comparison) -> str | None:
    """Say so if the same call is right in float64, and its error here is a few roundings of the largest entry."""
    precision = trial.precision
    if precision is precision.double or wrong.call is None:
        return None
    roundings = _roundings(wrong, precision.u)
    if roundings > _MODEST or not _agrees(trial.widened(), wrong):
        return None
    name, double = wrong.call[0], precision.double.name
    formula = f"the primal, or as {name}=" if name in FORMULAS else "the primal"
    return (
        f"{wrong.label} is right in {double} at the same arguments, and here off by at most {math.ceil(roundings)} "
        f"roundings of its largest entry: a formula that equals the oracle's and rounds more in {precision.name}; if "
        f"that loss is intended, give the formula as {formula}"
    )


def _roundings(wrong: Comparison, u: float) -> float:
    """The largest error, in roundings of the oracle's largest entry; infinite if either is not finite."""
    judged = np.isfinite(wrong.bound)
    largest = float(np.max(np.abs(wrong.oracle), initial=0.0, where=judged))
    error = float(np.max(wrong.error, initial=0.0, where=judged))
    return error / (u * largest) if 0 < largest < math.inf and math.isfinite(error) else math.inf


def _agrees(exact: Trial, wrong: Comparison) -> bool:
    """Is the candidate's result of the same call right in the wider format? No evidence counts as no."""
    assert wrong.call is not None
    name, args = wrong.call
    slots = exact.oracle.map(name).results
    index = next(i for i, slot in enumerate(slots) if slot.label == wrong.label)
    result, (truth, bound) = exact.evaluate(name, args)[index], exact.truth(name, args)[index]
    value = np.zeros_like(truth) if result is None else bridge.to_numpy(result)
    if value.shape != truth.shape:
        return False
    if name != "forward":
        value, truth, bound = (exact.oracle.directed(slots[index].like, x) for x in (value, truth, bound))
    again = Comparison(wrong.label, value, truth, bound)
    return again.holds and again.evidence > 0
