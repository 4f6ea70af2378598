"""The parent: it starts a process for each framework, pinned, and has them measure in turns; it imports neither."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.cases import VERSIONS, WHATS, Case, as_data
from benchmarks.figures import Peak, Results, Row, Times
from benchmarks.roofline import merged

WORKERS = {
    "benchmarks.torch_worker": ("native", "eager", "function", "compile", "sdpa"),
    "benchmarks.jax_worker": ("jax_jit", "jax_attn", "jax_ffi", "blockwise"),
}
THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PJRT_NPROC")
ROUNDS = 7  # at least, of each case
MOST_ROUNDS = 41
AT_PEAK = tuple(Case(4096, 4096, what=what) for what in WHATS)  # the matrix has 64 MiB: all else is small beside it


class WorkerError(RuntimeError):
    """A process ended before its time, or could not do what it was asked."""


class Worker:
    """A process that measures when it is asked to, and is idle otherwise."""

    def __init__(
        self, module: str, threads: int, *arguments: str, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Start it on as many cores as it has threads, with these arguments, and variables of the environment besides.

        JAX has as many threads as it finds cores when it is imported, whatever the environment says, so that the
        process must have its cores before it starts: it inherits them.
        """
        self.module = module
        counts = {name: str(threads) for name in THREAD_COUNTS}
        root = str(Path(__file__).parents[1])
        with on(cores()[-threads:]):
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=root,
                env={**os.environ, **counts, **environment},
                start_new_session=True,  # Ctrl-C is for the parent
            )

    def ask(self, *, limit: float | None = None, **order: Any) -> Any:
        """The answer to an order.

        Raises:
            WorkerError: there is none, or not within `limit` seconds.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = ""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            if limit is not None and not select.select([self.process.stdout], [], [], limit)[0]:
                raise WorkerError(f"{self.module} took longer than {limit:.0f} s")
            line = self.process.stdout.readline()
        if not line:
            raise WorkerError(f"{self.module} ended with exit code {self.process.wait()} at {order}")
        reply = json.loads(line)
        if "error" in reply:
            raise WorkerError(f"{self.module} could not {order}:\n{reply['error']}")
        return reply["answer"]

    def end(self, patience: float = 0.0) -> None:
        """End the process and all that it has started; an idle one has `patience` seconds to exit by itself."""
        if patience and self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
                self.process.stdin.close()
                self.process.wait(patience)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def cores() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


@contextlib.contextmanager
def on(some: list[int]) -> Iterator[None]:
    """Run on these cores, and what is started meanwhile, too."""
    if not hasattr(os, "sched_setaffinity"):  # macOS has none; facts()["pinned"] says so
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, some)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def workers(threads: int, versions: list[str]) -> Iterator[dict[str, Worker]]:
    """The processes that have any of these versions, by their modules; they are ended with the block.

    With one thread all of them: the rates are the best that any framework reaches.
    """
    started: dict[str, Worker] = {}
    try:
        for module, names in WORKERS.items():
            if threads == 1 or any(name in versions for name in names):
                started[module] = Worker(module, threads)
        yield started
    finally:
        for worker in started.values():
            worker.end()


def measure(
    results: Results, cases: list[Case], peaks: tuple[Case, ...], versions: list[str], budget: float
) -> Iterator[str]:
    """Fill in the results; yield what is being measured, once for each step of `steps`.

    The rates are measured at the beginning and at the end. What a process may disturb, another one on the same machine,
    disturbs all versions of a round.

    Raises:
        WorkerError: a process ended; what was measured so far is in the results.
    """
    counts = sorted({case.threads for case in cases} | {1})
    for threads in counts:
        with workers(threads, versions) as processes:
            for module, worker in processes.items():
                results.facts.setdefault("processes", {})[f"{module}, T = {threads}"] = worker.ask(do="facts")
            if threads == 1:
                yield "rates"
                results.rates = merged(worker.ask(do="rates") for worker in processes.values())
            for case in cases:
                if case.threads == threads:
                    yield str(case)
                    _time(results, case, _prepare(results, case, processes, versions), budget)
            if threads == 1:
                for case in peaks:
                    yield f"memory, {case}"
                    _peak(results, case, _prepare(results, case, processes, versions))
                yield "rates again"
                results.rates = merged([results.rates, *(worker.ask(do="rates") for worker in processes.values())])


def steps(cases: list[Case], peaks: tuple[Case, ...]) -> int:
    """How many `measure` has."""
    return len(cases) + len(peaks) + 2


def _prepare(
    results: Results, case: Case, processes: dict[str, Worker], versions: list[str]
) -> list[tuple[Worker, str]]:
    """The versions that can be measured at a case, each with its process."""
    ready = []
    for module, worker in processes.items():
        names = [x for x in WORKERS[module] if x in versions and case.refusal(x) is None and x not in results.left_out]
        answer = worker.ask(do="prepare", case=as_data(case), versions=names)
        results.left_out |= answer["left_out"]
        ready += [(worker, name) for name in answer["ready"]]
    return ready


def _time(results: Results, case: Case, ready: list[tuple[Worker, str]], budget: float) -> None:
    """Rounds of all versions, one after the other, which starts being a different one each round."""
    row = Row(case, {name: [] for name in VERSIONS if any(name == other for _, other in ready)})
    results.rows.append(row)
    take_turns(row.times, ready, budget)


def take_turns(
    times: Times,
    ready: Sequence[tuple[Worker, str]],
    budget: float,
    limit: float | None = None,
    least: int = ROUNDS,
) -> None:
    """Add to the times of the versions: at least `least` rounds, and as many as `budget` seconds allow."""
    end = time.monotonic() + budget
    for i in range(MOST_ROUNDS if ready else 0):
        if i >= least and time.monotonic() > end:
            break
        first = i % len(ready)
        for worker, name in (*ready[first:], *ready[:first]):
            times[name].append(worker.ask(do="time", version=name, limit=limit))


def _peak(results: Results, case: Case, ready: list[tuple[Worker, str]]) -> None:
    peak = Peak(case)
    for worker, name in ready:
        grown = worker.ask(do="peak", version=name)
        if grown is None:
            results.left_out["memory"] = "only Linux keeps a high-water mark that can be set back"
            return
        peak.matrices[name] = round(grown / case.matrix_bytes, 3)
    results.peaks.append(peak)


def facts() -> dict[str, Any]:
    """The facts of the machine and the run."""
    model, flags = _cpu()
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": model,
            "architecture": platform.machine(),
            "vector extensions": flags,
            "cores": len(cores()),
            "pinned": hasattr(os, "sched_setaffinity"),
            "system": platform.platform(terse=True),
            "load": [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        },
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in ("torch", "jax", "jaxlib", "numpy")},
        "clock": {"T = 1": "CPU time of the process, user and system", "T > 1": "wall time"},
    }


def commit(folder: Path = Path(__file__).parent) -> str | None:
    """The commit of a folder's working tree, with a plus sign if it is edited; None outside of a repository."""
    command = ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu() -> tuple[str, list[str]]:
    """Its name, and which of the vector extensions that matter here it has."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor(), []
    lines = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
    entries = {name.strip(): value.strip() for name, value in lines.items()}
    flags = entries.get("flags", entries.get("Features", "")).split()
    known = ("avx2", "fma", "avx512f", "avx512_bf16", "asimd", "sve")
    return entries.get("model name", platform.processor()), [flag for flag in known if flag in flags]
