"""One operator, judged in a child process: a crash, a hang or a lack of memory costs this operator only.

Each thread that calls `judged` has a child of its own, which judges one operator after the other. A child that has
crashed, or has judged many, is replaced. What fails in a child that is not new is tried again in a new one, since an
operator before it may have been the cause.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as Timeout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from parity_tests.harness.isolation.processes import THREADS, end_of, end_with_parent
from parity_tests.sweep.lines import Line, Verdict

if sys.platform != "win32":
    import resource
    import signal
if TYPE_CHECKING:
    from pebble import ProcessPool  # pyright: ignore[reportMissingImports]

WHOLE = "*"  # what a line is of if the operator could not be judged at all
_WALL = 4  # a child that waits uses no CPU time: after so many times the CPU time that it may use, it hangs
_OUT_OF_MEMORY = 86  # the exit code of a child that has used more than it may
_POLL = 0.1  # seconds after which a child looks at its memory again
_FOLDERS = {"JAX_COMPILATION_CACHE_DIR": "jax", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
_CACHE = {  # of JAX's compilations: most of the time of a first sweep
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


class NoPebble(ImportError):
    """Raised where pebble is not installed; the message says how to install it."""


@dataclass(frozen=True)
class Limits:
    """The limits of time and memory for judging one operator.

    Attributes:
        seconds: of CPU time; of time on the clock it may take four times as many.
        memory: bytes.
        operators: how many a child judges before a new one takes its place.
    """

    seconds: float = 600
    memory: int = 4 << 30
    operators: int = 15


@dataclass(frozen=True)
class Request:
    """An operator to judge, by whom, in which modes and dtypes, and within which limits.

    `judge` is the name of a function, "module:function", which is called with the operator, the modes and the dtypes
    and returns a list of `Line`: only the child imports it.
    """

    judge: str
    operator: str
    modes: tuple[str, ...]
    dtypes: tuple[str, ...]
    limits: Limits = Limits()

    def unreached(self, reason: str) -> list[Line]:
        """The lines of an operator that could not be judged: one for each mode and dtype."""
        return [
            Line(self.operator, mode, WHOLE, dtype, Verdict.UNREACHED, reason=reason)
            for mode in self.modes
            for dtype in self.dtypes
        ]


@dataclass(frozen=True)
class _Answer:
    """The answer of a child: the lines, or why there are none; and how much memory it holds, in bytes."""

    lines: list[Line]
    error: str
    memory: int


@dataclass(frozen=True)
class _NoAnswer:
    """How a child ended without an answer: it is not asked again if it hangs."""

    reason: str
    hangs: bool = False


class _Guard:
    """A child process of a thread's own, with what it has done."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self._done = limits, 0
        self._lock, self._closed = threading.Lock(), False  # another thread may close it at any moment
        self._pool, self._future = _pool(limits), None

    def judged(self, request: Request) -> list[Line]:
        """The lines of an operator; one that cannot be judged has lines that say why."""
        answer = self._answer(request)
        if isinstance(answer, _NoAnswer) and self._done and not answer.hangs:
            self._renew()
            answer = self._answer(request)
        if isinstance(answer, _NoAnswer):
            self._renew()
            return request.unreached(answer.reason)
        self._done += 1
        if self._done >= self.limits.operators or answer.memory > self.limits.memory / 2:
            self._renew()
        return request.unreached(answer.error) if answer.error else answer.lines

    def _answer(self, request: Request) -> _Answer | _NoAnswer:
        from pebble import ProcessExpired  # pyright: ignore[reportMissingImports]

        wall = _WALL * request.limits.seconds
        with self._lock:
            if self._closed:  # a pool that is stopped would never answer
                raise CancelledError
            self._future = self._pool.schedule(_answered, args=[request], timeout=wall)
        try:
            return self._future.result()
        except Timeout:
            return _NoAnswer(f"gave no answer for {wall:g} s", hangs=True)
        except ProcessExpired as end:
            return _ending(end.exitcode, request.limits)

    def _renew(self) -> None:
        with self._lock:
            if self._closed:
                raise CancelledError
            self._end()
            self._pool, self._future, self._done = _pool(self.limits), None, 0

    def close(self) -> None:
        """End the child, even if it hangs; whoever waits for its answer, or asks again, gets a `CancelledError`."""
        with self._lock:
            self._closed = True
            self._end()

    def _end(self) -> None:
        if self._future is not None:
            self._future.cancel()
        self._pool.stop()
        self._pool.join()


_of_thread = threading.local()
_guards: list[_Guard] = []


def judged(request: Request) -> list[Line]:
    """The lines of an operator, judged in the child process of this thread, which is started if there is none.

    Raises:
        NoPebble: it is not installed.
        CancelledError: the child was ended by `end_children`.
    """
    guard: _Guard | None = getattr(_of_thread, "guard", None)
    if guard is None or guard not in _guards or guard.limits != request.limits:
        guard = _of_thread.guard = _Guard(request.limits)
        _guards.append(guard)
    return guard.judged(request)


def end_children() -> None:
    """End the children of all threads of this process."""
    while _guards:
        _guards.pop().close()


def require_pebble() -> None:
    """Do nothing if pebble is installed.

    Raises:
        NoPebble: it is not.
    """
    try:
        importlib.import_module("pebble")
    except ImportError as error:
        raise NoPebble("the sweep needs pebble: pip install 'gradparity[sweep]'") from error


def _pool(limits: Limits) -> ProcessPool:
    require_pebble()
    from pebble import ProcessPool  # pyright: ignore[reportMissingImports]

    context = multiprocessing.get_context("spawn")  # a fork of a process in which JAX runs may hang
    return ProcessPool(max_workers=1, initializer=_prepare, initargs=[limits], context=context)


def _ending(exit_code: int | None, limits: Limits) -> _NoAnswer:
    if exit_code == _OUT_OF_MEMORY:
        return _NoAnswer(f"needs more than {limits.memory / 2**30:.3g} GiB of memory")
    if sys.platform != "win32" and exit_code == -signal.SIGXCPU:
        return _NoAnswer(f"gave no answer for {limits.seconds:g} s of CPU time", hangs=True)
    return _NoAnswer(end_of(exit_code))


# What follows runs in the child.


def _prepare(limits: Limits) -> None:
    """Set what is read when JAX, PyTorch and NumPy are imported, and see to the end of this process."""
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # so that it can be ended with all that it starts, and gets no signal of the terminal's
    os.environ.update(dict.fromkeys(THREADS, "1"))
    folders = {name: str(_cache_folder() / folder) for name, folder in _FOLDERS.items()}
    for name, value in {**folders, **_CACHE}.items():
        os.environ.setdefault(name, value)
    for stream in (1, 2):  # of several children it could not be told apart, and it would disturb the progress
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    threading.Thread(target=end_with_parent, daemon=True).start()
    threading.Thread(target=_watch_memory, args=[limits.memory], daemon=True).start()


def _cache_folder() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "gradparity"


def _watch_memory(limit: int) -> None:
    while _memory() <= limit:
        time.sleep(_POLL)
    os._exit(_OUT_OF_MEMORY)


def _memory() -> int:
    """The bytes that this process holds in memory; where the system does not say, the most that it ever did."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return _most_memory()


def _most_memory() -> int:
    if sys.platform == "win32":
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _answered(request: Request) -> _Answer:
    began = time.process_time()
    _limit_time(began + request.limits.seconds)
    lines, error = [], ""
    try:
        lines = _checked(_imported(request.judge)(request.operator, request.modes, request.dtypes), request)
    except (Exception, SystemExit) as problem:  # of whatever kind: it is told
        error = _described(problem)
    # Not the most that it held: on Linux that begins with what the process held that started this one
    return _Answer(lines, error, _memory())


def _limit_time(seconds: float) -> None:
    """Have the system end this process once it has used so much CPU time."""
    if sys.platform != "win32":
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft = math.ceil(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (soft if most == resource.RLIM_INFINITY else min(soft, most), most))


def _imported(judge: str) -> Callable[[str, Sequence[str], Sequence[str]], list[Line]]:
    module, _, name = judge.partition(":")
    return getattr(importlib.import_module(module), name)


def _checked(lines: list[Line], request: Request) -> list[Line]:
    """The lines, if they are of the operator and its modes and dtypes, and each derivative has one."""
    seen = set()
    for line in lines:
        operator, mode, _, dtype = line.key
        if operator != request.operator or mode not in request.modes or dtype not in request.dtypes:
            raise ValueError(f"the judge was not asked for {', '.join(line.key)}")
        if line.key in seen:
            raise ValueError(f"the judge has two verdicts on {', '.join(line.key)}")
        seen.add(line.key)
    if not lines:
        raise ValueError("the judge has no verdict")
    return lines


def _described(problem: BaseException) -> str:
    """Return an exception in a line: its type, its message's first line, and the file and line that raised it."""
    traceback = problem.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    where = "" if traceback is None else f", {Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno}"
    first = next(iter(str(problem).splitlines()), "")
    return f"the judge raises {type(problem).__name__}: {first}{where}"
