"""Solutions of problems in KernelBench's form: right ones pass, wrong and cheating ones do not, and it is said why."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests import Report
from parity_tests.cli.app import app
from parity_tests.cli.sources import kernelbench
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.selection import select_checks, select_precisions, select_samples
from parity_tests.suite.cli.evaluate.kernelbench_problems import CHEATS, PROBLEMS, Problem, cheating
from parity_tests.suite.marks import fast

OPTIONS = ("--quick", "--only", "forward,vjp,shortcuts", "--no-isolate", "--device", "cpu")


def _summaries(problem: Problem, folder: Path, given: bool) -> dict[str, dict]:
    """The record of each solution, all of which are judged by one oracle."""
    solutions = {"right": problem.right, "wrong": problem.wrong_backward}
    solutions |= {cheat: cheating(problem, cheat) for cheat in CHEATS}
    (folder / "problem.py").write_text(problem.text)
    read = kernelbench.Problem.of(folder / "problem.py", folder)
    candidates = []
    for name, text in solutions.items():
        path = folder / f"{name.replace(' ', '_').replace(',', '')}.py"
        path.write_text(text)
        candidates.append(read.candidate(read.solution(path, folder)).named(name, None))
    spec = read.spec(read.solution(folder / "right.py", folder), "problem", given)
    assert not isinstance(spec, str), spec
    checks, precisions = select_checks(["forward", "vjp", "shortcuts"]), select_precisions(["float32"])
    plan = Plan(spec, candidates, checks, precisions, "cpu", 0, lambda row: "", samples=select_samples(True))
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return {record["candidate"]: record for record in report.as_dict()["summary"]}


@fast("rms_norm-sizes", "cross_entropy-given")
@pytest.mark.parametrize("given", [False, True], ids=["sizes", "given"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_solution_is_judged_and_told_apart(
    name: str, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "problem", raising=False)  # of another test
    found = _summaries(PROBLEMS[name], tmp_path, given)
    assert found["right"]["verdict"] == "PASS", json.dumps(found["right"])
    assert (found["wrong"]["verdict"], found["wrong"]["check"]) == ("MISMATCH", "vjp")
    for cheat, (_, reason) in CHEATS.items():
        assert found[cheat]["verdict"] == "MISMATCH", cheat
        assert found[cheat]["check"] == "shortcuts", found[cheat]
        assert reason in found[cheat]["reason"], found[cheat]
