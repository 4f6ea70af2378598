"""The oracle's values at the inputs that are drawn: how many are NaN, and which domain would help.

An operator has no derivative where it has no value, so that such an entry judges nobody: half of them for a square root
of real numbers. Whoever reads a pass must know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.domains import DOMAINS, EmptyDomain
from parity_tests.harness.specs.samples import Sample

_REMEDIES = ("nonzero", "positive", "unit", "sorted", "definite")  # the widest that helps comes first


@dataclass(frozen=True)
class DrawnValues:
    """A count of the entries of the oracle's values, over all samples.

    Attributes:
        samples: how many there are, without those at which the primal raises.
        entries: how many there are; nan: of these, how many are NaN.
        examples: a sample that has such, and the oracle there.
        always_empty: the axes of size 0 at every sample. Where another axis is, the operator may have no value.
    """

    samples: int
    entries: int
    nan: int
    examples: tuple[tuple[Oracle, Sample], ...]
    always_empty: tuple[str, ...]

    @classmethod
    def at(cls, oracle: Oracle, cases: Iterable[Sample], always_empty: tuple[str, ...]) -> DrawnValues:
        """The count at these samples, but for those with an axis that is not always empty and is so there.

        Where the primal raises there are no values, and the rows say so.
        """
        samples = entries = nan = 0
        examples: list[tuple[Oracle, Sample]] = []
        for sample in cases:
            if sample.has_empty_axis and not always_empty:
                continue
            try:
                at = oracle.at(sample)
                values = at.values("forward", sample.primals(at.inputs))
            except Exception:
                continue
            of_sample = sum(int(np.isnan(y).sum()) for y in values)
            samples, entries, nan = samples + 1, entries + sum(y.size for y in values), nan + of_sample
            if of_sample and not sample.first_order_only:
                examples.append((at, sample))
        return cls(samples, entries, nan, tuple(examples[:1]), always_empty)

    def unusable(self) -> str | None:
        """Return why nothing can be judged; None if something may be."""
        if self.samples and not self.entries and not self.always_empty:
            return "every output of the oracle is empty at every sample, so that there is nothing to compare"
        if self.samples and self.always_empty and self.nan == self.entries:
            return self.why_never_finite()
        if self.all_nan:
            return f"the oracle's value is NaN at all of {self._which()}; {self.remedy()}"
        return None

    def why_never_finite(self) -> str:
        """Why no sample has a derivative to compare, although the oracle has raised nowhere."""
        if self.always_empty:
            axes = " and ".join(self.always_empty)
            are, rule = ("is", f"{axes} >= 1") if len(self.always_empty) == 1 else ("are", "sizes >= 1")
            return f"every sample has an empty axis ({axes} {are} 0), so that there is nothing to compare; allow {rule}"
        if self.nan:
            return f"at every sample the oracle's value, or its derivative, is NaN somewhere; {self.remedy()}"
        return "no sample gives a derivative by autodiff that is finite and has an error bound"

    @property
    def all_nan(self) -> bool:
        """True if the oracle has no value at any sample."""
        return 0 < self.nan == self.entries

    def line(self) -> str | None:
        """Return a line about the entries that were left out; None if there are none."""
        if not self.nan:
            return None
        return (
            f"{self.nan:,} of {self.entries:,} entries of the oracle's values are NaN at {self._which()}, and were "
            f"left out; {self.remedy()}"
        )

    def _which(self) -> str:
        given = any(sample.fixed is not None for _, sample in self.examples)
        return "the inputs that were given" if given else "the inputs that were drawn"

    def remedy(self) -> str:
        """Return a remedy for NaN in the oracle's values: a domain for an input, if a named one leaves no NaN."""
        if any(sample.fixed is not None for _, sample in self.examples):
            return "give inputs at which it has a value"
        for domains in self._choices():
            if all(_has_values(oracle, sample, domains) for oracle, sample in self.examples):
                given = ", ".join(f'"{name}": "{domain}"' for name, domain in domains.items())
                return f"with OpSpec(domains={{{given}}}) there are none"
        return "say by OpSpec.domains where the inputs lie: a domain's name, or a sampler (generator, shape) -> array"

    def _choices(self) -> Iterator[dict[str, str]]:
        """Domains for one input, then for all that are differentiated."""
        if not self.examples:
            return
        inputs = self.examples[0][0].inputs
        yield from ({name: domain} for name in inputs for domain in _REMEDIES)
        if len(inputs) > 1:
            yield from (dict.fromkeys(inputs, domain) for domain in _REMEDIES)


def _has_values(oracle: Oracle, sample: Sample, domains: dict[str, str]) -> bool:
    """Return whether no value is NaN if these inputs are drawn from these domains."""
    if sample.fixed is not None:
        return False
    rng = np.random.default_rng(0)
    inputs: list[np.ndarray] = list(sample.primals(oracle.inputs))
    try:
        for i, name in enumerate(oracle.inputs):
            if name in domains:
                inputs[i] = DOMAINS[domains[name]].draw(rng, inputs[i].shape, sample.sizes)
    except (EmptyDomain, ValueError):  # the domain is not of arrays of this shape
        return False
    return not _any_nan(oracle.values("forward", inputs))


def _any_nan(values: Sequence[np.ndarray]) -> bool:
    return any(np.isnan(y).any() for y in values)
