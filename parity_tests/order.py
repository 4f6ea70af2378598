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
from parity_tests.harness.precision import Precision
from parity_tests.harness.report import Report, Row
from parity_tests.harness.selection import select_checks, select_precisions, select_samples
from parity_tests.harness.spec import OpSpec
from parity_tests.harness.worker import CannotLoad

Candidates = Sequence[Candidate | JaxCandidate | NotBuilt]


@dataclass(frozen=True)
class Survey:
    """What is known of an order before it is carried out.

    Attributes:
        dtypes: the formats to judge.
        positions: of the candidates that can be called, among all.
        not_built: the others.
        length: the number of rows.
    """

    dtypes: tuple[str, ...]
    positions: tuple[int, ...]
    not_built: tuple[NotBuilt, ...]
    length: int


@dataclass(frozen=True)
class Order:
    """Candidates to judge on a device.

    Attributes:
        case: the file that defines spec and candidates; None for an operator of the suite.
        op: which of those; None if there is a file.
        names: of its implementations; None for all that the file defines.
        position: of the only candidate to judge; None to judge all.
        device, checks, dtypes, seed, deadline: those of a `Docket`, by name; no dtypes for those of the spec.
        quick: at a few samples.
        failures: the folder for reproducers.
        start: the folder where the paths begin that are relative, if the current one may be another by now.
    """

    case: Path | None
    op: str | None
    names: tuple[str, ...] | None
    position: int | None
    device: str
    checks: tuple[str, ...]
    dtypes: tuple[str, ...] | None
    seed: int
    deadline: float
    quick: bool
    failures: Path
    start: Path = Path()

    @property
    def source(self) -> Hashable:
        """What `load` depends on."""
        return self.case, self.op, self.names

    @property
    def folder(self) -> Path:
        """For what is written about failures."""
        return self.start / self.failures

    def load(self) -> tuple[OpSpec, Candidates]:
        """The spec and all candidates, those of other orders included.

        Raises:
            CaseError: the file cannot be used.
        """
        return load(self.case, self.op, self.names, self.start)

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
            self.precisions(spec),
            self.device,
            self.seed,
            self.again,
            self.case and self.start / self.case,
            select_samples(self.quick),
            self.deadline,
            court,
        )

    def precisions(self, spec: OpSpec) -> list[Precision]:
        """The formats to judge.

        Raises:
            ValueError: the spec has no inputs of one that is named.
        """
        return select_precisions(self.dtypes, spec, self.quick)

    def surveyed(self, spec: OpSpec, candidates: Candidates) -> Survey:
        """What there is to judge.

        Raises:
            CannotLoad: nothing in the formats that are named.
        """
        try:
            dtypes = tuple(precision.name for precision in self.precisions(spec))
        except ValueError as error:
            raise CannotLoad(str(error)) from error
        not_built = tuple(candidate for candidate in candidates if isinstance(candidate, NotBuilt))
        positions = tuple(i for i, c in enumerate(candidates) if not isinstance(c, NotBuilt))
        return Survey(dtypes, positions, not_built, self.docket(spec, candidates).length)

    def one_by_one(self, survey: Survey) -> list[Order]:
        """An order for each candidate that can be called."""
        return [replace(self, position=i) for i in survey.positions]

    def judge(self, spec: OpSpec, candidates: Candidates, report: Report, court: Court | None = None) -> Iterator[Row]:
        """Carry it out: `harness.judge.judge`, with the reproducer of a failure written before its row is yielded."""
        for _ in judge(self.docket(spec, candidates, court), report):
            self.save(report)  # at once: another check may hang
            yield report.rows[-1]

    def save(self, report: Report) -> None:
        """Write a reproducer of every failure, or say in the report why there is none."""
        try:
            report.save_failures(self.failures, self.start)
        except OSError as error:
            line = f"reproducers in {self.failures}: {error}"
            report.skipped.extend([line] if line not in report.skipped else [])

    def again(self, row: Row) -> str:
        """The command that judges a row again."""
        options = f"--only {row.check} --dtype {row.dtype} --device {row.device} --seed {self.seed}"
        of_suite = f"run{'' if self.op == 'attn' else f' --op {self.op}'} --candidate {row.candidate}"
        command = of_suite if self.case is None else f"check {shlex.quote(str(self.case))}"
        return f"gradparity {command} {options}{' --quick' if self.quick else ''}"


def load(
    case: Path | None, op: str | None, names: Sequence[str] | None, start: Path | None = None
) -> tuple[OpSpec, Candidates]:
    """The spec, and all candidates, of a file, or of an operator of the suite; native ones are compiled.

    `start`: see `Order`.

    Raises:
        CaseError: the file cannot be used.
    """
    if case is not None:
        return load_case(case, start)
    assert op is not None
    from parity_tests.suite import operators  # the implementations, which `gradparity check` can do without

    return operators.SPECS[op], [operators.candidate(op, name) for name in names or operators.names(op)]
