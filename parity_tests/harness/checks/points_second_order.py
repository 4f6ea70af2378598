"""points_second_order: second derivatives where formulas break, at the special points at which an operator is smooth.

In the first format only, and with more room than a first derivative has: a formula that was not made to be
differentiated twice may lose digits there, and is right. What comes out as NaN, or is off by more than one part in 2^10
of the largest entry, does not do so by rounding in float64 or float32.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Comparison, Finding, NotApplicable
from parity_tests.harness.oracle.certificate_at_ties import is_wrong_at
from parity_tests.harness.oracle.kinks import is_kink
from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.oracle.points import Placement, placements
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.specs.domains import as_constant
from parity_tests.harness.trial.trial import Trial

_MAPS = ("vjp_of_vjp", "jvp_of_vjp")
_GROSS = 2.0**-10  # of the largest entry


def _run(trial: Trial) -> Iterator[Finding]:
    if trial.sample.fixed is not None:
        raise NotApplicable("the inputs are given; special points are made from a signature")
    if trial.precision.u != trial.precision.u_acc:
        raise NotApplicable(f"{trial.precision.name} cannot tell a wrong second derivative from lost digits")
    smooth = [place for place in placements(trial.oracle, trial.sample, trial.precision) if _is_smooth(trial, place)]
    if not smooth:
        raise NotApplicable("at no special point that is known is the operator twice differentiable")
    refused: set[str] = set()  # which the check of that name reports
    has_evidence = False
    for place in smooth:
        for name in _MAPS:
            if name in refused:
                continue
            try:
                findings = list(_at(trial, name, place))
            except Refused:
                refused.add(name)
                continue
            if not all(f.holds for f in findings) and is_wrong_at(trial.oracle, name, trial.sample, place.primals):
                continue  # as its certificate says
            yield from findings
            has_evidence = has_evidence or any(f.evidence for f in findings)
            if not all(f.holds for f in findings):
                return  # one such point is enough
    if refused == {*_MAPS}:
        raise NotApplicable("the candidate refuses to be differentiated twice")
    if not has_evidence:
        raise NotApplicable("at every special point all second derivatives are zero, or have no bound")


def _is_smooth(trial: Trial, place: Placement) -> bool:
    """True if value and first derivative are known there, and neither that nor the second one jumps.

    At a kink a second derivative has no meaning, and where the first one is infinite there is none.
    """
    if not place.finite or place.unlimited or place.may_be_flushed(trial.precision):
        return False
    if not all(_known(truth) for name in ("forward", "vjp") for truth in trial.truth(name, _args(trial, name, place))):
        return False
    if trial.oracle.chooses and not all(_same_of_any_choice(trial, name, place) for name in ("forward", "vjp")):
        return False
    return not is_kink(trial.oracle, "vjp_of_vjp", place.primals, trial.sample)


def _same_of_any_choice(trial: Trial, name: str, place: Placement) -> bool:
    """True if the bounds stay the same when they cover every choice between equal keys of a sort."""
    args = _args(trial, name, place)
    every = trial.oracle.evaluate(name, args, trial.precision.with_any_choice)
    return all(np.array_equal(y.bound, e.bound) for y, e in zip(trial.truth(name, args), every, strict=True))


def _known(truth: Truth) -> bool:
    """True if every entry is a number with a bound."""
    return all(np.isfinite(x).all() for x in (truth.value, truth.bound))


def _args(trial: Trial, name: str, place: Placement) -> Arrays:
    return [*place.primals, *map(as_constant, trial.arguments(name)[len(place.primals) :])]


def _at(trial: Trial, name: str, place: Placement) -> Iterator[Finding]:
    args = _args(trial, name, place)
    with under(place.name):
        results = trial.evaluate(name, args)
    truths = trial.truth(name, args)
    for f in trial.compare_with(truths, name, results, place.name):
        yield replace(f, bound=_allowed(trial, f), call=(name, args)) if isinstance(f, Comparison) else f


def _allowed(trial: Trial, f: Comparison) -> np.ndarray:
    """The error of an entry that does not tell a wrong derivative; infinite where the oracle has no number."""
    known = np.isfinite(f.oracle) & np.isfinite(f.bound)
    scale = np.abs(f.oracle[known]).max(initial=0.0)
    # An intermediate that overflows and is inverted comes out as 0, which is off by as much as 1 / largest.
    return np.where(known, f.bound + _GROSS * scale + 1 / trial.precision.largest, np.inf)


CHECK = Check(
    "points_second_order",
    "a double backward that is 0/0 or inf * 0 at zeros, at saturation, at the ends of the dtype",
    ("vjp", *_MAPS),
    _run,
    generic=True,
    one_dtype=True,
    real_only="the special points are of real numbers",
)
