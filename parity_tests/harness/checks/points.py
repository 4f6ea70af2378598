"""points: values, gradients and tangents where formulas break: zeros, ties, saturation, the ends of the format.

At a kink what lies between the one-sided derivatives is a convention, and reported as one; see `harness.kinks`.
"""

from collections.abc import Iterator

import numpy as np

from parity_tests.harness.candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.findings import Finding, NotApplicable
from parity_tests.harness.kinks import not_swallowed, settled
from parity_tests.harness.points import placements

_MAPS = ("forward", "vjp", "jvp")


def _run(trial) -> Iterator[Finding]:
    if trial.sample.fixed is not None:
        raise NotApplicable("the inputs are given; special points are made from a signature")
    places = list(placements(trial))
    if not places:
        raise NotApplicable("no special points are known of the inputs' domains")
    refused = set()
    for where, finite, primals in places:
        for name in _MAPS:
            if name in refused or not _judged(trial, name, primals, finite):
                continue
            args = [*primals, *trial.arguments(name)[len(primals) :]]
            try:
                findings = list(_at(trial, name, args, where))
            except Refused:
                if name != "jvp":
                    raise
                refused.add(name)  # which the check of that name reports
                continue
            yield from findings
            if not all(f.holds for f in findings):
                return  # one such point is enough, and to look for one-sided derivatives takes its time


def _judged(trial, name, primals, finite) -> bool:
    """Is there anything that can be judged? Where nothing is, a right operator may also raise an error."""
    outputs = trial.truth("forward", primals)
    if name == "forward":
        swallows = not finite and any(np.isnan(x).any() for x in primals)
        return swallows or any(np.isfinite(bound).any() for _, bound in outputs)
    # A derivative where the value is infinite, or no number, is nobody's business.
    return finite or all(np.isfinite(value).all() for value, _ in outputs)


def _at(trial, name, args, where) -> Iterator[Finding]:
    results = trial.evaluate(name, args)
    findings = list(trial.compare(name, args, results, where))
    yield from settled(trial, name, args, findings, where)
    if name == "forward" and any(np.isnan(x).any() for x in args):
        yield from not_swallowed(trial, args, results, where)


CHECK = Check(
    "points",
    "0/0 and inf * 0 at zeros, ties, saturation, the ends of the format; a slope that no side of a kink has",
    ("vjp", "jvp"),
    _run,
    generic=True,
)
