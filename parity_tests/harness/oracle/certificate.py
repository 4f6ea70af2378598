"""The certificate of the oracle: before it judges a candidate, all witnesses must agree on each of its maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.findings import Finding
from parity_tests.harness.oracle import witnesses as _witnesses_of_the_harness  # noqa: F401  (registers them)
from parity_tests.harness.oracle.kinks import is_kink, step_off_kink
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.witness import Place, witnesses
from parity_tests.harness.specs.samples import Sample


def certify(oracle: Oracle, name: str, sample: Sample) -> Iterator[Finding]:
    """Yield the findings of the witnesses on one map of the oracle at one sample, in float64.

    At a kink two right derivatives may differ: if the witnesses disagree there, they are evaluated at a nearby point
    off the kink instead. A surrogate gradient is no derivative and has no kinks.
    """
    inputs = sample.primals(oracle.inputs)
    if oracle.is_surrogate(name):
        yield from _testimony(Place.of(oracle, name, sample, inputs))
        return
    if any(np.isnan(y).any() for y in oracle.values("forward", inputs)):
        return  # the operator has no value there, and no derivative
    findings = _of_derivative(oracle, name, sample, inputs)
    if not all(f.holds for f in findings) and is_kink(oracle, name, inputs, sample):
        findings = _of_derivative(oracle, name, sample, step_off_kink(oracle, inputs, sample))
    yield from findings


def _of_derivative(oracle: Oracle, name: str, sample: Sample, inputs: Sequence[np.ndarray]) -> list[Finding]:
    """Return the findings of the witnesses at these inputs; none if the operator has no derivative there.

    The standard deviation of a single number, for example, has none.
    """
    place = Place.of(oracle, name, sample, inputs)
    if not all(np.isfinite(y.value).all() for y in place.results_by_autodiff):
        return []
    return list(_testimony(place))


def _testimony(place: Place) -> Iterator[Finding]:
    for witness in witnesses().values():
        if not witness.can_judge(place.oracle, place.name):
            continue
        for finding in witness.findings(place):
            named = finding.circumstance or witness.name in finding.label
            yield finding if named else replace(finding, circumstance=witness.name)
