"""The explanation that a wrong result comes from a right formula that rounds more than the oracle's."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.diagnosis.remark import Remark
from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.specs.spec import FORMULAS
from parity_tests.harness.trial.other_formulas import ALIKE, nearby
from parity_tests.harness.trial.trial import Trial

# Roundings of the largest entry, about as many as a formula has operations. The verdict does not depend on it: it only
# keeps the remark from gross errors, which code has that does something else in the narrow format.
_MODEST = 16
_IN_FLOAT32 = "Round less: compute in float32, long sums above all, and round each result once"
_AS_THE_ORACLE = "Use a formula that loses as few digits as the oracle's, or compute in a wider dtype"


def rounds_more(trial: Trial, wrong: Comparison) -> Remark | None:
    """Say so if the same call shows that an error is rounding.

    In a narrow format: if the result is right in the double one, and the error a few roundings of the largest entry.
    Otherwise: if it is wrong in the double and in the single format, and its error is proportional to the roundoff.
    """
    precision = trial.precision
    if wrong.call is None:
        return None
    if not wrong.oracle[wrong.wrong].any():
        return _noise_about_zero(trial, wrong)
    roundings = _roundings(wrong, precision.u)
    narrow = precision is not precision.double
    there = trial.exists_in(precision.double)
    double = wrong if not narrow else _again(trial, wrong, precision.double) if there else None
    if narrow and double is not None and double.holds:
        return _right_in_double(wrong, precision, roundings) if roundings <= _MODEST and double.evidence else None
    return _in_proportion(trial, wrong, roundings)


def _right_in_double(wrong: Comparison, precision: Precision, roundings: float) -> Remark:
    return Remark(
        f"{wrong.label} is right in {precision.double.name} at the same arguments, and here off by at most "
        f"{math.ceil(roundings)} roundings of its largest entry: a formula that equals the oracle's and rounds more in "
        f"{precision.name}; if that loss is intended, give the formula as {_where_to_give_it(wrong)}",
        _IN_FLOAT32 if precision.is_short else _AS_THE_ORACLE,
    )


def _in_proportion(trial: Trial, wrong: Comparison, roundings: float) -> Remark | None:
    """Return a remark if the error is proportional to the roundoff, from the double to the single format; else None."""
    precision = trial.precision
    other = precision.single if precision is precision.double else precision.double
    if other.name not in trial.oracle.spec.formats or not trial.exists_in(other):
        return None
    try:
        again = _again(trial, wrong, other)
    except Refused:
        return None
    if again is None or again.holds:
        return None
    there = _roundings(again, other.u)
    if not (math.isfinite(roundings) and roundings / ALIKE <= there <= ALIKE * roundings):
        return None
    return Remark(
        f"{wrong.label} is off by {_rounded_up(roundings)} roundings of its largest entry, and in {other.name} by "
        f"{_rounded_up(there)}: the error goes with the roundoff, so the formula equals the oracle's and loses digits "
        f"that the oracle's does not; if that loss is intended, give the formula as {_where_to_give_it(wrong)}",
        _AS_THE_ORACLE,
    )


def _noise_about_zero(trial: Trial, wrong: Comparison) -> Remark | None:
    """Return a remark if the candidate has the rounding noise of terms that cancel where the oracle has exactly 0.

    A single result may be 0 by chance, so that the largest of several arguments nearby counts.
    """
    assert wrong.call is not None
    double, single = trial.precision.double, trial.precision.single
    most: dict[Precision, float] = {}
    for precision in (double, single):
        if not trial.exists_in(precision):
            return None
        calls = [(wrong.call[0], args) for args in nearby(trial, wrong.call[1], precision)]
        again = [_again(trial, replace(wrong, call=call), precision) for call in calls]
        if any(f is None or f.oracle[wrong.wrong].any() for f in again):
            return None
        most[precision] = max(float(np.max(f.error[wrong.wrong])) for f in again if f is not None)
    in_double, in_single = most[double] / double.u, most[single] / single.u
    if not (math.isfinite(in_double) and 0 < in_double <= ALIKE * in_single and in_single <= ALIKE * in_double):
        return None
    return Remark(
        f"{wrong.label} is noise of rounding where 0 is exact: nearby up to {most[double]:.2g} in {double.name} and "
        f"{most[single]:.2g} in {single.name}, as terms that cancel leave it; no wrong derivative is of that size",
        "Compute what is exactly 0 without terms that cancel",
    )


def _rounded_up(roundings: float) -> str:
    return f"{math.ceil(roundings)}" if roundings < 1000 else f"{roundings:.1g}"


def _where_to_give_it(wrong: Comparison) -> str:
    assert wrong.call is not None
    name = wrong.call[0]
    return f"the primal, or as {name}=" if name in FORMULAS else "the primal"


def _roundings(wrong: Comparison, u: float) -> float:
    """The largest error, in roundings of the oracle's largest entry; infinite if either is not finite."""
    judged = np.isfinite(wrong.bound)
    largest = float(np.max(np.abs(wrong.oracle), initial=0.0, where=judged))
    error = float(np.max(wrong.error, initial=0.0, where=judged))
    return error / (u * largest) if 0 < largest < math.inf and math.isfinite(error) else math.inf


def _again(trial: Trial, wrong: Comparison, precision: Precision) -> Comparison | None:
    """The same call in another format, compared; None if its result has another shape.

    Raises:
        Refused: the candidate does not support the format.
    """
    assert wrong.call is not None
    name, args = wrong.call
    there = trial.in_format(precision)
    args = [None if x is None else precision.rounded(x) for x in args]
    truths = there.truth(name, args)
    index = next(i for i, y in enumerate(truths) if y.label == wrong.label)
    result, oracle, bound = there.evaluate(name, args)[index], truths[index].value, truths[index].bound
    value = np.zeros_like(oracle) if result is None else conversion.to_numpy(result)
    if value.shape != oracle.shape:
        return None
    value, oracle, bound = (there.oracle.compared(name, truths[index].like, x) for x in (value, oracle, bound))
    return Comparison(wrong.label, value, oracle, bound)
