"""The soak tests run file by file; what came of each is kept, and a run that was stopped goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import soak
from benchmarks.soak import Outcome, page, run

TESTS = """
import os, signal
import pytest
pytestmark = pytest.mark.soak

def test_right():
    pass

def test_wrong():
    assert {wrong}

def test_skipped():
    pytest.skip("no such machine")
"""
INI = "[pytest]\nmarkers =\n    soak: hours\n"


def outcome(ended: str, commit: str | None = "of now", code: int = 0, **more: Any) -> Outcome:
    return Outcome(ended, commit, "Python", 1.0, code, **more)


def written(folder: Path, tests: str) -> Path:
    folder.joinpath("pytest.ini").write_text(INI)
    folder.joinpath("test_it.py").write_text(tests)
    return folder


@pytest.mark.slow
def test_what_came_of_a_file(tmp_path):
    done = run("test_it.py", written(tmp_path, TESTS.format(wrong="True")))
    assert (done.code, done.passed, done.failures, done.skips) == (0, 2, [], ["no such machine"])
    failed = run("test_it.py", written(tmp_path, TESTS.format(wrong="False")))
    assert (failed.code, failed.passed, failed.failures) == (1, 1, ["test_wrong"])


@pytest.mark.slow
def test_a_process_that_is_killed_has_failed(tmp_path):
    killed = run("test_it.py", written(tmp_path, TESTS.format(wrong="os.kill(os.getpid(), signal.SIGKILL)")))
    assert (killed.code, killed.passed) == (-9, 0)
    assert "| pytest ended with -9 |" in page({"test_it.py": killed})


@pytest.mark.slow
def test_a_file_without_soak_tests_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"test_it.py has no soak tests"):
        run("test_it.py", written(tmp_path, "def test_fast(): pass"))


def test_what_has_no_result_and_what_is_of_another_tree_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "collected", lambda: ["a", "b", "c"])
    monkeypatch.setattr(soak, "is_of_this_tree", lambda of: of == "of now")
    ran: list[str] = []

    def stopped_at_b(file: str) -> Outcome:
        ran.append(file)
        if ran == ["a", "b"]:
            raise KeyboardInterrupt
        return outcome("2026-01-01", code=int(file == "c"))

    monkeypatch.setattr(soak, "run", stopped_at_b)
    results = tmp_path / "soak.json"
    assert [soak.main(files, results) for files in ([], [], [], ["a"])] == [2, 1, 0, 0]  # c fails; nothing is left
    assert ran == ["a", "b", "b", "c", "a"]
    monkeypatch.setattr(soak, "is_of_this_tree", lambda of: False)
    assert soak.campaign(results).due("abc") == ["a", "b", "c"]


def test_the_page():
    text = page({"x.py": outcome("2026-01-02T03:04:05", passed=3, skips=["no GPU", "no GPU"])})
    assert "All of these passed." in text
    assert "| `x.py` | 2026-01-02 | of now | 3 | 0 | 2 | 1 |" in text
    assert "- `x.py`: 2 x no GPU" in text
    failed = page({"x.py": outcome("2026-01-02", code=1, failures=["test_y"])})
    assert "A file has failed." in failed
    assert "- `x.py`: `test_y`" in failed
