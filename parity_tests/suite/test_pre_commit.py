""".pre-commit-hooks.yaml: what pre-commit would install and run."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from parity_tests.suite.cli._square import RIGHT, WRONG, gradparity

ROOT = Path(__file__).resolve().parents[2]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ARGS = ("--quick", "--only", "forward,vjp", "--dtype", "float64", "--device", "cpu")


def test_the_entry_is_a_program_that_is_installed():
    program = shlex.split(HOOK["entry"])[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert HOOK["language"] == "python"
    assert program in project["scripts"]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "code"), [(RIGHT, 0), (WRONG, 1)], ids=["right", "wrong"])
def test_it_judges_the_case_files_among_its_arguments(tmp_path: Path, monkeypatch, text: str, code: int):
    """pre-commit runs the entry with the hook's `args`, in the folder of the repository; no names of changed files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "square.py").write_text(text)
    (tmp_path / "cube.py").write_text(RIGHT.replace('"square"', '"again"'))
    assert HOOK["pass_filenames"] is False
    _, *entry = shlex.split(HOOK["entry"])
    result = gradparity(*entry, "square.py", "cube.py", *ARGS)
    assert result.exit_code == code, result.output
    assert "square, Square, vjp, float64" in result.stdout
    assert "again, Square, vjp, float64" in result.stdout


def test_without_a_case_file_it_says_what_is_missing():
    result = gradparity(*shlex.split(HOOK["entry"])[1:])
    assert result.exit_code == 2
    assert "Missing argument 'CASE...'" in result.stderr
