"""gradparity report: reports of earlier runs, shown, merged and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Row

pytestmark = pytest.mark.usefixtures("wide")


def gradparity(*args: object):
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


@pytest.fixture
def write(tmp_path: Path):
    """Writes a report whose candidate has these verdicts, by check."""

    def write(name: str, *, error: str | None = None, **verdicts: Verdict) -> Path:
        rows = [Row("op", "mine", check, "float64", "cpu", verdict, 0.5, 1) for check, verdict in verdicts.items()]
        path = tmp_path / name
        Report({}, rows, error=error).to_json(path)
        return path

    return write


def test_one_report_is_shown_with_its_own_exit_code(write):
    result = gradparity("report", write("a.json", forward=Verdict.PASS, vjp=Verdict.MISMATCH))
    assert result.exit_code == 1
    assert "1 of 2 rows do not pass" in result.stdout
    assert gradparity("report", write("b.json", forward=Verdict.PASS)).exit_code == 0


def test_what_is_new_and_what_is_mended(write):
    before = write("a.json", forward=Verdict.PASS, vjp=Verdict.MISMATCH, jvp=Verdict.MISMATCH, vmap=Verdict.ERROR)
    after = write("b.json", forward=Verdict.MISMATCH, vjp=Verdict.PASS, jvp=Verdict.MISMATCH)
    result = gradparity("report", before, after)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "new: op, mine, forward, float64, cpu: MISMATCH" in lines
    assert "fixed: op, mine, vjp, float64, cpu: PASS" in lines
    assert "as before: op, mine, jvp, float64, cpu: MISMATCH" in lines
    assert "no longer judged: op, mine, vmap, float64, cpu: ERROR" in lines
    assert "1 new, 1 fixed, 1 no longer judged, 1 as before" in lines


def test_nothing_new_is_no_failure(write):
    before = write("a.json", vjp=Verdict.MISMATCH, jvp=Verdict.MISMATCH)
    assert gradparity("report", before, write("b.json", vjp=Verdict.MISMATCH, jvp=Verdict.PASS)).exit_code == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Verdict.PASS, Verdict.SKIPPED),
        (Verdict.MISMATCH, Verdict.SKIPPED),
        (Verdict.MISMATCH, Verdict.UNSUPPORTED),
    ],
)
def test_a_row_that_is_skipped_or_refused_now_is_no_longer_judged(write, before, after):
    result = gradparity("report", write("a.json", vjp=before), write("b.json", vjp=after, jvp=Verdict.PASS))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert f"no longer judged: op, mine, vjp, float64, cpu: {after}" in lines
    assert "0 new, 0 fixed, 1 no longer judged, 0 as before" in lines


def test_a_last_report_in_which_nothing_is_judged_is_no_success(write):
    assert gradparity("report", write("a.json", vjp=Verdict.MISMATCH), write("b.json")).exit_code == 2


def test_a_run_that_ended_early_is_no_success(write):
    result = gradparity("report", write("a.json", vjp=Verdict.PASS), write("b.json", error="interrupted"))
    assert result.exit_code == 2
    assert "Could not judge: interrupted" in result.stdout


def test_in_the_merged_report_the_last_row_counts(write, tmp_path: Path):
    before = write("a.json", forward=Verdict.PASS, vjp=Verdict.MISMATCH)
    after = write("b.json", vjp=Verdict.PASS, jvp=Verdict.PASS)
    forms = [x for form in ("json", "html", "markdown", "junit") for x in (f"--{form}", tmp_path / f"merged.{form}")]
    assert gradparity("report", before, after, *forms).exit_code == 0
    data = json.loads((tmp_path / "merged.json").read_text())
    assert {row["check"]: row["verdict"] for row in data["rows"]} == dict.fromkeys(("forward", "vjp", "jvp"), "PASS")
    assert data["passed"]
    beginnings = {"html": "<!doctype html", "markdown": "<!-- gradparity -->", "junit": "<?xml"}
    assert all((tmp_path / f"merged.{form}").read_text().lstrip().startswith(text) for form, text in beginnings.items())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a report that"),
        ("[]", "not a report that"),
        ("{}", "not a report that"),
        ('{"schema": 7}', "a report of schema 7, and this version reads 1"),
    ],
)
def test_what_is_no_report(tmp_path: Path, text: str, says: str):
    path = tmp_path / "x.json"
    path.write_text(text)
    result = gradparity("report", path)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_file_that_is_not_there(tmp_path: Path):
    result = gradparity("report", tmp_path / "x.json")
    assert result.exit_code == 2
    assert "x.json: No such file or directory" in result.stderr


def test_a_report_in_two_forms_needs_two_files(write, tmp_path: Path):
    result = gradparity("report", write("a.json"), "--markdown", tmp_path / "r", "--junit", tmp_path / "r")
    assert result.exit_code == 2
    assert "are the same file; give two" in result.stderr


@pytest.mark.parametrize("verdicts", [("MISMATCH", "PASS"), ("PASS", "MISMATCH")])
def test_a_row_that_is_there_twice_is_told_and_both_count(write, verdicts: tuple[str, str]):
    path = write("a.json", forward=Verdict.PASS)
    data = json.loads(path.read_text())
    (row,) = data["rows"]
    path.write_text(json.dumps(data | {"rows": [row | {"verdict": verdict} for verdict in verdicts]}))
    result = gradparity("report", path)
    assert result.exit_code == 1
    assert "1 rows are there more than once, such as op, mine, forward, float64, cpu: all count" in result.stdout
    assert "1 of 2 rows do not pass" in result.stdout
