"""action.yml: what GitHub Actions would run, run here with programs that only write down how they were called."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HAS, CACHE, INSTALL, JUDGE, KEEP = ACTION["runs"]["steps"]
GRADPARITY = """#!/bin/bash
printf "%s\\n" "$*" >> "$CALLS"
while [ $# -gt 0 ]; do
  case "$1" in
    --markdown) echo "what is wrong" > "$2"; shift 2 ;;
    --) cat -- "$2"; exit "$(cat -- "$2")" ;;
    *) shift ;;
  esac
done
"""
PYTHON = '#!/bin/bash\nprintf "%s\\n" "$*" >> "$CALLS"\nif [ "$3" = list ]; then cat "$INSTALLED"; fi\n'
REPORTS = "--failures R/failures --junit R/junit.xml --json R/report.json --html R/report.html --markdown R/report.md"
FIRST = f"check --jobs 2 {REPORTS}".replace("R/", "gradparity-report/")


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def step(script: str, folder: Path, variables: Mapping[str, str]) -> tuple[int, list[str]]:
    """The exit code of a step, and the calls of the stand-ins in its folder."""
    calls, summary = folder / "calls", folder / "summary"
    own = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(calls), "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=own | {**variables}, check=False, timeout=60
    )
    return done.returncode, calls.read_text().splitlines() if calls.exists() else []


def run(folder: Path, code: int, options: str, cases: str = "case0 case1") -> tuple[int, list[str]]:
    """The exit code of the step that judges, and the calls, if the command ends with this code."""
    program(folder / "gradparity", GRADPARITY)
    for name in ("case0", "case1", "--help"):
        (folder / name).write_text(str(code))
    return step(JUDGE["run"], folder, {"CASES": cases, "OPTIONS": options, "NUMBER_OF_PROCESSORS": "2"})


@pytest.mark.parametrize("code", [0, 1, 2])
def test_all_cases_are_judged_by_one_call(tmp_path: Path, code: int):
    assert run(tmp_path, code, "--quick --device cpu") == (code, [f"{FIRST} --quick --device cpu -- case0 case1"])
    assert (tmp_path / "summary").read_text() == "what is wrong\n"


@pytest.mark.parametrize("cases", ["", "  ", "\n", " \t\n "])
def test_without_a_case_the_step_fails(tmp_path: Path, cases: str):
    """GitHub does not enforce `required`, and a step that has judged nothing must not pass."""
    assert run(tmp_path, 0, "--quick", cases) == (2, [])


@pytest.mark.parametrize("options", ["--help", "--quick --version", "--show-completion --quick"])
def test_options_with_which_nothing_is_judged_fail(tmp_path: Path, options: str):
    assert run(tmp_path, 0, options) == (2, [])


def test_a_file_that_is_called_like_an_option_is_a_file(tmp_path: Path):
    assert run(tmp_path, 1, "--quick", "--help case0") == (1, [f"{FIRST} --quick -- --help case0"])


def test_a_pattern_stands_for_the_files_that_fit_it(tmp_path: Path):
    assert run(tmp_path, 2, "--quick", "case*") == (2, [f"{FIRST} --quick -- case0 case1"])


@pytest.mark.parametrize("text", ["case0; touch broken", "$(touch broken)", "`touch broken`", "case0 && touch broken"])
def test_what_a_shell_would_run_is_a_name(tmp_path: Path, text: str):
    run(tmp_path, 0, text, text)
    assert not (tmp_path / "broken").exists()


def test_inputs_reach_the_steps_as_variables_only():
    """A text of a workflow that stood in the script itself would be run as a part of it."""
    assert JUDGE["env"] == {"CASES": "${{ inputs.cases }}", "OPTIONS": "${{ inputs.options }}"}
    assert not re.search(r"\$\{\{", HAS["run"] + JUDGE["run"] + INSTALL["run"])
    assert set(ACTION["inputs"]) == {"cases", "options", "artifact"}


@pytest.mark.parametrize(
    ("installed", "kept"),
    [
        ("numpy==2.0\ntorch==2.14.1+cu130\njax==0.12.0\njaxlib==0.12.0\njaxtyping==1\n", "torch jax jaxlib"),
        ("torch-geometric==2.6\ntorch==2.12.0\n", "torch jax jaxlib"),
        ("jax==0.12.0\njaxlib==0.12.0\n", "jax jaxlib torch"),
        ("pip==26.0\n", ""),
        ("", ""),
    ],
)
def test_the_jobs_own_pytorch_and_jax_are_kept(tmp_path: Path, installed: str, kept: str):
    """A constraint that they do not fit makes pip fail; of what is not there the version is that of the tests."""
    program(tmp_path / "python", PYTHON)
    (tmp_path / "installed").write_text(installed)
    variables = {"INSTALLED": str(tmp_path / "installed"), "RUNNER_TEMP": str(tmp_path)}
    variables |= {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_ACTION_PATH": str(ROOT)}
    assert step(HAS["run"], tmp_path, variables)[0] == 0
    keeps = tmp_path / "gradparity-keeps.txt"
    lines = keeps.read_text().splitlines()
    assert [line.partition("==")[0] for line in lines] == kept.split()
    assert {*lines} <= {*installed.splitlines(), *(ROOT / "constraints.txt").read_text().splitlines()}
    assert re.search(r"^needs=\d+$", (tmp_path / "output").read_text(), re.MULTILINE)
    _, calls = step(INSTALL["run"], tmp_path, variables)
    constraints = keeps if kept else ROOT / "constraints.txt"
    assert calls[-1] == f"-m pip install -c {constraints} {ROOT}"


def test_a_report_of_an_earlier_call_is_not_shown(tmp_path: Path):
    """One that ends before it has judged anything writes none."""
    run(tmp_path, 0, "--quick")
    (tmp_path / "summary").unlink()
    program(tmp_path / "gradparity", "#!/bin/bash\nexit 2\n")
    variables = {"CASES": "case0", "OPTIONS": "", "NUMBER_OF_PROCESSORS": "2"}
    assert step(JUDGE["run"], tmp_path, variables)[0] == 2
    assert not (tmp_path / "summary").exists()


def test_the_reports_are_kept_whatever_the_verdict():
    assert KEEP["if"] == "always()"
    assert KEEP["with"]["path"] == "gradparity-report"
    assert CACHE["with"]["path"] == "${{ steps.has.outputs.cache }}"
    assert CACHE["if"] == "steps.has.outputs.cache != ''"  # pip may keep none
