"""action.yml: what GitHub Actions would run, run here with a gradparity that only writes down how it was called."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, JUDGE = ACTION["runs"]["steps"]
STAND_IN = '#!/bin/bash\nprintf "%s\\n" "$*" >> "$CALLS"\nexit "$(cat -- "${@: -1}")"\n'


def run(folder: Path, codes: list[int], options: str, cases: str | None = None) -> tuple[int, list[str]]:
    """The exit code of the step, and the calls, for cases that end with these exit codes; `cases`: the step's input."""
    for i, code in enumerate(codes):
        (folder / f"case{i}").write_text(str(code))
    (folder / "--help").write_text("1")
    program, calls = folder / "gradparity", folder / "calls"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    cases = " ".join(f"case{i}" for i in range(len(codes))) if cases is None else cases
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CASES": cases, "OPTIONS": options, "CALLS": str(calls)}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", JUDGE["run"]], cwd=folder, env=environment, check=False)
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


@pytest.mark.parametrize(("codes", "expected"), [([0, 0], 0), ([1, 0, 0], 1), ([1, 2, 0], 2), ([2, 1], 2)])
def test_all_cases_are_judged_and_the_worst_code_counts(tmp_path: Path, codes: list[int], expected: int):
    code, calls = run(tmp_path, codes, "--quick --device cpu")
    assert code == expected
    assert calls == [f"check --quick --device cpu -- case{i}" for i in range(len(codes))]


@pytest.mark.parametrize("cases", ["", "  ", "\n", " \t\n "])
def test_without_a_case_the_step_fails(tmp_path: Path, cases: str):
    """GitHub does not enforce `required`, and a step that has judged nothing must not pass."""
    assert run(tmp_path, [], "--quick", cases) == (2, [])


@pytest.mark.parametrize("options", ["--help", "--quick --version", "--show-completion --quick"])
def test_options_with_which_nothing_is_judged_fail(tmp_path: Path, options: str):
    assert run(tmp_path, [0], options) == (2, [])


def test_a_file_that_is_called_like_an_option_is_a_file(tmp_path: Path):
    assert run(tmp_path, [0], "--quick", "case0 --help") == (1, ["check --quick -- case0", "check --quick -- --help"])


def test_a_pattern_stands_for_the_files_that_fit_it(tmp_path: Path):
    assert run(tmp_path, [0, 2], "--quick", "case*") == (2, ["check --quick -- case0", "check --quick -- case1"])


@pytest.mark.parametrize("text", ["case0; touch broken", "$(touch broken)", "`touch broken`", "case0 && touch broken"])
def test_what_a_shell_would_run_is_a_name(tmp_path: Path, text: str):
    run(tmp_path, [0], text, text)
    assert not (tmp_path / "broken").exists()


def test_inputs_reach_the_step_as_variables_only():
    """A text of a workflow that stood in the script itself would be run as a part of it."""
    assert JUDGE["env"] == {"CASES": "${{ inputs.cases }}", "OPTIONS": "${{ inputs.options }}"}
    assert not re.search(r"\$\{\{", JUDGE["run"] + INSTALL["run"])
    assert set(ACTION["inputs"]) == {"cases", "options"}
