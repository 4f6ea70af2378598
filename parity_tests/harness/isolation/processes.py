"""Judging processes: how they are started, read and ended."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # this module is imported, and processes are started, before PyTorch and JAX are imported here
    from parity_tests.harness.isolation.imported import Stamp
    from parity_tests.harness.isolation.messages import Survey, Work
    from parity_tests.harness.judging.resume import Earlier

# What OpenMP, MKL, OpenBLAS and XLA read when they start.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PJRT_NPROC")
_TRACING = 1.0  # seconds in which a process that hangs writes down where
_ENDING = 5.0  # seconds in which a process without a connection must have ended
_POLL = 0.25  # seconds, after which whoever waits for a process may look at the clock
_HELD_BACK = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_of(exit_code: int | None) -> str:
    """How a process ended, from its exit code: minus the number of a signal, if that ended it."""
    if exit_code is None or exit_code >= 0:
        return f"ended the process (exit code {exit_code})"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return "was killed (SIGKILL; out of memory?)" if name == "SIGKILL" else f"crashed ({name})"


class Worker:
    """A judging process.

    Attributes:
        ended: has it ended, and all that it said been received?
        ready: has it said anything yet? It takes seconds to start.
        heard: when it last did, or was last spoken to, by `time.monotonic`.
    """

    def __init__(self, threads: int | None, trace: Path) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process in which JAX runs may hang
        self._trace = trace
        self.connection, there = context.Pipe()
        self.process = context.Process(target=_work, args=(there, threads, str(trace)), daemon=True)
        self.process.start()
        there.close()  # so that the end of the process is the end of the connection
        self.ended, self.ready, self.heard = False, False, time.monotonic()
        self._trace_requested: float | None = None  # when it was asked where it is
        self._broke_off = False  # does it live on without a connection?

    def give(self, job: Work, earlier: Earlier) -> None:
        """Have the process carry out work, some of whose rows may be known already."""
        self._send((job, earlier))

    def ask(self, survey: Survey) -> None:
        """Have the process answer a question about work."""
        self._send(survey)

    def _send(self, message: object) -> None:
        with contextlib.suppress(ConnectionError):  # it has ended, which `messages` will tell
            self.connection.send(message)
        self.heard = time.monotonic()

    def messages(self) -> Iterator[object]:
        """The messages of the process since the last call."""
        try:
            alive = self.process.is_alive()  # asked before: what it said until then can be received
            while self.connection.poll():
                received = self.connection.recv()
                self.ready, self.heard = True, time.monotonic()
                yield received
            self.ended = not alive
        except (EOFError, OSError, pickle.UnpicklingError):
            # It has ended, or its candidate has closed or garbled the connection. `join` would wait for ever, even with
            # a timeout, if the candidate has also closed the pipe that tells of its end.
            until = time.monotonic() + _ENDING
            while self.process.is_alive() and time.monotonic() < until:
                time.sleep(0.01)
            if self.process.is_alive():
                self._broke_off = True
                self.stop()
            self.ended = True

    @property
    def end(self) -> str:
        """How the process ended, as a predicate."""
        if self._broke_off:
            return "broke the connection between its process and the run"
        return end_of(self.process.exitcode)

    def trace(self) -> str:
        """The call stack of the process when it crashed, or when `request_trace` was called."""
        return self._trace.read_text(encoding="utf-8", errors="replace") if self._trace.exists() else ""

    def request_trace(self) -> None:
        """Have the process write down its call stack, even if it hangs; `stop` waits for that."""
        if (
            hasattr(signal, "SIGUSR1")
            and self.process.pid is not None
            and self._trace_requested is None
            and not self.trace()
        ):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGUSR1)
            self._trace_requested = time.monotonic()

    def stop(self) -> None:
        """End the process, even if it hangs, after it has written down its call stack."""
        self.request_trace()
        if self._trace_requested is not None:
            while time.monotonic() < self._trace_requested + _TRACING and not self.trace().endswith("\n"):
                time.sleep(0.05)
            time.sleep(0.05)
        self.kill()
        self.process.join()
        self.ended = True

    def kill(self) -> None:
        """End the process and its children: a compiler, a candidate's own processes."""
        pid = self.process.pid
        if pid is not None and hasattr(os, "killpg") and self.process.is_alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):  # it has no group of its own yet
                os.killpg(pid, signal.SIGKILL)
        self.process.kill()


class Pool:
    """The processes of a run, each with its share of the machine's cores; they are ended with it.

    Attributes:
        count: how many may judge at a time.
        imported: the user's modules that a process had imported when it was last asked what there is.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.imported: dict[Path, Stamp | None] = {}
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._numbers = itertools.count()
        self._folder = tempfile.TemporaryDirectory(prefix="gradparity-")

    def __enter__(self) -> Pool:
        return self

    def start(self, count: int = 1) -> None:
        """Start this many processes, without waiting for them; further ones are started when there is work for them."""
        self._idle += self._started(min(count, self.count))

    def prepare(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until the started processes can judge; start one if there is none. `meanwhile` is called often."""
        if not self._idle:
            self.start()
        for worker in self._idle:
            while not worker.ready and not worker.connection.poll(_POLL):
                meanwhile()

    def take(self) -> Worker:
        """A process that waits for work; one is started if none does."""
        return self._idle.pop() if self._idle else self._started(1)[0]

    def _started(self, count: int) -> list[Worker]:
        threads = None if self.count == 1 else max(1, cores() // self.count)
        environment = {} if threads is None else {name: str(threads) for name in THREADS}
        started: list[Worker] = []
        with _environment(environment), _interruptions_held_back():
            self._workers = [worker for worker in self._workers if worker.process.is_alive()]
            for _ in range(count):
                trace = Path(self._folder.name) / f"{next(self._numbers)}.txt"
                started.append(Worker(threads, trace))
                self._workers.append(started[-1])
        return started

    def give_back(self, worker: Worker) -> None:
        """Return a process that waits for work again."""
        self._idle.append(worker)

    def kill(self) -> None:
        """End all processes, at any moment."""
        for worker in self._workers:
            worker.kill()

    def end(self) -> None:
        """End all processes, and wait for it."""
        self.kill()
        for worker in self._workers:
            worker.process.join()

    def __exit__(self, *_: object) -> None:
        self.end()
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


def _work(connection: Connection, threads: int | None, trace: str) -> None:
    """The main function of a process; see `worker.work`, which it imports itself."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # so that it can be ended with all that it starts, and gets no signal of the terminal's
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        from parity_tests.harness.isolation.worker import work
    except Exception as error:  # PyTorch or JAX cannot be imported
        from parity_tests.harness.exceptions.defects import one_line_description
        from parity_tests.harness.isolation.messages import WorkerError

        connection.send(WorkerError(one_line_description(error)))
        return
    work(connection, threads, trace)


def end_with_parent() -> None:
    """Wait for the end of the parent process, and end this one with all that it has started."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


@contextlib.contextmanager
def _interruptions_held_back() -> Iterator[None]:
    """A block that defers interruptions; processes that start in it never get one, and are ended by their parent.

    This process gets it at the end: one that is half started would complain. It is not enough that this thread blocks
    the signals, since another thread may take one, and Python calls the handler in this one.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # the first process would start it, which unblocks SIGINT (cpython#127586)
    held: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    handlers = {number: signal.getsignal(number) for number in _HELD_BACK}
    # A handler can be set in the main thread only; that of the system needs none, since it is a signal to all threads.
    ours = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        ours = {}
    for number in ours:
        signal.signal(number, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in dict.fromkeys(held):
            signal.raise_signal(number)
