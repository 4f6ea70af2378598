"""The work of a run, by name: plain data, which another process can be given: see `isolation.messages.Work`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity_tests.cli.last_failed import LastRun, rows_of
from parity_tests.cli.sources.apart import CHECKS as FIRST_ORDER
from parity_tests.cli.sources.source import Source
from parity_tests.harness.candidates.definition import Definition, definitions
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.isolation.messages import CannotLoad
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Note, Row
from parity_tests.harness.specs.seeds import shown

# Who only orders imports nothing slow: PyTorch and JAX are for the process that carries it out.
if TYPE_CHECKING:
    from parity_tests.harness.checks import Check
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.judging.certified import Oracles
    from parity_tests.harness.judging.judge import Plan
    from parity_tests.harness.judging.plan import LastFailed
    from parity_tests.harness.numbers.formats import Precision
    from parity_tests.harness.specs.spec import OpSpec


@dataclass(frozen=True)
class Survey:
    """The facts of an order before it is carried out.

    Attributes:
        environment: see `Report`; of the devices that are there.
        cuda_missing: why CUDA cannot be judged, if nobody has said on which devices to judge.
        catches: `Check.catches` by check.
        left_out: what a quick run leaves out, as a line; empty of any other.
        positions: of the candidates that can be called, among all.
        not_built: the others.
        length: the number of rows on one device.
        op: the name of the spec.
        definitions: of the candidates whose place is known.
        planned: of each device, the rows of candidates that there must be: candidate, check and dtype.
        failed: of each device, how many of these rows failed in the last run, of how many nothing is known, and how
            many passed; and, with the certificates that they need, the number of rows if what passed is left out.
    """

    environment: Mapping[str, Any]
    cuda_missing: str | None
    catches: Mapping[str, str]
    left_out: str
    positions: tuple[int, ...]
    not_built: tuple[NotBuilt, ...]
    length: int
    op: str
    definitions: tuple[Definition, ...]
    planned: Mapping[str, tuple[tuple[str, str, str], ...]]
    failed: Mapping[str, tuple[int, int, int, int]]


@dataclass(frozen=True)
class RunSpec:
    """Candidates to judge on a device.

    Attributes:
        source: where the spec and the candidates are found.
        position: of the only candidate to judge; None to judge all.
        device, dtypes, seed, deadline: those of a `Plan`, by name; no dtypes for those of the spec.
        checks: by name; none for the usual ones.
        quick: at a few samples.
        failures: the folder for reproducers.
        start: the folder where the paths begin that are relative, if the current one may be another by now.
        devices: those of all orders of the run, of which a survey tells.
        asked: were they named? Then all of them must be there.
        last_run: what failed in the last run is judged first.
        alone: whether what passed in it is left out.
    """

    source: Source
    position: int | None
    device: str
    checks: tuple[str, ...]
    dtypes: tuple[str, ...] | None
    seed: int
    deadline: float
    quick: bool
    failures: Path
    start: Path = Path()
    devices: tuple[str, ...] = ("cpu",)
    asked: bool = False
    last_run: LastRun = field(default_factory=LastRun)
    alone: bool = False

    @property
    def folder(self) -> Path:
        """The folder in which failures are written."""
        return self.start / self.failures

    @property
    def sampling(self) -> Hashable:
        """The key of the oracles, beside the spec."""
        return self.device, self.seed, self.quick

    @property
    def named(self) -> str:
        """The user's files that are judged, as messages name them."""
        start = self.start.absolute()
        files = [start / file for file in self.source.files]
        names = [str(file.relative_to(start) if file.is_relative_to(start) else file) for file in files]
        return " and ".join(names) or "what is to be judged"

    def load(self) -> tuple[OpSpec, Candidates]:
        """The spec and all candidates, those of other orders included.

        Raises:
            CannotLoad: they cannot be used, or a device that was named is not there.
        """
        from parity_tests.harness.numbers import devices

        try:
            for device in self.devices if self.asked else ():
                devices.check(device)
        except ValueError as error:
            raise CannotLoad(str(error)) from None
        return self.source.load()

    def oracles(self, spec: OpSpec) -> Oracles:
        """The oracle of all orders that differ in the candidates and the formats only."""
        from parity_tests.harness.judging.certified import Oracles
        from parity_tests.harness.judging.selection import select_samples

        return Oracles(spec, self.device, self.seed, select_samples(self.quick))

    def plan(self, spec: OpSpec, candidates: Candidates, oracles: Oracles | None = None) -> Plan:
        """Return the plan of this order; `oracles`: those of an order that was judged before, which are used again."""
        from parity_tests.harness.judging.judge import Plan
        from parity_tests.harness.judging.selection import select_samples

        return Plan(
            spec,
            # Everybody keeps his place, which reproducers tell; the others are another order's.
            [c if self.position in (None, i) else NotBuilt(c.name, "") for i, c in enumerate(candidates)],
            self.selected(),
            self.precisions(spec),
            self.device,
            self.seed,
            self.again,
            self.source.file,
            self.source.origin,
            select_samples(self.quick),
            self.deadline,
            oracles,
            last_failed=self._last_failed(spec.name),
        )

    def _last_failed(self, op: str) -> LastFailed | None:
        from parity_tests.harness.judging.plan import LastFailed

        rows = rows_of(self.last_run.failed, op, self.device)
        passed = frozenset(row[1:4] for row in self.last_run.passed if (row.op, row.device) == (op, self.device))
        return LastFailed(rows, self.alone, passed) if rows or self.alone else None

    def selected(self) -> list[Check]:
        """The checks to run."""
        from parity_tests.harness.judging.selection import select_checks

        return select_checks(self.checks or None, self.quick)

    def precisions(self, spec: OpSpec) -> list[Precision]:
        """The formats to judge.

        Raises:
            ValueError: the spec has no inputs of one that is named.
        """
        from parity_tests.harness.judging.selection import select_precisions

        return select_precisions(self.dtypes, spec, self.quick)

    def surveyed(self, spec: OpSpec, candidates: Candidates) -> Survey:
        """Return the survey of all orders of the run: its rows, candidates and devices.

        Raises:
            CannotLoad: nothing in the formats that are named.
        """
        from parity_tests.harness.checks import CHECKS
        from parity_tests.harness.judging.selection import left_out
        from parity_tests.harness.numbers import devices
        from parity_tests.harness.report.environment import environment

        try:
            precisions = self.precisions(spec)
        except ValueError as error:
            raise CannotLoad(str(error)) from error
        missing = devices.missing("cuda") if "cuda" in self.devices else None
        present = tuple(device for device in self.devices if device != "cuda" or not missing)
        whole = replace(self, last_run=LastRun(), alone=False).plan(spec, candidates)
        of_devices = {device: replace(self, device=device, alone=True).plan(spec, candidates) for device in present}
        return Survey(
            environment(present, self.seed) | self._protection(),
            missing,
            {name: check.catches for name, check in CHECKS.items()},
            "; ".join(filter(None, (left_out(self.selected(), precisions) if self.quick else "", self._not_served))),
            tuple(i for i, c in enumerate(candidates) if not isinstance(c, NotBuilt)),
            tuple(candidate for candidate in candidates if isinstance(candidate, NotBuilt)),
            whole.length,
            spec.name,
            tuple(definitions(spec.name, candidates, next(iter(self.source.files), None), self.start)),
            {device: tuple(replace(self, device=device).plan(spec, candidates).keys) for device in present},
            {device: _counted(plan, whole.length_of_candidates) for device, plan in of_devices.items()},
        )

    @property
    def _not_served(self) -> str:
        """The line of a report on checks that a server does not run unless they are named."""
        how = getattr(self.source, "apart", None)
        if how is None or not how.forked or self.checks != FIRST_ORDER:
            return ""
        return "second order, forward mode, vmap and others: a server judges to first order; gradparity check does all"

    def _protection(self) -> dict[str, str]:
        """Return the line of the environment on solutions by somebody else; nothing for the user's own code."""
        apart = getattr(self.source, "apart", None)
        if (apart is None and not getattr(self.source, "strange", False)) or (apart is not None and apart.forked):
            return {}
        from parity_tests.harness.solutions.protection import protection

        believed = "solutions ran in the process that judges, which believes them"
        return {"solutions": believed if apart is None else str(protection())}

    def one_by_one(self, survey: Survey) -> list[RunSpec]:
        """An order for each candidate that can be called."""
        return [replace(self, position=i) for i in survey.positions]

    def judge(
        self, spec: OpSpec, candidates: Candidates, report: Report, oracles: Oracles | None = None
    ) -> Iterator[Row]:
        """Carry it out: `judging.judge.judge`, with the reproducer of a failure written before its row is yielded."""
        from parity_tests.harness.judging.judge import judge

        for _ in report.collect(judge(self.plan(spec, candidates, oracles))):
            self.save(report)  # at once: another check may hang
            yield report.rows[-1]

    def save(self, report: Report) -> None:
        """Write a reproducer of every failure, or say in the report why there is none."""
        try:
            report.save_failures(self.failures, self.start)
        except OSError as error:
            report.add(Note(f"reproducers in {self.failures}: {error}"))

    def again(self, row: Row) -> str:
        """The command that judges a row again."""
        seed = "--hidden-seed" if shown(self.seed) is None else f"--seed {self.seed}"
        options = f"--only {row.check} --dtype {row.dtype} --device {row.device} {seed}"
        return f"gradparity {self.source.command(row.candidate)} {options}{' --quick' if self.quick else ''}"

    def release(self, candidates: Candidates) -> bool:
        """End the processes that were forked for these candidates; returns whether there are any."""
        how = getattr(self.source, "apart", None)
        if how is None or not how.forked:
            return False
        from parity_tests.harness.solutions.proxy import Solution

        for candidate in candidates:
            if isinstance(solution := getattr(candidate, "given", None), Solution):
                solution.process.close()
        return True


def _counted(alone: Plan, whole: int) -> tuple[int, int, int, int]:
    """The numbers of `Survey.failed`, of a plan that leaves out what passed; `whole`: all rows of the candidates."""
    last = alone.last_failed
    rows = alone.keys
    failed = sum(last is not None and row in last for row in rows)
    return failed, len(rows) - failed, whole - len(rows), alone.length
