"""Judging in other processes: a candidate that crashes, ends the process or hangs costs its own rows, and no others."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

from parity_tests.harness.isolation import crash
from parity_tests.harness.isolation.budget import TRIAL_SECONDS as TRIAL_SECONDS
from parity_tests.harness.isolation.messages import (
    At,
    Began,
    CannotLoad,
    Done,
    Found,
    Survey,
    Surveyable,
    Surveyed,
    Work,
    WorkerError,
)
from parity_tests.harness.isolation.processes import Pool, Worker
from parity_tests.harness.judging.limits import held_to_limit
from parity_tests.harness.judging.resume import Earlier, Key, key_of
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.results import ORACLE, AllRows, Event, Note, Row

POLL = 0.25  # seconds, after which whoever waits for a row may look at the clock
_CRASHES = 8  # of a candidate, each of which costs the start of a process, after which it is not called any more


@dataclass
class _Task:
    """Work, and what is known of it, by whatever process."""

    work: Work
    length: int | None = None
    rows: dict[Key, Row] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    at: At | None = None  # where the process is that judges it
    crashes: Counter[str] = field(default_factory=Counter)  # of each candidate
    crashes_at: Counter[tuple[str, str]] = field(default_factory=Counter)  # of each candidate at each sample
    avoided: dict[str, frozenset[str]] = field(default_factory=lambda: defaultdict(frozenset))
    unshrunk: set[str] = field(default_factory=set)
    given_up: dict[str, str] = field(default_factory=dict)
    done: bool = False

    @property
    def judged_by(self) -> Hashable:
        """The key of tasks that share an oracle."""
        return self.work.source, self.work.device

    def note(self, *lines: str) -> None:
        """Remember what was skipped, each line once."""
        self.skipped.extend(line for line in lines if line not in self.skipped)

    @property
    def earlier(self) -> Earlier:
        """Return the results of the processes so far, for the next one."""
        return Earlier(dict(self.rows), dict(self.avoided), frozenset(self.unshrunk), dict(self.given_up))


class Guarded:
    """Work that is carried out in the processes of a pool: `Report.collect(guarded.events(), guarded.remaining)`.

    A candidate that ends its process, or does not answer for `trial_seconds` at one sample, has a row that says so, and
    another process goes on. A source that cannot be judged further costs no row of another one.
    """

    def __init__(self, works: Sequence[Work], pool: Pool, trial_seconds: float = TRIAL_SECONDS) -> None:
        self._tasks = [_Task(work) for work in works]
        self._pool, self._trial_seconds = pool, trial_seconds
        self._busy: dict[Worker, _Task] = {}
        self._failed: dict[Hashable, str] = {}  # of each source that cannot be judged further the reason
        self._at_the_end: list[Event] = []

    def events(self) -> Generator[Row | None, None, None]:
        """Each row as soon as it is known, the oracle's once for each source and device; None while there is none.

        Raises:
            WorkerError: at the end, if an oracle cannot judge, or a process ended while no candidate was called.
        """
        try:
            yield from self._shared_out()
            self._at_the_end.append(AllRows(tuple(_in_order(self._tasks))))
            if self._failed:
                raise WorkerError("; ".join(dict.fromkeys(self._failed.values())))
        except GeneratorExit:
            self._at_the_end += self._unheard()
            raise

    def remaining(self) -> Iterator[Event]:
        """Yield the rows and notes that are known once there are no more events.

        The rows in the order in which one process would have found them, or, if `events` was closed early, those that
        nobody had listened to; and the notes, with one that says where each process was.
        """
        yield from self._at_the_end
        yield from (Note(line) for task in self._tasks for line in task.skipped)

    def _unheard(self) -> list[Row]:
        """Stop the processes, note where each of them is, and return the rows of candidates that had been found."""
        rows: list[Row] = []
        for worker, task in self._busy.items():
            worker.request_trace()
            rows += _last_rows(worker, task)
        for worker, task in self._busy.items():
            if task.at is not None:
                worker.stop()
                row, calls = task.at.row, crash.frames(worker.trace())
                task.note(
                    f"{row.op}: {row.candidate}, {row.check}, {row.dtype}, which was being judged at sample "
                    f"{task.at.place.title}{', by the oracle' if crash.is_oracle_s(calls) else ''}"
                    f"{crash.innermost_calls(calls)}"
                )
            elif not task.done:
                worker.stop()
                where = _where(worker) or (" at an unknown place" if worker.ready else " starting")
                task.note(f"no candidate was being called: the process that judges was{where}")
        return rows

    def _shared_out(self) -> Iterator[Row | None]:
        """Have each process of the pool carry out one task after the other."""
        waiting, busy = list(self._tasks), self._busy
        of_oracle: dict[Hashable, _Task] = {}  # of each source and device the task whose rows of the oracle are taken

        def begin(worker: Worker, task: _Task) -> None:
            busy[worker] = task
            task.at = None
            worker.give(task.work, task.earlier)

        for _ in range(min(self._pool.count, len(self._tasks))):
            begin(self._pool.take(), waiting.pop(0))
        while busy:
            if not wait([x for worker in busy for x in (worker.connection, worker.process.sentinel)], timeout=POLL):
                yield None
            for worker, task in list(busy.items()):
                try:
                    for row in _heard(worker, task, self._trial_seconds):
                        if row.candidate != ORACLE or of_oracle.setdefault(task.judged_by, task) is task:
                            yield row
                except (WorkerError, CannotLoad) as error:
                    self._failed.setdefault(task.work.source, str(error))
                if task.work.source in self._failed and not task.done:
                    worker.stop()
                    task.done = True
                if worker.ended or task.done:
                    del busy[worker]
                    waiting = [each for each in waiting if each.work.source not in self._failed]
                    following = task if not task.done else waiting.pop(0) if waiting else None
                    if following is not None:
                        begin(self._pool.take() if worker.ended else worker, following)
                    elif not worker.ended:
                        self._pool.give_back(worker)


class Surveying:
    """Work that is loaded in a process of a pool, which keeps it, to find out what `work.surveyed` says of it."""

    def __init__(self, work: Surveyable, pool: Pool, seconds: float = TRIAL_SECONDS) -> None:
        self._work = work
        self._seconds = max(seconds, TRIAL_SECONDS)  # to import and to trace takes longer than a sample does
        self._pool = pool
        self._at_the_end: list[Event] = []

    def events(self) -> Generator[None, None, object]:
        """Yields None while it waits; returns what `work.surveyed` returns.

        Raises:
            CannotLoad: it cannot be loaded: its message says why; or the process has ended, or has not answered for so
                many seconds, and for `TRIAL_SECONDS` at least.
            WorkerError: a defect of the harness.
        """
        worker = self._pool.take()
        worker.ask(Survey(self._work))
        while True:
            for message in worker.messages():
                match message:
                    case WorkerError() | CannotLoad():
                        raise message
                    case Surveyed(found, imported):
                        self._pool.imported |= imported
                        self._pool.give_back(worker)
                        if isinstance(found, CannotLoad):
                            raise found
                        return found
            how = worker.end if worker.ended else ""
            if not worker.ended and time.monotonic() - worker.heard > self._seconds:
                worker.stop()
                how = f"gave no answer for {self._seconds:g} s"
            if how:
                raise CannotLoad(f"{self._work.named} {how} while it was loaded{_where(worker)}")
            try:
                if not wait([worker.connection, worker.process.sentinel], timeout=POLL):
                    yield
            except GeneratorExit:
                worker.stop()
                self._at_the_end.append(Note(f"{self._work.named} was being loaded{_where(worker)}"))
                raise

    def remaining(self) -> Iterator[Event]:
        """A note with the place where the process was, if `events` was closed early."""
        yield from self._at_the_end


def _last_rows(worker: Worker, task: _Task) -> list[Row]:
    """The candidates' rows among the messages of a process that were not read; the task gets the rest."""
    rows: list[Row] = []
    for message in worker.messages():
        match message:
            case At():
                task.at = message
            case Found(row, skipped):
                task.at = None
                task.note(*skipped)
                rows += [row] if row.candidate != ORACLE else []
    return rows


def _where(worker: Worker) -> str:
    return crash.innermost_calls(crash.frames(worker.trace()))


def _in_order(tasks: Sequence[_Task]) -> list[Row]:
    """The rows in order: for each source and device the oracle's, once, then those of its candidates."""
    rows: list[Row] = []
    for judged_by in dict.fromkeys(task.judged_by for task in tasks):
        found = [row for task in tasks if task.judged_by == judged_by for row in task.rows.values()]
        of_oracle: dict[Key, Row] = {}
        for row in found:
            if row.candidate == ORACLE:
                of_oracle.setdefault(key_of(row), row)
        rows += of_oracle.values()
        rows += [row for row in found if row.candidate != ORACLE]
    return rows


def _heard(worker: Worker, task: _Task, trial_seconds: float) -> Iterator[Row]:
    """The rows that a process has found since; if it has come to its end, or hangs, the row that says so."""
    for message in worker.messages():
        match message:
            case WorkerError() | CannotLoad():
                raise message
            case Began(length):
                task.length = length
            case At():
                task.at = message
            case Found(row, skipped):
                task.at = None
                task.note(*skipped)
                if _is_news(task, row):
                    task.rows[key_of(row)] = row
                    yield row
            case Done(skipped):
                task.done = True
                task.note(*skipped)
    limit = trial_seconds if worker.ready else max(trial_seconds, TRIAL_SECONDS)  # no candidate's, as long as it starts
    if not worker.ended and not task.done and time.monotonic() - worker.heard > limit:
        worker.stop()
        yield from _lost(task, f"gave no answer for {limit:g} s", worker.trace())
    elif worker.ended and not task.done:
        yield from _lost(task, worker.end, worker.trace())


def _is_news(task: _Task, row: Row) -> bool:
    """Whether a row is the first of its key, or does not pass where the first does; a row that comes again is noted."""
    known = task.rows.get(key_of(row))
    if known is None:
        return True
    task.note(
        f"{row.op}: {row.candidate}, {row.check}, {row.dtype} was judged twice, {known.verdict} and {row.verdict}, as "
        "where a candidate forks the process; what does not pass counts"
    )
    return known.passed and not row.passed


def _lost(task: _Task, how: str, trace: str) -> Iterator[Row]:
    """The row of the candidate that ended a process, if it has none yet; later processes avoid that call."""
    if task.at is None:
        raise WorkerError(
            f"the process that judges {how}{crash.innermost_calls(crash.frames(trace))} while no candidate was called: "
            "the oracle, the spec or the harness is to blame; --no-isolate, or isolate=False, may say more"
        )
    row, place, candidate = task.at.row, task.at.place, task.at.row.candidate
    task.crashes[candidate] += 1
    task.crashes_at[candidate, place.name] += 1
    if task.crashes[candidate] >= _CRASHES:
        task.given_up[candidate] = f"not judged: {candidate} has ended {_CRASHES} processes"
    if place.shrinking:
        task.unshrunk.add(candidate)
        task.note(f"{row.op}: {candidate} {how} at {place.title}, to which a failure was shrunk: its are not shrunk")
        return
    # At an ordinary sample one check may do what no other does; what two have done is done again.
    if task.crashes_at[candidate, place.name] >= (2 if place.generic else 1):
        task.avoided[candidate] |= {place.name}
        task.note(f"{row.op}, sample {place.title}: {candidate} {how} there; it is not called there any more")
    if key_of(row) not in task.rows:
        file = _kept(task.work.folder, row, trace)
        found = crash.row_of(row, place, how, trace, file, task.work.again(row))
        task.rows[key_of(row)] = held_to_limit(found, task.at.limit)
        yield task.rows[key_of(row)]


def _kept(folder: Path | None, row: Row, trace: str) -> Path | None:
    """The file in which all calls of a crash are kept, if there is a folder for it."""
    if folder is None or not trace:
        return None
    name = "-".join((row.op, row.candidate, row.check, row.dtype, row.device, "calls"))
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, trace)
    except OSError:  # the failure has the innermost calls
        return None
    return path
