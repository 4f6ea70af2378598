"""gradparity new: what it writes runs as it is, and is right; with a mistake in it, it is caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.specs.spec import FORMULAS


def gradparity(*args: str):
    here = ("--no-isolate",) if args[0] == "check" else ()  # another process takes seconds to start
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [*args, *here], catch_exceptions=False)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "my_case.py"
    result = gradparity("new", str(path))
    assert result.exit_code == 0
    assert f"gradparity check {path}" in result.stdout
    return path


@pytest.mark.slow
def test_it_runs_as_it_is(case):
    result = gradparity("check", str(case), "--dtype", "float64", "--device", "cpu")
    assert result.exit_code == 0, result.stdout
    table, _ = result.stdout.partition("┏")[2].split("└")
    assert table.count("UNSUPPORTED") == 1  # jvp_of_jvp, which PyTorch lacks
    assert "not applicable (-v says why): captured, mixed_dtypes, opcheck\n" in result.stdout
    by_default = [check for check in CHECKS.values() if not check.on_request and not check.only_short]
    assert table.count("PASS") == len(by_default) - 4 + len(FORMULAS)


@pytest.mark.slow
def test_a_mistake_in_it_is_caught(case):
    text = case.read_text()
    assert "(1 - y * y)).to" in text
    case.write_text(text.replace("(1 - y * y)).to", "(1 - y)).to"))
    result = gradparity("check", str(case), "--dtype", "float64", "--only", "vjp", "--device", "cpu")
    assert result.exit_code == 1


def test_nothing_is_overwritten(case):
    case.write_text("mine")
    result = gradparity("new", str(case))
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert case.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "says"), [("no/my_case.py", "there is no folder"), ("my_case.txt", "must end in .py")]
)
def test_a_name_that_cannot_be(tmp_path: Path, name: str, says: str):
    result = gradparity("new", str(tmp_path / name))
    assert result.exit_code == 2
    assert says in result.stderr
    assert not [*tmp_path.rglob("*")]


def test_the_command_that_it_prints_runs_of_a_name_that_begins_like_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    result = gradparity("new", "--", "-n.py")
    assert (result.exit_code, result.stdout) == (0, "-n.py is written; judge it with: gradparity check -- -n.py\n")
    assert gradparity("new", "n.py").stdout == "n.py is written; judge it with: gradparity check n.py\n"
