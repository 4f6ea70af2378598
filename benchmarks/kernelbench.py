"""The problems of KernelBench, levels 1 and 2: `python -m benchmarks kernelbench FOLDER`.

FOLDER has `level1` and `level2` of https://github.com/ScalingIntelligence/KernelBench, unmodified. Each problem is
judged by `gradparity evaluate` with two solutions: one has the problem's text under the name `ModelNew`; so has the
other, which multiplies the cotangents of its outputs by `FACTOR` where the last index is 0. That is no mistake where
results there depend on no input, as of a transposed convolution with stride and padding: the errors of both solutions
are then the same numbers, and the other one is made wrong where the last index is 1.

Each command runs in a process that is forked from one which has imported PyTorch and JAX, and has a limit of time. What
came of a problem is written at once, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.campaign import Campaign, Stamped, say, stamp, table
from benchmarks.run import THREAD_COUNTS
from parity_tests.harness.isolation.processes import end_of

LEVELS = (1, 2)
SEED = 0
SECONDS = 120  # of the processor, for one command
FACTOR = 1.02
BAR = 0.9
CHECKS = ("forward", "vjp")
FASTER = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"  # programs run once or twice
OPTIONS = ("--quick", "--only", ",".join(CHECKS), "--no-isolate", "--quiet", "--seed", str(SEED))
_WARM = ["benchmarks.kernelbench", "parity_tests.cli.session", "parity_tests.harness.crosscheck"]

_WRONG = """

class _Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y.clone()

    @staticmethod
    def backward(ctx, y_bar):
        y_bar = y_bar.clone()
        y_bar[(..., slice(AT, AT + 1)) if y_bar.dim() else ()] *= FACTOR
        return y_bar


class ModelNew(Right):
    def forward(self, *inputs, **others):
        return torch.utils._pytree.tree_map_only(torch.Tensor, _wrong, super().forward(*inputs, **others))


def _wrong(y):
    return _Wrong.apply(y) if y.is_floating_point() else y
"""


@dataclass(frozen=True)
class Judged:
    """The result of one command.

    Attributes:
        code: the exit code; minus a signal that has ended it, as after `SECONDS`.
        rows: the verdicts of the solution's rows, as "vjp PASS", of both kinds of inputs.
        reason: what the summary says of the first that does not pass; empty if all do.
        seconds: of the processor, without imports.
        errors: of the solution's rows, each in units of its bound.
    """

    code: int
    rows: dict[str, int]
    reason: str
    seconds: float
    errors: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome(Stamped):
    """The results on a problem: of the right and of the wrong solution.

    Attributes:
        problem: as "level1/19_ReLU".
        at: the last index at which the wrong solution is wrong.
    """

    problem: str
    right: Judged
    wrong: Judged
    at: int = 0

    @property
    def verdict(self) -> str:
        """A word or two for the table."""
        if self.right.code == 1:
            return "FALSE ALARM"
        if self.wrong.code == 0:
            return "MISSED"
        if (self.right.code, self.wrong.code) == (0, 1):
            return "right"
        return "wrong convicted, right not judged" if self.wrong.code == 1 else "not judged"


def problems(folder: Path, levels: Sequence[int] = LEVELS) -> dict[str, Path]:
    """The files of the problems, by their names, as "level1/19_ReLU"; by level and number."""
    files = [file for level in levels for file in folder.glob(f"level{level}/*.py")]
    files.sort(key=lambda file: (file.parent.name, int(file.stem.partition("_")[0])))
    return {f"{file.parent.name}/{file.stem}": file for file in files}


def solution(problem: str, at: int | None = None) -> str:
    """The text of a solution, of that of a problem; `at`: the last index at which it is wrong, None for a right one."""
    text = re.sub(r"\bModel\b", "ModelNew" if at is None else "Right", problem)
    return text if at is None else f"{text}\n\nAT, FACTOR = {at}, {FACTOR}\n{_WRONG}"


def evaluated(name: str, file: Path) -> Outcome:
    """Judge both solutions of a problem, one after the other."""
    text, at = file.read_text(encoding="utf-8"), 0
    right, wrong = _judged(file, solution(text)), _judged(file, solution(text, at))
    if wrong.code == 0 and wrong.errors == right.errors:
        wrong, at = _judged(file, solution(text, 1)), 1
    return Outcome(*stamp(), name, right, wrong, at)


def _judged(file: Path, text: str, limit: int = SECONDS) -> Judged:
    warm = multiprocessing.get_context("forkserver")
    warm.set_forkserver_preload(_WARM)
    with tempfile.TemporaryDirectory() as folder:
        path, report = Path(folder, "solution.py"), Path(folder, "report.json")
        path.write_text(text, encoding="utf-8")
        failures = str(Path(folder, "failures"))
        command = ["evaluate", str(file), str(path), *OPTIONS, "--json", str(report), "--failures", failures]
        process = warm.Process(target=_run, args=(command, folder, limit))
        process.start()
        process.join()
        code = process.exitcode
        assert code is not None
        used = Path(folder, "seconds")
        seconds = float(used.read_text()) if used.exists() else limit
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    rows = [row for row in found.get("rows", ()) if row["candidate"] != "oracle"]
    verdicts = Counter(f"{row['check']} {row['verdict']}" for row in rows)
    reason = _reason(code, found, limit).replace(f"{file.parent.parent}/", "")
    return Judged(code, dict(verdicts), reason, seconds, [row["error_over_bound"] for row in rows])


def _run(command: Sequence[str], folder: str, limit: int) -> None:
    """Be the program `gradparity`, in a process of its own."""
    from parity_tests.__main__ import main
    from parity_tests.harness.judging.plan import shrinking_for

    os.chdir(folder)
    sys.argv = ["gradparity", *command]
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(start) + limit, resource.RLIM_INFINITY))
    try:
        with shrinking_for(0):  # no verdict depends on it
            main()
    finally:
        Path("seconds").write_text(f"{time.process_time() - start:.1f}", "utf-8")


def _reason(code: int, report: Mapping[str, Any], limit: int) -> str:
    if code < 0:
        return f"no verdict within {limit} s" if code == -signal.SIGXCPU else end_of(code)
    bad = [one for one in report.get("summary", ()) if one["verdict"] not in ("PASS", "SKIPPED")]
    texts = [f"{one['verdict']} {one['check'] or ''}: {one['reason']}" for one in bad]
    skipped = [one["reason"] for one in report.get("summary", ()) if one["verdict"] == "SKIPPED"] if code else []
    reasons = [*filter(None, (report.get("error"), *texts, *skipped))]
    return "; ".join(reasons) or (f"exit code {code}" if code else "")


def measure_all(console: Console, files: Mapping[str, Path], out: Path, resume: bool) -> int:
    """Judge problems, show and keep what comes of each; 1 if the bar is missed, 2 if it was interrupted."""
    its = campaign(out)
    its.about = {"schema": 1}
    names = its.due(files) if resume else files
    with tempfile.TemporaryDirectory() as folder:  # the wrong solution finds the right one's certificates there
        kept = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        # Read by the process from which the others are forked.
        os.environ.update(dict.fromkeys(THREAD_COUNTS, "1") | {"XLA_FLAGS": FASTER} | kept)
        its.keep(
            ((name, evaluated(name, files[name])) for name in names),
            lambda name, x: say(
                console,
                f"{name}: {x.verdict} ({x.right.code}, {x.wrong.code}; {x.right.seconds} s, {x.wrong.seconds} s)",
            ),
        )
    found = [its.kept[name] for name in files if name in its.kept]
    say(console, *summary(found))
    return its.exit_code(sum(one.verdict == "right" for one in found) < BAR * len(files))


def campaign(path: Path) -> Campaign[str, Outcome]:
    """The outcomes by problem."""
    return Campaign(path, _made, lambda _, found: page(found), "problems", ("problem",), order=_order)


def _made(right: dict[str, Any], wrong: dict[str, Any], **more: Any) -> Outcome:
    return Outcome(right=Judged(**right), wrong=Judged(**wrong), **more)


def _order(problem: str) -> tuple[str, int]:
    level, _, name = problem.partition("/")
    return level, int(name.partition("_")[0])


def summary(found: Sequence[Outcome]) -> list[str]:
    """How many problems were judged rightly, and how many were not, by what came of them."""
    count = Counter(one.verdict for one in found)
    right = sum(one.right.code == 0 for one in found)
    wrong = sum(one.wrong.code == 1 for one in found)
    return [
        f"{count['right']} of {len(found)} problems: the right solution ends with exit code 0, the wrong one with 1.",
        f"{right} right solutions end with 0, {wrong} wrong ones with 1.",
        f"{count['FALSE ALARM']} right solutions are accused, {count['MISSED']} wrong ones pass.",
        f"{sum(one.at > 0 for one in found)} wrong solutions are wrong at the last index 1: at 0 they are right.",
    ]


def page(found: Sequence[Outcome]) -> str:
    """The results as text: figures, then what could not be judged and why, then every problem."""
    others = [one for one in found if one.verdict != "right"]
    seconds = sum(one.right.seconds + one.wrong.seconds for one in found)
    days = sorted({one.ended[:10] for one in found})
    commits, ran_on = (
        {str(of) for of in each} for each in zip(*((one.commit, one.versions) for one in found), strict=True)
    )
    lines = [
        "# The problems of KernelBench, levels 1 and 2",
        "",
        "Made by `python -m benchmarks kernelbench FOLDER`; benchmarks/README.md says what is judged.",
        "",
        *(f"{line}\n" for line in summary(found)),
        f"{seconds:.0f} s of a processor, without imports; {' to '.join(dict.fromkeys((days[0], days[-1])))}; "
        f"commit {', '.join(sorted(commits))}; {'; '.join(sorted(ran_on))}.",
        "",
        "## The others",
        "",
        *table("| problem | | right | wrong | reason |", map(_line, others)),
        "",
        "## All",
        "",
        *table(
            "| problem | | right: exit code, s | wrong: exit code, s |",
            ((x.problem, x.verdict, *(f"{of.code}, {of.seconds}" for of in (x.right, x.wrong))) for x in found),
        ),
    ]
    return "\n".join(lines) + "\n"


def _line(one: Outcome) -> tuple[object, ...]:
    return one.problem, one.verdict, one.right.code, one.wrong.code, one.right.reason or one.wrong.reason
