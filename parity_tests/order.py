"""What a run is to judge, by name: plain data, which another process can be given (see `harness/worker.Work`)."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parity_tests.case_file import load_case
from parity_tests.harness.candidate import Candidate, NotBuilt
from parity_tests.harness.court import Court
from parity_tests.harness.jax_candidate import JaxCandidate
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.report import Report, Row
from parity_tests.harness.selection import select_checks, select_precisions, select_samples
from parity_tests.harness.spec import OpSpec

Candidates = Sequence[Candidate | JaxCandidate | NotBuilt]


@dataclass(frozen=True)
class Order:
    """Candidates to judge on a device.

    Attributes:
        case: the file that defines spec and candidates; None for an operator of the suite.
        op: which of those; None if there is a file.
        names: of its implementations; None for all that the file defines.
        position: of the only candidate to judge; None to judge all.
        device, checks, dtypes, seed, deadline: those of a `Docket`, by name.
        quick: at a few samples.
        failures: the folder for reproducers.
    """

    case: Path | None
    op: str | None
    names: tuple[str, ...] | None
    position: int | None
    device: str
    checks: tuple[str, ...]
    dtypes: tuple[str, ...]
    seed: int
    deadline: float
    quick: bool
    failures: Path

    @property
    def source(self) -> Hashable:
        """What `load` depends on."""
        return self.case, self.op, self.names

    @property
    def folder(self) -> Path:
        """For what is written about failures."""
        return self.failures

    def load(self) -> tuple[OpSpec, Candidates]:
        """The spec and all candidates, those of other orders included.

        Raises:
            CaseError: the file cannot be used.
        """
        return load(self.case, self.op, self.names)

    def court(self, spec: OpSpec) -> Court:
        """The oracle of all orders that differ in the candidates and the formats only."""
        return Court(spec, self.device, self.seed, select_samples(self.quick))

    def docket(self, spec: OpSpec, candidates: Candidates, court: Court | None = None) -> Docket:
        """What is to be judged; by a court that has judged others, if there is one."""
        return Docket(
            spec,
            # Everybody keeps his place, which reproducers tell; the others are another order's.
            [c if self.position in (None, i) else NotBuilt(c.name, "") for i, c in enumerate(candidates)],
            select_checks(self.checks),
            select_precisions(self.dtypes, spec),
            self.device,
            self.seed,
            self.again,
            self.case,
            select_samples(self.quick),
            self.deadline,
            court,
        )

    def one_by_one(self, candidates: Candidates) -> list[Order]:
        """An order for each candidate that can be called."""
        return [replace(self, position=i) for i, c in enumerate(candidates) if not isinstance(c, NotBuilt)]

    def judge(self, spec: OpSpec, candidates: Candidates, report: Report, court: Court | None = None) -> Iterator[Row]:
        """Carry it out: `harness.judge.judge`, with the reproducer of a failure written before its row is yielded."""
        for _ in judge(self.docket(spec, candidates, court), report):
            self.save(report)  # at once: another check may hang
            yield report.rows[-1]

    def save(self, report: Report) -> None:
        """Write a reproducer of every failure, or say in the report why there is none."""
        try:
            report.save_failures(self.failures)
        except OSError as error:
            line = f"reproducers in {self.failures}: {error}"
            report.skipped.extend([line] if line not in report.skipped else [])

    def again(self, row: Row) -> str:
        """The command that judges a row again."""
        options = f"--only {row.check} --dtype {row.dtype} --device {row.device} --seed {self.seed}"
        of_suite = f"run{'' if self.op == 'attn' else f' --op {self.op}'} --candidate {row.candidate}"
        command = of_suite if self.case is None else f"check {shlex.quote(str(self.case))}"
        return f"gradparity {command} {options}{' --quick' if self.quick else ''}"


def load(case: Path | None, op: str | None, names: Sequence[str] | None) -> tuple[OpSpec, Candidates]:
    """The spec, and all candidates, of a file, or of an operator of the suite; native ones are compiled.

    Raises:
        CaseError: the file cannot be used.
    """
    if case is not None:
        return load_case(case)
    assert op is not None
    from parity_tests.suite import operators  # the implementations, which `gradparity check` can do without

    return operators.SPECS[op], [operators.candidate(op, name) for name in names or operators.names(op)]
