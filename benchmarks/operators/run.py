"""Judges an operator of the survey in a process of its own, which may crash, hang or use up its time."""

from __future__ import annotations

import json
import resource
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.apart import Lost, run_apart
from benchmarks.operators._case import Case
from parity_tests.harness.report.results import Row

CPU_SECONDS = 600  # that an operator may take
_NO_VERDICT = ("UNRESOLVED", "UNSUPPORTED")  # on the numbers of a row that does not pass


@dataclass
class Outcome:
    """The result of judging one operator of PyTorch.

    Attributes:
        name: the operator.
        error: how the process ended, if it did not deliver a report.
        rows: the number of rows by verdict.
        failures: of each failing or unresolved row: check, dtype, verdict, reason, and which results are wrong.
        explained: the failing rows, "vjp float64", of which docs/found.md has the defect, each with its title there.
        seconds: CPU time of `crosscheck`, without imports.
        megabytes: the largest resident memory of the process.
        text: the report, if a row does not pass.
        commit: of the working tree that judged; results that were kept may be of another one.
    """

    name: str
    error: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    explained: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    megabytes: float = 0.0
    text: str = ""
    commit: str | None = None

    @property
    def convicted(self) -> list[str]:
        """The rows that found the operator wrong, such as "vjp float64"."""
        return [f"{x['check']} {x['dtype']}" for x in self.failures if x["verdict"] not in _NO_VERDICT]

    @property
    def verdict(self) -> str:
        """A word or two for the table."""
        if self.error is not None:
            return "LOST"
        if set(self.convicted) - set(self.explained):
            return "FALSE ALARM"
        if self.convicted:
            return "defect found"
        if any(x["verdict"] == "UNSUPPORTED" for x in self.failures):
            return "refuses"
        return "unresolved" if self.failures else "right"


def judge_one(case: Case, path: Path, seed: int) -> None:
    """Judge an operator in this process, at the settings that a user gets, and write what came of it."""
    import torch

    from gradparity import crosscheck

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, resource.RLIM_INFINITY))
    start = _cpu_seconds()
    report = crosscheck(case.right, case.spec, name=case.spec.name, seed=seed)
    outcome = Outcome(case.spec.name, seconds=round(_cpu_seconds() - start, 2))
    outcome.megabytes = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    for row in report.rows:
        verdict = str(row.verdict)
        outcome.rows[verdict] = outcome.rows.get(verdict, 0) + 1
        if not row.passed:
            outcome.failures.append(_failure(row))
            titles = [defect.title for defect in case.defects if defect.explains(row)]
            outcome.explained |= {f"{row.check} {row.dtype}": title for title in titles}
    outcome.text = str(report) if outcome.failures else ""
    path.write_text(json.dumps(asdict(outcome)), encoding="utf-8")


def _failure(row: Row) -> dict[str, Any]:
    wrong = row.failure.wrong if row.failure is not None else ()
    return {
        "check": row.check,
        "dtype": row.dtype,
        "verdict": str(row.verdict),
        "reason": row.reason,
        "candidate": row.candidate,
        "wrong": [f"{x.label} ({x.circumstance})" if x.circumstance else x.label for x in wrong],
    }


def judge_apart(name: str, seed: int, costly: bool = False) -> Outcome:
    """Judge an operator in a process of its own: one of the survey, or of the costly ones."""
    costs = ("--costly",) if costly else ()
    found = run_apart("benchmarks.operators", "--one", name, "--seed", str(seed), *costs)
    return Outcome(name, error=found.error, text=found.text) if isinstance(found, Lost) else Outcome(**found)


def _cpu_seconds() -> float:
    """CPU time in seconds of this process and its children, user and system."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
