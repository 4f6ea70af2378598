"""What users of pytest expect: -k, -x, -q and -v; NO_COLOR; terminals that are narrow or dumb."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from parity_tests.cli.expression import matching
from parity_tests.harness.checks import CHECKS as CHECKS_THEMSELVES
from parity_tests.harness.names import CHECKS, COSTLY, ON_REQUEST
from parity_tests.suite.cli._square import RIGHT, WRONG, gradparity

FAST = ("--dtype", "float64", "--device", "cpu")


def checks(folder: Path) -> list[str]:
    """The checks of the candidate in the report of a run."""
    rows = json.loads((folder / "report.json").read_text())["rows"]
    return [row["check"] for row in rows if row["candidate"] != "oracle"]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("vjp_partial", ["vjp_partial"]),
        ("vjp and not of", ["vjp", "vjp_partial"]),
        ("compile or make_fx", ["make_fx", "compile"]),
        ("jvp and not (of or vjp)", ["jvp"]),
    ],
)
def test_k_selects_by_parts_of_names(expression: str, names: list[str]):
    assert matching(expression, CHECKS) == names


@pytest.mark.parametrize(
    "expression", ["", "vjp jvp", "vjp +", "1", "vjp()", "vjp == jvp", "__import__('os')", "nosuch"]
)
def test_k_refuses_what_is_no_such_expression(expression: str):
    with pytest.raises(ValueError, match="-k "):
        matching(expression, CHECKS)


@pytest.mark.usefixtures("wide")
def test_k_on_the_command_line(case, tmp_path: Path):
    report = ("--json", str(tmp_path / "report.json"))
    assert gradparity("check", case(RIGHT), *FAST, *report, "-k", "forward or vjp_partial").exit_code == 0
    assert checks(tmp_path) == ["forward", "vjp_partial"]
    assert gradparity("check", case(RIGHT), *FAST, *report, "--only", "forward,vjp", "-k", "not vjp").exit_code == 0
    assert checks(tmp_path) == ["forward"]
    for arguments in (("-k", "nosuch"), ("-k", "third_order"), ("--quick", "-k", "determinism")):
        result = gradparity("check", case(RIGHT), *arguments)
        assert result.exit_code == 2
        assert "no check matches" in result.stderr


def test_k_leaves_out_what_does_not_run_by_default():
    assert {name for name, check in CHECKS_THEMSELVES.items() if check.on_request} == ON_REQUEST
    assert {name for name, check in CHECKS_THEMSELVES.items() if check.costly} == COSTLY


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
def test_x_stops_at_the_first_row_that_does_not_pass(case, tmp_path: Path):
    report = ("--json", str(tmp_path / "report.json"), "--only", "forward,vjp,jvp,adjoint")
    result = gradparity("check", case(WRONG), *FAST, *report, "-x")
    assert result.exit_code == 1
    assert checks(tmp_path) == ["forward", "vjp"]
    assert "skipped: all other rows: -x stops at the first that does not pass" in result.stdout
    assert gradparity("check", case(WRONG), *FAST, *report).exit_code == 1
    assert checks(tmp_path) == ["forward", "vjp", "jvp", "adjoint"]


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
def test_q_shows_failures_and_the_verdict_only(case):
    result = gradparity("check", case(RIGHT), *FAST, "--only", "forward,vjp,opcheck", "-q")
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    assert line.startswith("All agree: 2 rows")
    result = gradparity("check", case(WRONG), *FAST, "--only", "forward,vjp", "-q")
    assert result.exit_code == 1
    assert result.stdout.startswith("square: Square disagrees with the oracle")
    assert "┃" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith("1 of 3 rows do not pass")


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
def test_v_shows_each_row_with_its_numbers_and_every_failure(case):
    what = ("check", case(WRONG), *FAST, "--dtype", "float32", "--only", "forward,vjp,vjp_of_vjp,opcheck")
    short, whole = gradparity(*what).stdout, gradparity(*what, "-v").stdout
    rows = [line for line in whole.splitlines() if line.startswith("square, ")]
    assert len(rows) == 9  # two of the oracle's, and of float32 none of opcheck
    numbers = r": [A-Z]+, (error \S+ of the bound, )?([\d,]+ comparisons, )?\d+\.\d\d s"
    assert all(re.search(numbers, row) for row in rows)
    assert re.search(r"forward, float32, cpu: PASS, error 0\.\d+ of the bound, [\d,]+ comparisons, ", whole)
    assert "vjp, float32, cpu: MISMATCH, error 1.4e+06 of the bound" in whole
    assert re.search(r"^gradparity .*, jax .*, torch .*, seed 0$", whole, re.MULTILINE)
    told = ("square: Square disagrees with the oracle   [", "square: Square is silently wrong in second order   [")
    assert [short.count(text) for text in told] == [1, 0]  # what follows from another failure is only named without -v
    assert [whole.count(text) for text in told] == [2, 2]
    assert "probably by the same mistake: vjp_of_vjp (f64 f32)" in short


def test_q_and_v_cancel_each_other(case):
    few = ("check", case(RIGHT), *FAST, "--only", "forward")
    assert "┃ check" in gradparity(*few, "-q", "-v").stdout
    assert "comparisons, " not in gradparity(*few, "-q", "-v").stdout


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_escapes_where_none_are_wanted(case, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]):
    for name, value in {"COLUMNS": "100", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    result = gradparity("check", case(WRONG), *FAST, "--only", "forward,vjp")
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout


def test_a_narrow_terminal_loses_no_word(case, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "30")
    result = gradparity("check", case(WRONG), *FAST, "--only", "forward,vjp")
    assert result.exit_code == 1
    for word in ("forward", "MISMATCH", "square: Square disagrees with the oracle"):
        assert word in result.stdout
