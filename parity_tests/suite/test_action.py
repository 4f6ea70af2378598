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
STAND_IN = '#!/bin/bash\nprintf "%s\\n" "$*" >> "$CALLS"\nexit "$(cat "$2")"\n'


def run(folder: Path, codes: list[int], options: str) -> tuple[int, list[str]]:
    """The exit code of the step, and the calls, for cases that end with these exit codes."""
    for i, code in enumerate(codes):
        (folder / f"case{i}").write_text(str(code))
    program, calls = folder / "gradparity", folder / "calls"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    cases = " ".join(f"case{i}" for i in range(len(codes)))
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "CASES": cases, "OPTIONS": options, "CALLS": str(calls)}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", JUDGE["run"]], cwd=folder, env=environment, check=False)
    return done.returncode, calls.read_text().splitlines()


@pytest.mark.parametrize(("codes", "expected"), [([0, 0], 0), ([1, 0, 0], 1), ([1, 2, 0], 2), ([2, 1], 2)])
def test_all_cases_are_judged_and_the_worst_code_counts(tmp_path: Path, codes: list[int], expected: int):
    code, calls = run(tmp_path, codes, "--quick --device cpu")
    assert code == expected
    assert calls == [f"check case{i} --quick --device cpu" for i in range(len(codes))]


def test_inputs_reach_the_step_as_variables_only():
    """A text of a workflow that stood in the script itself would be run as a part of it."""
    assert JUDGE["env"] == {"CASES": "${{ inputs.cases }}", "OPTIONS": "${{ inputs.options }}"}
    assert not re.search(r"\$\{\{", JUDGE["run"] + INSTALL["run"])
    assert set(ACTION["inputs"]) == {"cases", "options"}
