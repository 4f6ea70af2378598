"""A check added through the public door: its file, the line that registers it, and the file of its planted mistake."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import parity_tests
from parity_tests import Candidate, Verdict
from parity_tests.harness.checks import load
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.selection import select_precisions
from parity_tests.harness.report.report import Report
from parity_tests.suite.harness._ops import PAIR, pair
from parity_tests.suite.harness.checks.planted import cases_of

CHECK = '''\
"""ones: the VJP at cotangents of ones, as a sum of all outputs sends them."""

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    args = [*args[:count], *(np.ones_like(w) for w in args[count:])]
    with under("cotangents of ones"):
        results = trial.evaluate("vjp", args)
    yield from trial.compare("vjp", args, results, "cotangents of ones")


CHECK = Check("ones", "a shortcut for cotangents of ones", ("vjp",), _run, generic=True)
'''
PLANTED = '''\
"""A shortcut where the cotangents are ones."""

from parity_tests.suite.harness._ops import PAIR, pair, pair_backward, pair_function
from parity_tests.operators.operator import Operator, Mistake


def _shortcut(x, y, g, h):
    x_bar, y_bar = pair_backward(x, y, g, h)
    return (x_bar, 0 * y_bar) if (g == 1).all() else (x_bar, y_bar)


_CALL = pair_function(backward=_shortcut).apply
CASES = (Operator(PAIR, pair, {"a shortcut": Mistake(_CALL, "ones", passes=("forward", "vjp", "linearity"))}),)
'''
LINE = '    "ones": ("vjp",),\n'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package with the check, and one inside it with its planted mistake."""
    name = "checks_of_mine"
    for folder, text in ((tmp_path / name, CHECK), (tmp_path / name / "planted", PLANTED)):
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "ones.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


def test_it_judges(package: str) -> None:
    checks = load({"ones": ("vjp",)}, package)
    (case,) = cases_of("ones", f"{package}.planted")
    (mistake,) = case.mistakes.values()
    candidates = [Candidate(pair, "right"), Candidate(mistake.call, "wrong")]
    plan = Plan(PAIR, candidates, list(checks.values()), select_precisions(["float64"]), "cpu", 0, lambda row: "")
    report = Report({})
    found = {row.candidate: row.verdict for row in report.collect(judge(plan))}
    assert (found["right"], found["wrong"]) == (Verdict.PASS, Verdict.MISMATCH), str(report)
    assert "(cotangents of ones)" in str(report)


@pytest.mark.parametrize(
    ("registered", "text"),
    [
        (
            {"ones": ()},
            r"checks_of_mine\.ones has the check 'ones' with the maps \('vjp',\), and is registered as 'ones'",
        ),
        (
            {"ones": ("vjp", "jvp")},
            r"with \('vjp', 'jvp'\) \(MAPS in parity_tests/harness/names\.py\); make them equal",
        ),
    ],
)
def test_what_the_line_says_must_be_true(package: str, registered: dict[str, tuple[str, ...]], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        load(registered, package)


def _with_a_check(folder: Path) -> Path:
    """A copy of the project's package in which the check has been added."""
    copy = folder / "parity_tests"
    shutil.copytree(Path(parity_tests.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "harness/checks/ones.py").write_text(CHECK, encoding="utf-8")
    names = copy / "harness/names.py"
    before, line, after = names.read_text(encoding="utf-8").partition('    "purity": (),\n')
    assert line
    names.write_text(before + line + LINE + after, encoding="utf-8")
    return copy


def _ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(parity_tests.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(root))), "COLUMNS": "200"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_two_files_and_a_line_are_enough(tmp_path: Path) -> None:
    """With them it is tested like every other check, and without the planted mistake the tests fail."""
    copy = _with_a_check(tmp_path)
    tests = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "parity_tests/suite/harness/checks/test_checks.py",
        "-k",
        "ones",
    )
    ran = _ran(tmp_path, *tests)
    assert ran.returncode != 0
    assert "write parity_tests/suite/harness/checks/planted/ones.py" in ran.stdout
    (copy / "suite/harness/checks/planted/ones.py").write_text(PLANTED, encoding="utf-8")
    ran = _ran(tmp_path, *tests)
    assert ran.returncode == 0, ran.stdout
    assert "6 passed" in ran.stdout  # the right operator in four formats, the right Function, the mistake
    listed = _ran(tmp_path, "-m", "parity_tests", "checks")
    assert "a shortcut for cotangents of ones" in listed.stdout
