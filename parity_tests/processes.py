"""A run by several processes: each judges one candidate after the other, on its own share of the machine's cores."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from parity_tests.harness.court import Court
from parity_tests.harness.oracle import OracleError
from parity_tests.harness.report import ORACLE, Report, Row
from parity_tests.order import Order, load

POLL = 0.25  # seconds, after which whoever waits for a row may look at the clock
# What OpenMP, MKL, OpenBLAS and XLA read when they start.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PJRT_NPROC")


class WorkerError(RuntimeError):
    """A process could not go on judging; the message says why."""


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def judge_in_processes(orders: Sequence[Order], report: Report, count: int) -> Iterator[Row | None]:
    """Carry out the orders, of one candidate each, in `count` processes, but no more than cores or orders.

    Each row is added to the report and yielded as soon as it is known, the oracle's once for each device; None is
    yielded now and then while there is none. In the end the rows are in the order in which one process would have
    found them. However it ends, no process is left.

    Raises:
        WorkerError: the oracle cannot judge, or a process ended before its time.
    """
    count = min(count, cores(), len(orders))
    found: list[list[Row]] = [[] for _ in orders]
    skipped: list[list[str]] = [[] for _ in orders]
    of_oracle: dict[str, int] = {}  # of each device the order whose rows of the oracle are taken
    waiting = list(range(len(orders)))
    with _workers(count, threads=cores() // count) as workers:
        busy = {connection: waiting.pop(0) for connection in workers}
        for connection, at in busy.items():
            connection.send(orders[at])
        while busy:
            ready = wait(list(busy), timeout=POLL)
            if not ready:
                yield None
            for connection in ready:
                assert isinstance(connection, Connection)
                at = busy[connection]
                said = _received(connection, workers[connection])
                if not isinstance(said, Row):
                    skipped[at] = said
                    if waiting:
                        busy[connection] = waiting.pop(0)
                        connection.send(orders[busy[connection]])
                    else:
                        del busy[connection]
                elif said.candidate != ORACLE or of_oracle.setdefault(orders[at].device, at) == at:
                    found[at].append(said)
                    report.rows.append(said)
                    yield said
    report.rows[:] = _in_order(orders, found)
    report.skipped.extend(dict.fromkeys(line for lines in skipped for line in lines if line not in report.skipped))


def _in_order(orders: Sequence[Order], found: Sequence[list[Row]]) -> list[Row]:
    """Of each device the oracle's rows, then those of its candidates."""
    rows: list[Row] = []
    for device in dict.fromkeys(order.device for order in orders):
        of_device = [row for order, rows in zip(orders, found, strict=True) for row in rows if order.device == device]
        rows += sorted(of_device, key=lambda row: row.candidate != ORACLE)
    return rows


def _received(connection: Connection, process: BaseProcess) -> Row | list[str]:
    """A row, or, at the end of an order, the lines of what was skipped."""
    try:
        said = connection.recv()
    except (EOFError, ConnectionError) as error:
        process.join()
        raise WorkerError(
            f"a process that judges ended with exit code {process.exitcode}; -j 1 may say more"
        ) from error
    if isinstance(said, WorkerError):
        raise said
    return said


@contextlib.contextmanager
def _workers(count: int, threads: int) -> Iterator[dict[Connection, BaseProcess]]:
    """Processes that wait for orders, by the connection to each; they are ended with the block."""
    context = multiprocessing.get_context("spawn")  # a fork of a process in which JAX runs may hang
    workers: dict[Connection, BaseProcess] = {}
    try:
        with _environment({name: str(threads) for name in _THREADS}), _interruptions_held_back():
            for _ in range(count):
                here, there = context.Pipe()
                workers[here] = context.Process(target=_work, args=(there, threads), daemon=True)
                workers[here].start()
                there.close()  # so that the end of the process is the end of the connection
        yield workers
    finally:
        for process in workers.values():
            process.kill()
        for process in workers.values():
            process.join()


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _interruptions_held_back() -> Iterator[None]:
    """A process that is started meanwhile never gets one: a terminal sends it to all, and its parent ends it.

    This process gets it at the end: one that is half started would complain. It is not enough that this thread blocks
    the signal, since another thread may take it, and Python interrupts this one.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, which unblocks the signal (cpython#127586)
    held: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread() and callable(handler)  # or it cannot be set
    if ours:
        signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if held:
            signal.raise_signal(signal.SIGINT)


def _work(connection: Connection, threads: int) -> None:
    """In a process: carry out orders as they come. Rows are sent one by one, then what was skipped; or an error."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    courts: dict[str, Court] = {}  # of each device: what an oracle has found out serves the next candidate, too
    try:
        order: Order = connection.recv()
        spec, candidates = load(order.case, order.op, order.names)
        while True:
            report = Report({})
            court = courts.setdefault(order.device, order.court(spec))
            for row in order.judge(spec, candidates, report, court):
                failure = row.failure and replace(row.failure, evidence=None)  # which holds the candidate
                connection.send(replace(row, failure=failure))
            connection.send(report.skipped)
            order = connection.recv()
    except OracleError as error:
        connection.send(WorkerError(str(error)))
    except Exception as error:  # a sampler of the user's, or a defect of the harness: whoever reads it must see where
        traceback.print_exc()
        connection.send(WorkerError(f"{type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
