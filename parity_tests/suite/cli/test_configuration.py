"""[tool.gradparity] of pyproject.toml sets defaults for the options of the commands that judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parity_tests.cli.configuration import defaults
from parity_tests.suite.cli._square import RIGHT, gradparity

pytestmark = pytest.mark.usefixtures("wide")
OPTIONS = {"dtype": "dtype", "trial-timeout": "trial_timeout"}


def judged(folder: Path) -> set[tuple[str, str]]:
    """The checks and dtypes of the candidate in the report of a run."""
    rows = json.loads((folder / "report.json").read_text())["rows"]
    return {(row["check"], row["dtype"]) for row in rows if row["candidate"] != "oracle"}


def test_it_sets_defaults_that_the_command_line_overrides(case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.gradparity]\nonly = ["forward"]\ndtype = ["float32"]\ndevice = ["cpu"]\njson = "report.json"\n'
    )
    path = case(RIGHT)
    assert gradparity("check", path).exit_code == 0
    assert judged(tmp_path) == {("forward", "float32")}
    assert gradparity("check", path, "--dtype", "float64").exit_code == 0
    assert judged(tmp_path) == {("forward", "float64")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.gradparity]\ndtpe = []\n", "has no option 'dtpe' (did you mean 'dtype'?); there are dtype"),
        ("[tool]\ngradparity = 1\n", "tool.gradparity must be a table"),
        ("[tool.gradparity\n", "not TOML"),
    ],
)
def test_what_it_refuses(tmp_path: Path, text: str, says: str):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ValueError, match=r"pyproject\.toml: ") as error:
        defaults(tmp_path, OPTIONS)
    assert says in str(error.value)


def test_the_nearest_file_with_the_table_counts(tmp_path: Path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.gradparity]\ntrial-timeout = 5.0\n")
    (inner / "pyproject.toml").write_text("[tool.other]\n")
    assert defaults(inner, OPTIONS) == {"trial_timeout": 5.0}
    (inner / "pyproject.toml").write_text("[tool.gradparity]\n")
    assert defaults(inner, OPTIONS) == {}


def test_a_mistake_in_it_is_told_in_a_line(case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.gradparity]\nquik = true\n")
    result = gradparity("check", case(RIGHT))
    assert result.exit_code == 2
    assert "[tool.gradparity] has no option 'quik' (did you mean 'quick'?)" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert gradparity("new", str(tmp_path / "other.py")).exit_code == 0


def test_a_value_of_a_wrong_type_is_told(case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.gradparity]\nseed = "one"\n')
    result = gradparity("check", case(RIGHT))
    assert result.exit_code == 2
    assert "--seed" in result.stderr
