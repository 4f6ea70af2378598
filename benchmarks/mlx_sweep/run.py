"""Judges operators of MLX, in a process that may crash."""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib import metadata
from multiprocessing import get_context
from typing import Any

SHORT = ("forward", "vjp", "jvp", "low_precision")  # of float16 and bfloat16; float32 is judged by every check
VERSIONS = ("mlx", "mlx-cpu", "jax", "jaxlib", "numpy", "torch")


@dataclass
class Outcome:
    """The result of judging one operator of MLX.

    Attributes:
        name: the operator.
        error: how its process ended, or what was raised, if there is no report.
        rows: the number of rows by verdict.
        failures: of each failing or unresolved row: check, dtype, verdict, reason, and which results are wrong.
        unsupported: what MLX has not implemented, each with the checks, "jvp float32".
        text: the report, if a row does not pass.
        seconds: wall time.
    """

    name: str
    error: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    unsupported: dict[str, list[str]] = field(default_factory=dict)
    text: str = ""
    seconds: float = 0.0


def judge_one(name: str) -> Outcome:
    """Judge an operator in this process, by all checks in float32, and by `SHORT` in float16 and bfloat16."""
    from benchmarks.mlx_sweep.table import OPERATORS
    from gradparity import MLXCandidate, crosscheck

    operator, outcome, start = OPERATORS[name], Outcome(name), time.monotonic()
    for dtypes, checks in ((["float32"], None), (["float16", "bfloat16"], SHORT)):
        candidate = MLXCandidate(operator.call)
        try:
            report = crosscheck(candidate, operator.spec, name=name, progress=False, dtypes=dtypes, checks=checks)
        except Exception as error:  # whatever it is, it is written down, and the other operators are judged
            outcome.error = f"{type(error).__name__}: {str(error)[:500]}"
            break
        for row in report.rows:
            verdict = str(row.verdict)
            outcome.rows[verdict] = outcome.rows.get(verdict, 0) + 1
            if not row.passed:
                wrong = row.failure.wrong if row.failure is not None else ()
                labels = [f"{x.label} ({x.circumstance})" if x.circumstance else x.label for x in wrong]
                cells = {"check": row.check, "dtype": row.dtype, "verdict": verdict, "reason": row.reason}
                outcome.failures.append(cells | {"wrong": labels})
            elif verdict == "UNSUPPORTED":
                outcome.unsupported.setdefault(row.reason, []).append(f"{row.check} {row.dtype}")
        outcome.text += "" if report.passed else str(report)
    outcome.seconds = round(time.monotonic() - start, 1)
    return outcome


def judged(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Judge operators, `jobs` at a time; one that ends its process is told, and judged by itself in another."""
    waiting = list(names)
    while waiting:
        with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
            futures = {name: pool.submit(judge_one, name) for name in waiting}
            for name, future in futures.items():
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    break
                waiting.remove(name)
                yield outcome
            else:
                return
        yield _alone(waiting.pop(0))


def _alone(name: str) -> Outcome:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(judge_one, name).result()
        except BrokenProcessPool:
            return Outcome(name, error="its process ended")


def about(commit: str | None) -> dict[str, Any]:
    """The versions, the machine and the date."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {name: metadata.version(name) for name in VERSIONS},
    }
