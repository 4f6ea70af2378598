"""--budget: a run ends in time, even if a candidate hangs, and its report is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CASE = """
import time
import torch
from parity_tests import OpSpec

calls = 0

def candidate(x):
    global calls
    calls += 1
    {pause}
    return x * x

spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
"""


def check(folder: Path, pause: str, budget: str, *options: str) -> tuple[subprocess.CompletedProcess[str], dict, float]:
    """gradparity check in a process of its own: what it printed, its report, its time."""
    (folder / "case.py").write_text(CASE.format(pause=pause))
    command = [sys.executable, "-m", "parity_tests", "check", "case.py", "--budget", budget, "--device", "cpu"]
    start = time.monotonic()
    ran = subprocess.run(
        [*command, *options, "--json", "report.json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ran, json.loads((folder / "report.json").read_text()), time.monotonic() - start


def test_a_candidate_that_hangs(tmp_path: Path):
    """It is told where."""
    ran, report, seconds = check(tmp_path, "time.sleep(1e6) if calls > 20 else None", "6")
    assert ran.returncode == 2, ran.stdout
    assert "Could not judge: the budget of 6 s is spent" in ran.stdout
    told = re.sub(r"\s+", " ", ran.stdout)
    assert re.search(r"which was being judged at sample \S+ .*? at case.py:11 in candidate", told), told
    assert not report["passed"]
    assert report["rows"]  # what was judged before is not lost
    assert seconds < 60


def test_a_candidate_that_hangs_in_this_process(tmp_path: Path):
    ran, report, seconds = check(tmp_path, "time.sleep(1e6) if calls > 20 else None", "6", "--no-isolate")
    assert ran.returncode == 2, ran.stdout
    assert "the budget of 6 s is spent, and the candidate hangs (at " in ran.stdout
    assert "case.py:11, in candidate" in ran.stdout
    assert report["error"] in ran.stdout
    assert not report["passed"]
    assert report["rows"]  # what was judged before is not lost
    assert seconds < 60


@pytest.mark.parametrize("here", [(), ("--no-isolate",)], ids=["isolated", "here"])
def test_a_wrong_candidate_that_hangs(tmp_path: Path, here: tuple[str, ...]):
    """While it is shrunk."""
    wrong = "if x.numel() < 3: time.sleep(1e6)\n    x = x * 1.5"
    ran, report, seconds = check(tmp_path, wrong, "3", "--only", "forward", *here)
    assert ran.returncode == 2, ran.stdout
    assert ("the candidate hangs (at " if here else "which was being judged at sample") in ran.stdout
    assert report["error"] in ran.stdout
    assert seconds < 60


def test_shrinking_ends_with_the_budget(tmp_path: Path):
    """And is not taken for a candidate that hangs; it is wrong, whatever else could not be judged."""
    slow = "time.sleep(0.5)\n    x = x * 1.5"
    ran, report, _ = check(tmp_path, slow, "3", "--only", "forward", "--dtype", "float64")
    assert ran.returncode == 1, ran.stdout
    assert "Could not judge: the budget of 3 s is spent\n" in ran.stdout
    assert report["failures"][0]["smallest"]
    assert (tmp_path / report["failures"][0]["script"]).is_file()


def test_a_slow_candidate(tmp_path: Path):
    ran, report, _ = check(tmp_path, "time.sleep(0.01)", "3")
    assert ran.returncode == 2, ran.stdout
    assert "Could not judge: the budget of 3 s is spent\n" in ran.stdout
    assert 0 < len(report["rows"]) < 52 + 6


def test_enough_time(tmp_path: Path):
    ran, report, _ = check(tmp_path, "None", "100")
    assert ran.returncode == 0, ran.stdout
    assert report["passed"]


@pytest.mark.parametrize("budget", ["-1", "soon"])
def test_a_budget_that_is_none(tmp_path: Path, budget: str):
    command = [sys.executable, "-m", "parity_tests", "run", "--budget", budget]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "--budget" in ran.stderr
