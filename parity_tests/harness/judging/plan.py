"""The plan of a run: a spec, candidates, checks, formats, a device and a seed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.checks import Check
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.resume import Earlier
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.contracts import THROUGHOUT
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.report.results import Row
from parity_tests.harness.specs.samples import Sample, samples
from parity_tests.harness.specs.spec import OpSpec

Replay = Callable[[Row], str]
OnTrial = Callable[[Row, Sample], None]
"""Called with the row, still without a verdict, and the sample before the candidate is called at it.

So before a check runs on a sample, also on the smaller ones that shrinking tries; and before the candidate is asked
whether it accepts a sample with an empty axis: then with a row of the check "forward", whether it is judged or not.
"""


_SHRINK_SECONDS: ContextVar[float] = ContextVar("shrink_seconds", default=5.0)


@contextlib.contextmanager
def shrinking_for(seconds: float) -> Iterator[None]:
    """Plans made in this block that do not say otherwise shrink each failure for so long; with 0 not at all."""
    token = _SHRINK_SECONDS.set(seconds)
    try:
        yield
    finally:
        _SHRINK_SECONDS.reset(token)


@dataclass(frozen=True)
class LastFailed:
    """Which rows failed in the last run, and what follows from that.

    Attributes:
        rows: candidate, check and dtype; None and None for all rows of a candidate.
        alone: whether those that passed are left out. Otherwise all others are judged afterwards.
        passed: the rows that are known to have passed.
    """

    rows: frozenset[tuple[str, str | None, str | None]]
    alone: bool
    passed: frozenset[tuple[str, str, str]] = frozenset()

    def __contains__(self, row: tuple[str, str, str]) -> bool:
        candidate, _, _ = row
        return row in self.rows or (candidate, None, None) in self.rows


@dataclass(frozen=True)
class Plan:
    """A spec and candidates, and the checks, formats, device and seed by which they are judged.

    The alias `OpSpec(arithmetic=...)` is the arithmetic of each candidate that states none itself.
    """

    spec: OpSpec
    candidates: Sequence[AnyCandidate | NotBuilt]
    checks: Sequence[Check]
    precisions: Sequence[Precision]
    device: str
    seed: int
    replay: Replay
    case: Path | None = None  # the file that defines spec and candidates, for reproducers
    origin: Mapping[str, str] | None = None  # where they came from, if from no such file, for reproducers
    samples: Callable[[OpSpec, int], Iterable[Sample]] = samples
    deadline: float = math.inf  # of time.monotonic, for shrinking
    oracles: Oracles | None = None  # of this spec, device, seed and samples, if it is to be used again
    on_trial: OnTrial = lambda row, sample: None  # see OnTrial
    earlier: Earlier = field(default_factory=Earlier)  # what processes before this one have found out
    shrink_seconds: float = field(default_factory=_SHRINK_SECONDS.get)  # for one failure; see `shrinking_for`
    last_failed: LastFailed | None = None  # to be judged first, or alone; None for the usual order

    def __post_init__(self) -> None:
        if self.spec.arithmetic is not None:
            held = [c if isinstance(c, NotBuilt) or c.arithmetic else self._of_alias(c) for c in self.candidates]
            object.__setattr__(self, "candidates", held)

    def _of_alias(self, candidate: AnyCandidate) -> AnyCandidate:
        stated = self.spec.arithmetic
        arithmetic = stated.get(candidate.name, THROUGHOUT) if isinstance(stated, Mapping) else stated
        return candidate.named(candidate.name, candidate.limits, arithmetic)

    @property
    def certificates(self) -> tuple[str, ...]:
        """The oracle's maps that the checks rely on."""
        checks = self.checks
        if self.last_failed is not None and self.last_failed.alone:
            checks = [check for c in self.present for _, of_turn in self.turns(c.name) for check in of_turn]
        needed = {name for check in checks for name in check.maps}
        return tuple(name for name in ORDERS if name in needed)

    @property
    def present(self) -> list[AnyCandidate]:
        """The candidates that can be called."""
        return [candidate for candidate in self.candidates if not isinstance(candidate, NotBuilt)]

    @property
    def length(self) -> int:
        """The number of rows, those included that earlier processes have found and `judge` does not yield."""
        return self.length_of_candidates + (len(self.kinds) * len(self.certificates) if self.present else 0)

    @property
    def length_of_candidates(self) -> int:
        """The same without the oracle's rows."""
        return sum(len(checks) for c in self.present for _, checks in self.turns(c.name))

    @property
    def keys(self) -> list[tuple[str, str, str]]:
        """The rows of candidates: candidate, check and dtype of each."""
        return [
            (candidate.name, check.name, precision.name)
            for candidate in self.present
            for precision, checks in self.turns(candidate.name)
            for check in checks
        ]

    @property
    def kinds(self) -> tuple[Precision, ...]:
        """The double format of real numbers, of complex numbers, or both, in which the oracle judges the formats."""
        return tuple(dict.fromkeys(precision.double for precision in self.precisions))

    def shrink_deadline(self) -> float:
        """The time of `time.monotonic` until which a failure that is shrunk from now on may be."""
        return min(self.deadline, time.monotonic() + self.shrink_seconds)

    def blank(self, candidate: str, check: str, precision: Precision) -> Row:
        """A row without comparisons: PASS, until something is found."""
        return Row(self.spec.name, candidate, check, precision.name, self.device, Verdict.PASS, 0.0, 0)

    def checks_in(self, precision: Precision) -> list[Check]:
        """The checks that are run in a format: those of one format only in the first in which the operator exists."""
        first = next((p for p in self.precisions if self._exists_in(p)), self.precisions[0])
        known = [check for check in self.checks if precision.is_short or not check.only_short]
        return [check for check in known if precision is first or not check.one_dtype]

    def _exists_in(self, precision: Precision) -> bool:
        return self.spec.exists_in(precision.name) and devices.lacks(self.device, precision.name) is None

    def turns(self, candidate: str) -> list[tuple[Precision, list[Check]]]:
        """The formats in which a candidate is judged, in turn, each with its checks."""
        every = [(precision, self.checks_in(precision)) for precision in self.precisions]
        last = self.last_failed
        if last is None:
            return every

        def part(precision: Precision, checks: list[Check], failing: bool) -> list[Check]:
            return [check for check in checks if ((candidate, check.name, precision.name) in last) is failing]

        def unknown(precision: Precision, checks: list[Check]) -> list[Check]:
            return [check for check in checks if (candidate, check.name, precision.name) not in last.passed]

        failed = [(precision, part(precision, checks, True)) for precision, checks in every]
        others = [(precision, part(precision, checks, False)) for precision, checks in every]
        if last.alone:
            others = [(precision, unknown(precision, checks)) for precision, checks in others]
        return [(precision, checks) for precision, checks in failed + others if checks]
