"""--last-failed judges what failed in the last run, --failed-first begins with it; both forget what is mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from parity_tests import Report
from parity_tests.cli import last_failed
from parity_tests.cli.app import app
from parity_tests.cli.sources.case_files import CaseFile
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.suite.cli._square import RIGHT, WRONG, gradparity

pytestmark = pytest.mark.usefixtures("wide")
FEW = ("--only", "forward,vjp,opcheck", "--dtype", "float64", "--dtype", "float32", "--device", "cpu")
FAILED = [("vjp", "float64"), ("vjp", "float32")]
REST = [("forward", "float64"), ("opcheck", "float64"), ("forward", "float32")]


def judged(folder: Path) -> list[tuple[str, str]]:
    """The rows of the candidates in the report of a run, in their order."""
    rows = json.loads((folder / "report.json").read_text())["rows"]
    return [(row["check"], row["dtype"]) for row in rows if row["candidate"] != "oracle"]


@pytest.fixture
def check(case, tmp_path: Path):
    """Judge a case file of this text; returns the exit code, what is printed and which rows were judged."""

    def judge(text: str, *options: str) -> tuple[int, str, list[tuple[str, str]]]:
        result = gradparity("check", case(text), *FEW, "--json", str(tmp_path / "report.json"), *options)
        return result.exit_code, result.stdout, judged(tmp_path)

    return judge


@pytest.mark.slow
def test_only_what_failed_is_judged_until_it_is_mended(check):
    code, out, rows = check(WRONG)
    assert (code, sorted(rows)) == (1, sorted(FAILED + REST))
    assert "last run" not in out
    code, out, rows = check(WRONG, "--last-failed")
    assert (code, rows) == (1, FAILED)
    assert "only what failed in the last run is judged: 2 rows" in out
    assert "skipped: what passed in the last run: --last-failed judges only what did not" in out
    code, out, rows = check(RIGHT, "--lf")
    assert (code, rows) == (0, FAILED)
    assert out.splitlines()[-1].startswith("All agree: 2 rows")
    code, out, rows = check(RIGHT, "--lf")
    assert (code, sorted(rows)) == (0, sorted(FAILED + REST))
    assert "nothing of this failed in the last run: all of it is judged" in out


@pytest.mark.slow
def test_what_failed_comes_first(check):
    _, _, usual = check(WRONG)
    _, out, rows = check(WRONG, "--ff")
    assert rows == FAILED + [row for row in usual if row not in FAILED]
    assert rows != usual
    assert "first what failed in the last run: 2 rows" in out
    code, _, rows = check(WRONG, "--failed-first", "-x")
    assert (code, rows) == (1, FAILED[:1])


@pytest.mark.slow
def test_what_a_run_leaves_out_stays_known(check):
    check(WRONG)
    assert check(WRONG, "-k", "forward")[0] == 0
    assert check(WRONG, "--dtype", "float16", "-k", "forward", "--lf")[2] == [
        ("forward", "float64"),
        ("forward", "float32"),
        ("forward", "float16"),
    ]
    assert check(RIGHT, "--lf", "-k", "vjp", "-x")[2] == FAILED
    assert not [*last_failed.folder().iterdir()]


@pytest.mark.slow
def test_all_rows_of_a_candidate_that_was_not_built(check):
    check(WRONG)
    (file,) = last_failed.folder().iterdir()
    data = json.loads(file.read_text())
    data["failed"] = [["square", "Square", "all", "all", "all"]]
    file.write_text(json.dumps(data))
    assert sorted(check(RIGHT, "--lf")[2]) == sorted(FAILED + REST)
    assert not file.exists()


@pytest.mark.slow
def test_a_name_that_there_is_no_more_hides_nothing(check):
    check(WRONG)
    renamed = RIGHT.replace("Square", "Other")
    code, out, rows = check(renamed, "--lf")
    assert (code, sorted(rows)) == (0, sorted(FAILED + REST))
    assert "nothing of this failed in the last run" in out


def test_what_exitfirst_left_out_has_not_passed(check):
    """A run that stopped at a wrong value has not judged the gradient, which is wrong, too."""
    both = WRONG.replace("return x * x", "return 2 * x * x")
    assert both != WRONG
    assert check(both, "-x")[2] == [("forward", "float64")]
    code, out, rows = check(WRONG, "--last-failed")
    assert code == 1
    assert set(FAILED) <= set(rows)
    assert "All agree" not in out


@pytest.mark.slow
def test_a_row_that_a_cache_does_not_name_has_not_passed(check):
    check(WRONG)
    (file,) = last_failed.folder().iterdir()
    data = json.loads(file.read_text())
    data["failed"] = [["square", "Square", "forward", "float64", "cpu"]]
    file.write_text(json.dumps(data))
    code, out, rows = check(WRONG, "--lf")
    assert (code, rows) == (1, [("forward", "float64"), *FAILED])
    assert "only what failed in the last run, or was not judged, is judged: 3 rows" in out


@pytest.mark.slow
def test_one_of_two_candidates(check):
    both = WRONG.replace("candidate = Square.apply", "candidates = {'product': lambda x: x * x, 'wrong': Square.apply}")
    check(both)
    _, out, rows = check(both, "--lf")
    assert rows == FAILED
    assert "wrong disagrees" in out
    assert check(both, "--lf", "-k", "forward")[2] != []


def test_a_cache_that_cannot_be_read_is_none(case):
    path = Path(case(WRONG))
    source = CaseFile(path)
    last_failed.remember(source, "square", Report({}, not_built=[NotBuilt("mine", "why", expected=False)]))
    assert last_failed.recall(source).failed == {("square", "mine", "all", "all", "all")}
    (file,) = last_failed.folder().iterdir()
    wrong = ("", "[]", '{"failed": [[1]]}', '{"failed": 3}', '{"failed": [[1, 2, 3, 4, 5]]}', '{"failed": [["a"]]}')
    for text in (*wrong, '{"failed": {}}', '{"failed": [["a", "b", "c", "d", null]]}', "[" * 100_000, "\0", "null"):
        file.write_text(text)
        assert last_failed.recall(source) == last_failed.LastRun()
    for data in (b"\xff\xfe\x00", '{"failed": []}'.encode("utf-16")):
        file.write_bytes(data)
        assert last_failed.recall(source) == last_failed.LastRun()


@pytest.mark.slow
@pytest.mark.parametrize("text", ['{"failed": [[1, 2, 3, 4, 5]]}', "[" * 100_000, '{"failed": "x"}'])
def test_a_cache_of_a_wrong_kind_loses_no_verdict(check, text: str):
    assert check(WRONG)[0] == 1
    (file,) = last_failed.folder().iterdir()
    file.write_text(text)
    code, out, rows = check(WRONG, "--last-failed")
    assert (code, sorted(rows)) == (1, sorted(FAILED + REST))
    assert "nothing of this failed in the last run: all of it is judged" in out


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_told_of_whoever_asks(case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setattr(last_failed, "folder", lambda: blocked / "last-failed")
    assert gradparity("check", case(WRONG), *FEW).stderr == ""
    result = gradparity("check", case(WRONG), *FEW, "--lf")
    assert result.exit_code == 1
    assert result.stderr.startswith("gradparity: what failed cannot be kept for the next run: ")


@pytest.mark.slow
def test_in_two_processes(case, tmp_path: Path):
    both = WRONG.replace("candidate = Square.apply", "candidates = {'product': lambda x: x * x, 'wrong': Square.apply}")
    few = ("--only", "forward,vjp", "--dtype", "float64", "--device", "cpu", "--json", str(tmp_path / "report.json"))
    arguments = ["check", case(both), *few, "-j", "2"]
    assert CliRunner().invoke(app, arguments).exit_code == 1
    assert len(judged(tmp_path)) == 4
    result = CliRunner().invoke(app, [*arguments, "--lf"])
    assert result.exit_code == 1
    assert "only what failed in the last run is judged: 1 row\n" in result.stdout
    assert judged(tmp_path) == [("vjp", "float64")]
