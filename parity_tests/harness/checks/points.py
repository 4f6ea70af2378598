"""points: values, gradients and tangents where formulas break: zeros, ties, saturation, the ends of the format.

At a kink what lies between the one-sided derivatives is a convention, and reported as one; see `harness.kinks`. So is a
difference at infinite inputs, unless OpSpec.domains says that they belong to the operator: "extended".
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Comparison, Convention, Finding, NotApplicable
from parity_tests.harness.oracle.defined import has_one_value
from parity_tests.harness.oracle.kinks import accept_one_sided_derivatives, of_nan
from parity_tests.harness.oracle.points import Placement, placements
from parity_tests.harness.specs.domains import EXTENDED, as_constant
from parity_tests.harness.trial.trial import Trial
from parity_tests.harness.trial.unlimited import truths_of_any_range

_MAPS = ("forward", "vjp", "jvp")


def _run(trial) -> Iterator[Finding]:
    if trial.sample.fixed is not None:
        raise NotApplicable("the inputs are given; special points are made from a signature")
    places = list(placements(trial.oracle, trial.sample, trial.precision))
    if not places:
        raise NotApplicable("no special points are known of the inputs' domains")
    refused, has_evidence = set(), False
    for place in places:
        for name in _MAPS:
            if name in refused or not _judged(trial, name, place):
                continue
            args = [*place.primals, *map(as_constant, trial.arguments(name)[len(place.primals) :])]
            try:
                findings = list(_at(trial, name, args, place))
            except Refused:
                if name != "jvp":
                    raise
                refused.add(name)  # which the check of that name reports
                continue
            except RuntimeError:
                if all(np.isfinite(truth.bound).all() for truth in trial.truth("forward", place.primals)):
                    raise
                continue  # a solver may say that a matrix is singular, where the oracle has infinities
            if not _belongs(trial, place):
                findings = [_as_convention(f) for f in findings]
            yield from findings
            has_evidence = has_evidence or any(f.evidence or isinstance(f, Convention) for f in findings)
            if not all(f.holds for f in findings):
                return  # one such point is enough, and to look for one-sided derivatives takes its time
    if not has_evidence:  # as of the eigenvectors of 0 and of the identity
        raise NotApplicable("at every special point all results are zero, or have no bound")


def _belongs(trial: Trial, place: Placement) -> bool:
    """True if the inputs are in their domains. Infinities are, if OpSpec.domains says "extended"."""
    pairs = zip(trial.sample.domains, place.primals, strict=True)
    return all(domain is EXTENDED or not np.isinf(x).any() for domain, x in pairs)


def _as_convention(f: Finding) -> Finding:
    """A difference as a convention, where the operator need not be defined."""
    if f.holds or not isinstance(f, Comparison):
        return f
    i = tuple(int(k) for k in np.argwhere(f.wrong)[0])
    return Convention(f.label, f"{f.candidate[i]:g} where the oracle has {f.oracle[i]:g}", f.circumstance)


def _judged(trial: Trial, name: str, place: Placement) -> bool:
    """True if anything can be judged. Where nothing can, a right operator may raise an error, too."""
    outputs = trial.truth("forward", place.primals)
    if place.has_nan:
        return name == "forward"
    if not any(np.isfinite(y.bound).any() for y in outputs):
        return False
    if place.may_be_flushed(trial.precision):  # then only values are judged, of what is defined at zero, too
        flushed = trial.truth("forward", place.flushed)
        return name == "forward" and all(np.isfinite(y.bound).all() for y in flushed)
    if name == "forward":
        return True
    if not place.finite:  # then a derivative is judged only where the value is finite
        return all(np.isfinite(y.value).all() for y in outputs)
    return has_one_value(trial.oracle, place.primals)


def _at(trial: Trial, name: str, args, place: Placement) -> Iterator[Finding]:
    with under(place.name):
        results = trial.evaluate(name, args)
    if place.has_nan:
        yield from of_nan(trial, args, results, place.name)
        return
    if place.unlimited and name != "forward":
        findings = trial.compare_with(truths_of_any_range(trial, name, args), name, results, place.name)
        called = [replace(f, call=(name, args)) if isinstance(f, Comparison) else f for f in findings]
        yield from accept_one_sided_derivatives(trial, name, args, called, place.name)
        return
    # An intermediate that overflows and is inverted then comes out as 0, which is off by as much as 1 / largest.
    size = max([1.0, *(float(np.abs(w).max(initial=0)) for w in args[len(place.primals) :])])
    room = size / trial.precision.largest
    yield from trial.compare(name, args, results, place.name, room)


CHECK = Check(
    "points",
    "0/0 and inf * 0 at zeros, ties, saturation, the ends of the dtype; a slope that no side of a kink has",
    ("vjp", "jvp"),
    _run,
    generic=True,
    real_only="the special points are of real numbers",
)
