"""The judging process: it carries out work as it comes, and reports what it finds and where it is."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from parity_tests.harness.exceptions.defects import one_line_description
from parity_tests.harness.isolation.crash import Place
from parity_tests.harness.isolation.imported import Stamps, imported
from parity_tests.harness.isolation.messages import (
    At,
    Began,
    CannotLoad,
    Done,
    Found,
    Ready,
    Survey,
    Surveyed,
    Work,
    WorkerError,
)
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import judge
from parity_tests.harness.judging.plan import Plan
from parity_tests.harness.judging.remedies import of_oracle_error
from parity_tests.harness.judging.resume import Earlier
from parity_tests.harness.judging.titles import title
from parity_tests.harness.oracle.oracle import OracleError
from parity_tests.harness.primitives.missing import NotFloat64
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.reproducer_files import ReproducerFiles
from parity_tests.harness.report.results import Row
from parity_tests.harness.solutions.process import keep_in
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.specs.spec import OpSpec

if TYPE_CHECKING:
    from parity_tests.harness.isolation.messages import Candidates

_COURTS = 64  # oracles that a process keeps
LOST, INTERRUPTED = 1, 130  # exit codes of a process whose candidate closes its connection, or interrupts it


def work(connection: Connection, threads: int | None, trace: str) -> None:
    """Carry out work until there is no parent any more.

    Args:
        connection: over which work comes, each with what is known of it, and messages go back: `Ready`; then for each
            work `Began`, `At` and `Found` as they come, and `Done`. If it cannot be carried out, a `WorkerError`, or
            `CannotLoad`. A `Survey` may come instead, which is answered by `Surveyed`.
        threads: of PyTorch; None for as many as it takes by itself.
        trace: the file for the calls that a crash interrupts.
    """
    with Path(trace).open("w", encoding="utf-8") as file:
        faulthandler.enable(file)
        if hasattr(faulthandler, "register"):
            faulthandler.register(signal.SIGUSR1, file)  # by which the parent asks where a process hangs
        if threads is not None:
            torch.set_num_threads(threads)
        keep_in(Path(trace).parent)
        _serve(connection)


def _serve(connection: Connection) -> None:
    loaded: dict[Hashable, tuple[OpSpec, Candidates]] = {}
    courts: dict[Hashable, tuple[OpSpec, Oracles]] = {}  # what an oracle has found out serves the next candidate, too
    modules: Stamps = {}
    send = partial(_send, connection)
    send(Ready())

    def load(job: Work) -> tuple[OpSpec, Candidates]:
        if job.source not in loaded:
            loaded[job.source] = job.load()
        return loaded[job.source]

    try:
        while True:
            message: Survey | tuple[Work, Earlier] = _received(connection)
            if isinstance(message, Survey):
                began, found = time.time_ns(), None
                try:
                    found = message.work.surveyed(*load(message.work))
                except CannotLoad as error:  # another one may be loaded
                    found = CannotLoad(str(error))
                modules = imported(modules, began)
                send(Surveyed(found, modules))
                continue
            job, earlier = message
            spec, candidates = load(job)
            key = id(spec), job.sampling
            spec, oracles = courts.pop(key, None) or (spec, job.oracles(spec))
            courts[key] = spec, oracles
            if len(courts) > _COURTS:
                del courts[next(iter(courts))]  # the one that was asked the longest time ago
            plan = replace(job.plan(spec, candidates, oracles), earlier=earlier)
            _carry_out(job, replace(plan, on_trial=_announcing(plan, oracles, send)), send)
            if job.release(candidates):
                del loaded[job.source]
    except OracleError as error:
        send(WorkerError(of_oracle_error(error)))
    except NotFloat64 as error:
        send(WorkerError(str(error)))
    except CannotLoad as error:
        send(CannotLoad(str(error)))
    except KeyboardInterrupt:  # the candidate's own: whoever interrupts a run ends its processes
        os._exit(INTERRUPTED)
    except Exception as error:  # a sampler of the user's, or a defect of the harness: whoever reads it must see where
        send(WorkerError(one_line_description(error)))


def _send(connection: Connection, message: object) -> None:
    """Send a message. If the candidate has closed the connection, end at once: there is nobody to tell."""
    try:
        connection.send(message)
    except OSError:
        os._exit(LOST)


def _received(connection: Connection) -> Any:
    """Return the next message. As `_send` does, end at once if there is no connection any more."""
    try:
        return connection.recv()
    except (EOFError, OSError):
        os._exit(LOST)


def _carry_out(job: Work, plan: Plan, send: Callable[[object], None]) -> None:
    report, sent = Report({}), 0
    send(Began(plan.length))
    for _ in report.collect(judge(plan)):
        job.save(report)  # at once: another check may hang
        row = report.rows[-1]
        failure = row.failure
        if failure is not None and not isinstance(failure.evidence, ReproducerFiles):  # it holds the candidate
            failure = replace(failure, evidence=None)
        send(Found(replace(row, failure=failure), tuple(report.skipped[sent:])))
        sent = len(report.skipped)
    send(Done(tuple(report.skipped[sent:])))


def _announcing(plan: Plan, oracles: Oracles, send: Callable[[At], None]) -> Callable[[Row, Sample], None]:
    """The function that is called before each call of a candidate."""
    limits = {candidate.name: candidate.limits or {} for candidate in plan.present}
    precisions = {precision.name: precision for precision in plan.precisions}

    def announce(row: Row, sample: Sample) -> None:
        cases = oracles.certified_oracle(precisions[row.dtype].double).cases
        shrinking = not any(sample is case for case in cases)
        turns = plan.turns(row.candidate)
        checks = [check.name for precision, of_turn in turns if precision.name == row.dtype for check in of_turn]
        if row.check not in checks:  # the candidate is asked whether it accepts a sample, and "forward" is not judged
            row = replace(row, check=checks[0])
        place = Place(
            sample.name, title(sample), sample.why, dict(sample.sizes), sample.seed, sample.generic, shrinking
        )
        send(At(row, place, limits[row.candidate].get(row.check)))

    return announce
