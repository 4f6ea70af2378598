"""Processes that judge: started, listened to, and ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing import resource_tracker
from pathlib import Path

from parity_tests.harness.resume import Earlier
from parity_tests.harness.worker import Work, work

# What OpenMP, MKL, OpenBLAS and XLA read when they start.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PJRT_NPROC")
_TRACING = 1.0  # seconds in which a process that hangs writes down where


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A process that judges.

    Attributes:
        ended: has it ended, and all that it said been received?
        heard: when it last said something, by `time.monotonic`.
    """

    def __init__(self, threads: int | None, trace: Path) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process in which JAX runs may hang
        self._trace = trace
        self.connection, there = context.Pipe()
        self.process = context.Process(target=work, args=(there, threads, str(trace)), daemon=True)
        self.process.start()
        there.close()  # so that the end of the process is the end of the connection
        self.ended, self.heard = False, time.monotonic()

    def give(self, job: Work, earlier: Earlier) -> None:
        """Have it carry out work, of which some is known."""
        with contextlib.suppress(ConnectionError):  # it has ended, which `messages` will tell
            self.connection.send((job, earlier))
        self.heard = time.monotonic()

    def messages(self) -> Iterator[object]:
        """What it has said since."""
        try:
            alive = self.process.is_alive()  # asked before: what it said until then can be received
            while self.connection.poll():
                said = self.connection.recv()
                self.heard = time.monotonic()
                yield said
            self.ended = not alive
        except (EOFError, ConnectionError):
            self.process.join()
            self.ended = True

    def trace(self) -> str:
        """The calls that were interrupted when it crashed, or when it was asked."""
        return self._trace.read_text(encoding="utf-8", errors="replace") if self._trace.exists() else ""

    def stop(self) -> None:
        """End it, wherever it hangs; it writes down where."""
        if hasattr(signal, "SIGUSR1") and self.process.pid is not None and not self.trace():
            os.kill(self.process.pid, signal.SIGUSR1)
            deadline = time.monotonic() + _TRACING
            while time.monotonic() < deadline and not self.trace().endswith("\n"):
                time.sleep(0.05)
            time.sleep(0.05)
        self.process.kill()
        self.process.join()
        self.ended = True


class Pool:
    """The processes of a run, each with its share of the machine's cores; they are ended with it.

    `count`: how many will judge at a time.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._folder = tempfile.TemporaryDirectory(prefix="gradparity-")

    def __enter__(self) -> Pool:
        return self

    def prepare(self) -> None:
        """Start as many as will judge, and wait until they can: what they import takes seconds."""
        self._idle += self._started(self.count)
        for worker in self._idle:
            worker.connection.poll(None)

    def take(self) -> Worker:
        """One that waits for work; it is started if there is none."""
        return self._idle.pop() if self._idle else self._started(1)[0]

    def _started(self, count: int) -> list[Worker]:
        threads = None if self.count == 1 else max(1, cores() // self.count)
        environment = {} if threads is None else {name: str(threads) for name in _THREADS}
        started: list[Worker] = []
        with _environment(environment), _interruptions_held_back():
            for _ in range(count):
                trace = Path(self._folder.name) / f"{len(self._workers)}.txt"
                started.append(Worker(threads, trace))
                self._workers.append(started[-1])
        return started

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
        self._folder.cleanup()


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
