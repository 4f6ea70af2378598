"""Of processes that run together none outlives another that fails, or the time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from parity_tests.suite.process_group import run_together


def _run(tmp_path: Path, *programs: str, seconds: float = 20) -> None:
    for i, program in enumerate(programs):
        (tmp_path / f"program{i}.py").write_text(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        run_together("runpy", [[f"program{i}"] for i in range(len(programs))], tmp_path, {}, seconds)


SLEEPS = "import time; time.sleep(600)"


def test_all_end(tmp_path: Path) -> None:
    _run(tmp_path, "print('one')", "print('two')")
    assert [(tmp_path / f"{i}.log").read_text() for i in (0, 1)] == ["one\n", "two\n"]


def test_one_fails(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(AssertionError, match=r"process 1 ended with exit code 3:\nbefore"):
        _run(tmp_path, SLEEPS, "print('before', flush=True); raise SystemExit(3)")
    assert time.monotonic() - start < 15


def test_one_is_aborted(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)process 1 ended with exit code -6:.*in somewhere"):
        _run(tmp_path, SLEEPS, "import os\ndef somewhere(): os.abort()\nsomewhere()")


@pytest.mark.slow
def test_none_ends(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"process 0 did not end in 0.5 s"):
        _run(tmp_path, SLEEPS, SLEEPS, seconds=0.5)
