"""A case or a candidate that ends, hangs or floods its process: each is told, and what was judged before stays."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from parity_tests.cli.run_spec import RunSpec
from parity_tests.cli.sources.catalog import CatalogOperator
from parity_tests.harness.exceptions.frames import Frame
from parity_tests.harness.findings import Verdict
from parity_tests.harness.isolation import budget, guard
from parity_tests.harness.isolation.crash import Place
from parity_tests.harness.isolation.guard import Surveying, _heard, _last_rows, _Task
from parity_tests.harness.isolation.messages import At, CannotLoad, Found, Survey, Surveyed
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.suite.rotation import rotating

from ._program import FEW, RIGHT, SPEC, case, here, program

HARNESS = Path(budget.__file__).parents[1]


# What has been said when a run ends is not lost.


def _row(candidate: str, check: str) -> Row:
    return Row("op", candidate, check, "float64", "cpu", Verdict.PASS, 0.0, 1)


def test_what_nobody_has_listened_to_is_told(tmp_path: Path) -> None:
    at = At(_row("mine", "jvp"), Place("all", "all (n=4)", "", {}, 0, True, False), None)
    said = [Found(_row(ORACLE, "vjp"), ()), Found(_row("mine", "vjp"), ("a line",)), at]
    task = _Task(RunSpec(CatalogOperator("attn", ()), None, "cpu", (), (), 0, 0.0, False, tmp_path))
    rows = _last_rows(SimpleNamespace(messages=lambda: iter(said)), task)
    assert [(row.candidate, row.check) for row in rows] == [("mine", "vjp")]
    assert task.at is at
    assert task.skipped == ["a line"]


@pytest.mark.parametrize(
    ("verdicts", "counts"),
    [
        ((Verdict.MISMATCH, Verdict.PASS), Verdict.MISMATCH),
        ((Verdict.PASS, Verdict.MISMATCH), Verdict.MISMATCH),
        ((Verdict.PASS, Verdict.PASS), Verdict.PASS),
    ],
)
def test_a_row_that_comes_twice_is_told_and_what_does_not_pass_counts(
    tmp_path: Path, verdicts: tuple[Verdict, Verdict], counts: Verdict
) -> None:
    """As from a candidate that forks: both processes go on, and both send rows."""
    rows = [replace(_row("mine", "vjp"), verdict=verdict) for verdict in verdicts]
    worker = SimpleNamespace(messages=lambda: iter([Found(row, ()) for row in rows]), ended=False, ready=True)
    worker.heard = time.monotonic()
    task = _Task(RunSpec(CatalogOperator("attn", ()), None, "cpu", (), (), 0, 0.0, False, tmp_path))
    assert [row.verdict for row in _heard(worker, task, 10.0)] == [*dict.fromkeys([verdicts[0], counts])]
    assert [row.verdict for row in task.rows.values()] == [counts]
    (line,) = task.skipped
    assert line.startswith(f"op: mine, vjp, float64 was judged twice, {verdicts[0]} and {verdicts[1]}, ")


# How long it may take to load.


class _Loading:
    """A process that has not answered for a minute, and then does."""

    def __init__(self) -> None:
        self.ended, self.ready, self.stopped = False, True, False
        self.heard, self._asked = time.monotonic() - 60, 0
        self.connection, self._there = Pipe()
        self._there.send("so that nobody waits")
        self.process = SimpleNamespace(sentinel=self._there, exitcode=None)

    def ask(self, survey: Survey) -> None:
        """Nothing: it is asked already."""

    def messages(self) -> list[Surveyed]:
        """None at first."""
        self._asked += 1
        return [Surveyed("what there is", {})] if self._asked > 2 else []

    def stop(self) -> None:
        """End it."""
        self.stopped = True

    def trace(self) -> str:
        """Where it is."""
        return ""


@pytest.mark.parametrize("floor", [600.0, 50.0])
def test_to_load_may_take_longer_than_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, floor: float) -> None:
    """On a loaded machine the imports alone take longer than a short --trial-timeout."""
    monkeypatch.setattr(guard, "TRIAL_SECONDS", floor)
    worker = _Loading()
    pool = SimpleNamespace(take=lambda: worker, give_back=lambda worker: None, imported={})
    surveying = Surveying(RunSpec(CatalogOperator("attn", ()), None, "cpu", (), (), 0, 0.0, False, tmp_path), pool, 1.0)
    if floor > 60:
        with pytest.raises(StopIteration) as end:
            next(surveying.events())
        assert (end.value.value, worker.stopped) == ("what there is", False)
    else:
        with pytest.raises(CannotLoad, match="gave no answer for 50 s while it was loaded"):
            next(surveying.events())


# Who hangs, in this process.


@pytest.mark.parametrize(
    ("files", "who"),
    [
        (
            ["/mine/case.py", HARNESS / "candidates" / "torch_candidate.py", HARNESS / "trial" / "trial.py"],
            "the candidate",
        ),
        (["/mine/case.py", HARNESS / "oracle" / "oracle.py", HARNESS / "trial" / "trial.py"], "the oracle"),
        (["/numpy.py", HARNESS / "rounding" / "sums.py", HARNESS / "oracle" / "oracle.py"], "the oracle"),
        (["/mine/case.py", HARNESS.parent / "case_file.py"], "the run"),
    ],
)
def test_a_hanging_oracle_is_not_called_the_candidate(files: list[str | Path], who: str) -> None:
    calls = [Frame(Path(file), 7, "f") for file in files]
    assert budget._who_hangs(calls) == f"{who} hangs (at {files[0]}:7, in f)"


# A case that ends its process, or hangs, while it is loaded. Each starts a process.

LOADING = {
    "os._exit(0)": "ended the process (exit code 0) while it was loaded",
    "os.kill(os.getpid(), signal.SIGSEGV)": "crashed (SIGSEGV) while it was loaded at case.py:11",
}


@pytest.mark.slow
@pytest.mark.parametrize("statement", LOADING)
def test_a_case_that_ends_its_process(tmp_path: Path, statement: str) -> None:
    """Not with exit code 0 and no output, which would be a pass."""
    file = case(tmp_path, f"{SPEC}{statement}\n")
    result = here("check", file, "--json", tmp_path / "report.json")
    told = f"{file} {LOADING[statement]}"
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"gradparity: {told}"), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert json.loads((tmp_path / "report.json").read_text())["error"].startswith(told)


@pytest.mark.slow
def test_a_case_that_ends_its_process_beside_another(tmp_path: Path) -> None:
    """It costs its own rows, and is told by name."""
    right = case(tmp_path, RIGHT).rename(tmp_path / "right.py")
    ends = case(tmp_path, f"{SPEC}os._exit(0)\n")
    result = here("check", ends, right, *FEW, "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (result.exit_code, report["passed"], report["error"]) == (2, False, None), result.output
    assert {row["verdict"] for row in report["rows"]} == {"PASS"}
    (broken,) = report["not_built"]
    assert broken["reason"] == f"{ends} ended the process (exit code 0) while it was loaded"
    assert f"{ends}, not built: {broken['reason']}" in result.output


_CANNOT_GO_ON = {  # the case, the reason why it cannot be judged further, and the exit code
    "loaded once only": (
        f"{SPEC}from pathlib import Path\nif Path('loaded').exists():\n    os._exit(0)\nPath('loaded').touch()\n\n\n"
        "def candidate(x):\n    os._exit(0)\n",
        "the process that judges ended the process (exit code 0) while no candidate was called: ",
        1,  # by the row of its first end
    ),
    "an oracle that raises": (
        RIGHT.replace("lambda x: x * x", "lambda x: x * x if x.shape[0] != 1 else 1 / 0", 1),
        "square: primal fails on inputs of shapes (1, 3): ZeroDivisionError: division by zero",
        2,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _CANNOT_GO_ON)
def test_a_case_that_cannot_be_judged_further_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The other one has all its rows, and the run says that it is not complete, and why."""
    monkeypatch.chdir(tmp_path)
    text, reason, code = _CANNOT_GO_ON[name]
    right = case(tmp_path, RIGHT.replace('"square"', '"another"')).rename(tmp_path / "right.py")
    result = here("check", case(tmp_path, text), right, *FEW, "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (result.exit_code, report["passed"]) == (code, False), result.output
    assert report["error"].startswith(reason), report["error"]
    alone = here("check", right, *FEW, "--json", tmp_path / "alone.json")
    assert alone.exit_code == 0, alone.output
    rows = json.loads((tmp_path / "alone.json").read_text())["rows"]
    keys = [(row["op"], row["check"], row["dtype"], row["verdict"]) for row in rows]
    assert keys == [(r["op"], r["check"], r["dtype"], r["verdict"]) for r in report["rows"] if r["op"] == rows[0]["op"]]


# The interpreter's lock is held all the while, so that no thread of the process can end it.
REGEX = "    re.match('(a+)+b', 64 * 'a')\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(SPEC + REGEX.strip() + "\n", "{case} was being loaded at", id="the case"),
        pytest.param(
            SPEC + f"def candidate(x):\n{REGEX}    return x\n",
            "square: candidate, forward, float64, which was being judged at sample",
            id="the candidate",
        ),
    ],
)
def test_a_budget_holds_whoever_keeps_the_lock(tmp_path: Path, text: str, told: str) -> None:
    file = case(tmp_path, text)
    result = here("check", file, *FEW, "--budget", "1", "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert result.exit_code == 2, result.output
    assert report["error"] == "the budget of 1 s is spent"
    (line,) = [line for line in report["skipped"] if line.startswith(told.format(case=file))]
    assert "in match" in line
    assert "case.py" in line


ORACLE_HANGS = RIGHT.replace("lambda x: x * x", "primal").replace(
    "spec =", "def primal(x):\n    time.sleep(1e6 if x.shape[0] == 1 else 0)\n    return x * x\n\nspec ="
)


@pytest.mark.slow
@rotating(4, turn=1)
def test_an_oracle_that_hangs_has_a_limit_too(tmp_path: Path) -> None:
    """At one of its own samples, where no candidate is called."""
    result = here("check", case(tmp_path, ORACLE_HANGS), *FEW, "--trial-timeout", "20", "--json", tmp_path / "r.json")
    assert result.exit_code == 2, result.output
    error = json.loads((tmp_path / "r.json").read_text())["error"]
    assert error.startswith("the process that judges gave no answer for 20 s at case.py:11 in primal"), error
    assert "while no candidate was called: the oracle" in error


# What a candidate does to the process that judges it costs its own row.

_DOES = {  # what it does, and how its row says so
    "closes its connection and lives on": (
        "os.closerange(3, 1024)\n        time.sleep(300)",
        "broke the connection between its process and the run",
    ),
    "closes its connection": ("os.closerange(3, 1024)", "ended the process (exit code 1)"),
    "interrupts": ("raise KeyboardInterrupt", "ended the process (exit code 130)"),
}
_THREE = """
import os, time, torch

def doing(what):
    class F(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x
        @staticmethod
        def backward(ctx, y_bar):
            if what:
                does()
            return 2 * ctx.saved_tensors[0] * y_bar
    def does():
        {does}
    return F.apply

candidates = {{"before": doing(False), "strange": doing(True), "after": doing(False)}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", _DOES)
def test_a_candidate_that_spoils_its_process(tmp_path: Path, name: str) -> None:
    does, how = _DOES[name]
    path, report = case(tmp_path, SPEC + _THREE.format(does=does)), tmp_path / "report.json"
    ran = program(tmp_path, "check", path, *FEW, "--only", "vjp", "--quick", "--json", str(report))
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr == ""
    assert f"strange, vjp, f64: MISMATCH: {how}" in ran.stdout
    verdicts = {(r["candidate"], r["check"]): r["verdict"] for r in json.loads(report.read_text())["rows"]}
    assert verdicts["strange", "vjp"] == "MISMATCH"
    assert {verdict for (candidate, _), verdict in verdicts.items() if candidate != "strange"} == {"PASS"}


@pytest.mark.slow
def test_a_mock_is_judged_as_any_function(tmp_path: Path) -> None:
    """It has every attribute, and is no candidate of a framework."""
    path = case(tmp_path, SPEC + "from unittest.mock import MagicMock\ncandidate = MagicMock()\n")
    ran = program(tmp_path, "check", path, *FEW)
    assert ran.returncode == 1, ran.stderr
    assert "returned MagicMock where a tensor, or a tuple of tensors, is expected" in ran.stdout
    assert ran.stderr == ""
