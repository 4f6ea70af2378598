"""A run from the command line: rows are shown as they come, and the report is up to date at any moment."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live

from parity_tests.cli.arranged import arranged
from parity_tests.cli.completeness import incomplete
from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.interruption import INTERRUPTED, TEXT, Interruption
from parity_tests.cli.judged_elsewhere import judged_elsewhere
from parity_tests.cli.last_failed import LastRun, recall, remember
from parity_tests.cli.options import Options
from parity_tests.cli.pace import Pace
from parity_tests.cli.report_files import ReportFiles
from parity_tests.cli.run_spec import RunSpec, Survey
from parity_tests.cli.sources.source import Source
from parity_tests.cli.terminal import Output, OutputLost, complain
from parity_tests.cli.usable import usable
from parity_tests.harness.exceptions.defects import one_line_description
from parity_tests.harness.isolation.budget import TRIAL_SECONDS, Check, Spent, budget, clock
from parity_tests.harness.isolation.guard import Guarded, Surveying
from parity_tests.harness.isolation.messages import CannotLoad, WorkerError
from parity_tests.harness.isolation.orphans import Adopted
from parity_tests.harness.isolation.processes import Pool
from parity_tests.harness.judging import remedies
from parity_tests.harness.names import DEVICES
from parity_tests.harness.report import annotations, junit, markdown, progress
from parity_tests.harness.report.extent import CUDA_MISSING
from parity_tests.harness.report.lines_of_rows import environment_line, row_line, whole_row_line
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Note, Row
from parity_tests.harness.report.table import table
from parity_tests.harness.report.text import details, failures, timing_line
from parity_tests.harness.specs.seeds import shown

if TYPE_CHECKING:
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.specs.spec import OpSpec


Rows = Generator[Row | None, None, None]  # None: none yet, look at the clock


class Session:
    """One run.

    `sources`: where the operators and their candidates are found. `pool`: the processes that judge, which may be
    starting; None to judge in this one. `pace`: how often a report that is not finished is written; by default every
    second, if that takes little time. `adopted`: the processes that end before the report is written.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        options: Options,
        files: ReportFiles,
        interruption: Interruption,
        pool: Pool | None,
        pace: Pace | None = None,
        adopted: Adopted | None = None,
    ) -> None:
        self._sources = sources
        self._options, self._interruption, self._pool = options, interruption, pool
        self._files, self._adopted = files, adopted
        self._report = Report({}, allow_suspect=options.allow_suspect)
        self._console = Output(stderr=any(file is not None and file.path is None for file in files))
        self._pace, self._length = pace or Pace(), 0
        self._ops: list[str] = []  # of each source, as soon as they are known

    def run(self) -> int:
        """Judge, show, write; returns the exit code.

        Raises:
            CannotLoad: nothing can be judged; the message says why.
        """
        report, lost = self._report, None
        self._interruption.last_words = self._last_words
        seed_is_told = shown(self._options.seed) is not None and not self._options.quiet
        if self._options.drawn and self._options.seed and seed_is_told:
            line = f"seed {self._options.seed}, drawn at random; --seed {self._options.seed} judges at the same inputs"
            self._console.show(line, soft_wrap=True, highlight=False)
        holding = self._interruption.noted if self._pool is not None else self._interruption.raised
        with holding():
            try:
                try:
                    self._judge_elsewhere(self._pool) if self._pool is not None else self._judge_here()
                except (WorkerError, Spent, remedies.NotOnTensors) as error:
                    report.error = str(error)
                except OutputLost as error:
                    report.error = lost = str(error)
                except CannotLoad:
                    raise
                except Exception as error:  # a defect of the harness, or a sampler of the user's
                    report.error = one_line_description(error)
            except KeyboardInterrupt:
                report.error = TEXT
        return self._end(lost)

    def _end(self, lost: str | None) -> int:
        """The text, then the report in every form; returns the exit code."""
        if self._adopted is not None and self._pool is not None:  # before anything is written
            self._pool.end()
            self._adopted.end()
        judged_elsewhere(self._report, self._problems)
        self._interruption.last_words = self._last_words
        self._report.seconds.setdefault("total", time.perf_counter() - self._interruption.began)
        try:
            if lost is None:
                solutions = self._report.environment.get("solutions")
                verbose = self._options.verbose
                timing = (timing_line(self._report, brief=not verbose), *([f"{solutions}"] if solutions else []))
                text = ("", *timing, "", details(self._report, verbose, brief=not verbose))
                if self._options.quiet:
                    text = tuple(failures(self._report))
                self._console.show(*text, sep="\n", soft_wrap=True, highlight=False)
                if os.environ.get("GITHUB_ACTIONS") == "true":
                    for line in annotations.as_annotations(self._report):
                        self._console.show(line, soft_wrap=True, highlight=False, markup=False)
        except OutputLost as error:
            lost = str(error)
        written = self._write()
        self._remember()
        self._interruption.finish()
        if lost is not None:
            complain(lost)
        if self._report.error == TEXT:
            return INTERRUPTED
        return self._report.exit_code if written and lost is None else COULD_NOT_RUN

    def _orders(self, source: Source) -> list[RunSpec]:
        """One for each device that is asked for, present or not."""
        options = self._options
        wanted = options.devices or DEVICES
        how = (options.checks, options.dtypes or None, options.seed, math.inf, options.quick, options.failures)
        asked = options.last_failed or options.failed_first
        last_run = recall(source) if asked else LastRun()
        alone = options.last_failed
        where = options.start, wanted, bool(options.devices)
        return [RunSpec(source, None, device, *how, *where, last_run, alone) for device in wanted]

    def _judge_here(self) -> None:
        with budget(self._options.budget, self._hangs, COULD_NOT_RUN) as (deadline, check_time):
            self._count("starting")
            loaded: list[tuple[OpSpec, Candidates]] = []

            def surveyed(order: RunSpec) -> Survey:
                parts = order.load()
                survey = order.surveyed(*parts)
                loaded.append(parts)
                return survey

            found = self._surveyed(surveyed)
            rows: list[Iterator[Row]] = []
            for (spec, candidates), orders in zip(loaded, self._arranged(found), strict=True):
                dated = [replace(order, deadline=deadline) for order in orders]
                rows += [order.judge(spec, candidates, self._report) for order in dated]
            self._count("loading")
            with _oracle_errors():
                self._take((row for each in rows for row in each), check_time)

    def _judge_elsewhere(self, pool: Pool) -> None:
        pool.prepare(self._interruption.check)
        self._count("starting")
        deadline, check_time = clock(self._options.budget)

        def surveyed(order: RunSpec) -> Survey:
            survey = self._wait(Surveying(order, pool, self._seconds), check_time)
            assert isinstance(survey, Survey)
            return survey

        found = self._surveyed(surveyed)
        shared: list[RunSpec] = []
        alone: list[RunSpec] = []
        for (survey, _), orders in zip(found, self._arranged(found), strict=True):
            shared += orders
            alone += [one for order in orders for one in order.one_by_one(survey)]
        self._count("loading")
        works = alone if self._options.jobs > 1 and len(alone) > 1 else shared
        dated = [replace(order, deadline=deadline) for order in works]
        guarded = Guarded(dated, pool, self._seconds)
        if self._take(self._report.collect(guarded.events(), guarded.remaining), check_time):
            wrong = incomplete(self._report.rows, [(survey.op, survey.planned) for survey, _ in found])
            if wrong is not None and not self._options.last_failed:
                raise WorkerError(wrong)

    def _surveyed(self, surveyed: Callable[[RunSpec], Survey]) -> list[tuple[Survey, list[RunSpec]]]:
        """Return the survey and the orders of each source; one of several that cannot be loaded costs its own rows.

        Raises:
            CannotLoad: none can be loaded.
        """
        result = usable(self._sources, self._orders, surveyed)
        for candidate in (*result.not_built, *(each for survey, _ in result.found for each in survey.not_built)):
            self._report.add(candidate)
        definitions = (*result.definitions, *(each for survey, _ in result.found for each in survey.definitions))
        self._report.definitions.extend(definitions)
        self._sources = result.sources
        return [(survey, self._present(survey, orders)) for survey, orders in result.found]

    @property
    def _seconds(self) -> float:
        """How long a process that judges may say nothing: longer than a solution that it asks, which it ends itself."""
        seconds = self._options.trial_seconds
        return 2 * seconds + TRIAL_SECONDS if self._options.apart else seconds

    def _wait(self, surveying: Surveying, check_time: Check) -> object:
        try:
            with contextlib.closing(surveying.events()) as waiting:
                while True:
                    try:
                        next(waiting)
                    except StopIteration as end:
                        return end.value
                    self._interruption.check()
                    check_time(None)
        finally:
            for event in surveying.remaining():
                self._report.add(event)

    def _present(self, survey: Survey, orders: list[RunSpec]) -> list[RunSpec]:
        """The orders for devices that are there; the report has what else is known once the source is loaded."""
        report, missing = self._report, survey.cuda_missing
        report.environment.update(survey.environment)
        for line in (f"{CUDA_MISSING}{missing}" if missing else "", survey.left_out):
            if line:
                report.add(Note(line))
        present = [order for order in orders if order.device != "cuda" or not missing]
        report.catches.update(survey.catches)
        return present

    def _arranged(self, found: Sequence[tuple[Survey, list[RunSpec]]]) -> list[list[RunSpec]]:
        """Return the work of each source; print a line if it depends on the last run; raises what `arranged` does."""
        self._ops = [survey.op for survey, _ in found]
        what = arranged(found, self._options.last_failed)
        self._length = what.length
        if what.message:
            self._console.show(what.message, soft_wrap=True, highlight=False)
        if what.partial:
            self._report.add(Note("what passed in the last run: --last-failed judges only what did not"))
        return what.orders

    @property
    def _problems(self) -> dict[str, Hashable]:
        """The problem of each operator that is one of several at different inputs."""
        problems = [getattr(source, "at_other_inputs", None) for source in self._sources]
        known = zip(self._ops, problems, strict=False)
        return {op: problem for op, problem in known if problem is not None}

    def _remember(self) -> None:
        """Keep what failed, for the next run."""
        try:
            for source, op in zip(self._sources, self._ops, strict=False):
                remember(source, op, self._report)
        except OSError as error:
            if self._options.last_failed or self._options.failed_first:
                complain(f"what failed cannot be kept for the next run: {error}")

    def _count(self, phase: str) -> None:
        """A phase before the first row is over."""
        before = sum(self._report.seconds.values())
        self._report.seconds[phase] = time.perf_counter() - self._interruption.began - before

    def _take(self, rows: Rows, check_time: Check) -> bool:
        """Show the rows as they come; returns whether all have come."""
        first_rows = remedies.FirstRows()
        with contextlib.closing(rows), self._shown() as show:
            for row in rows:
                if row is not None:
                    show(row)
                    first_rows.check(row)
                    if self._options.exit_first and row in self._report.failed:
                        self._report.add(Note("all other rows: -x stops at the first that does not pass"))
                        return False
                self._keep()
                self._interruption.check()
                check_time(row)
        return True

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Callable[[Row], None]]:
        """A table that grows, on a terminal; elsewhere, or with -v, lines of the rows, and the table at the end."""
        report, verbose = self._report, self._options.verbose
        if self._options.quiet:
            yield lambda row: None
            return
        if verbose:
            self._console.show(environment_line(report.environment), soft_wrap=True, highlight=False)
        if verbose or not self._console.is_terminal:

            def show_line(row: Row) -> None:
                line = whole_row_line(row) if verbose else row_line(row)
                self._console.show(line, soft_wrap=True, highlight=False)

            try:
                yield show_line
            finally:
                if report.rows:
                    with contextlib.suppress(OutputLost):  # what comes below says so
                        self._console.show("", table(report), sep="\n")
            return
        bar, move_on = progress.bar(self._length)
        with Live(bar, console=self._console, refresh_per_second=4) as live:

            def show(row: Row) -> None:
                move_on(row)
                live.update(Group(table(report), bar))

            try:
                yield show
            finally:
                live.update(table(report) if report.rows else "", refresh=True)

    # The report.

    def _keep(self) -> None:
        """Write what is known, as of a run that has not ended, unless that was done just now."""
        if self._files.json is None or not self._files.json.kept or not self._pace.is_due:
            return
        with self._pace.timed(), contextlib.suppress(OSError):  # in the end it is tried again, and told
            done = f"{len(self._report.rows)} of {self._length} rows are judged"
            self._files.json.write(self._data(f"not finished: {done}"))

    def _data(self, error: str | None) -> str:
        return replace(self._report, error=error).as_json()

    def _write(self) -> bool:
        """Write the report in every form; returns whether all are written, and says which are not."""
        forms = (
            (self._files.json, lambda: self._data(self._report.error)),
            (self._files.html, lambda: _as_html(self._report)),
            (self._files.markdown, lambda: markdown.as_markdown(self._report, self._cases())),
            (self._files.junit, lambda: junit.as_junit(self._report)),
        )
        written = True
        for file, text in forms:
            if file is None:
                continue
            try:
                file.write(text())
            except OSError as error:
                complain(f"{file.option} {file.given} cannot be written: {error.strerror or error}")
                written = False
            except Exception as error:  # a defect of the harness
                complain(f"{file.option} {file.given} cannot be made: {one_line_description(error)}")
                written = False
        return written

    def _cases(self) -> dict[str, str]:
        """The text of the case file of each operator of which something does not pass, by its name."""
        failed = {row.op for row in self._report.failed}
        known = zip(self._ops, self._sources, strict=False)
        files = [source.file for op, source in known if source.file is not None and op in failed]
        return {file.name: file.read_text(encoding="utf-8") for file in files}

    def _last_words(self) -> None:
        """Before an interruption ends this process."""
        if self._pool is not None:
            self._pool.kill()
        self._report.error = self._report.error or TEXT
        self._write()

    def _hangs(self, reason: str) -> None:
        """Before the budget ends this process."""
        self._report.error = reason
        self._end(None)


def _as_html(report: Report) -> str:
    from parity_tests.harness.report.html import as_html  # its templates take a sixth of a second to import

    return as_html(report)


@contextlib.contextmanager
def _oracle_errors() -> Iterator[None]:
    """Raise the oracle's errors in this process as a `WorkerError`, in the words of a process that judges."""
    from parity_tests.harness.oracle.oracle import OracleError
    from parity_tests.harness.primitives.missing import NotFloat64

    try:
        yield
    except OracleError as error:
        raise WorkerError(remedies.of_oracle_error(error)) from error
    except NotFloat64 as error:
        raise WorkerError(str(error)) from error
