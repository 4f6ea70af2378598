"""The report: as data, as a file, as an exception."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from parity_tests import ParityError, Report, Verdict
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.report.results import ORACLE, AllRows, Event, Failure, Note, WrongResult
from parity_tests.suite.harness.report._rows import CERTIFICATE, LISTED, SKIPPED, report_of, row


def test_schema_1(halved):
    data = halved.as_dict()
    assert data["schema"] == 1
    assert {"schema", "passed", "environment", "rows", "failures"} <= set(data)
    assert data["passed"] is False
    fields = {"op", "candidate", "check", "dtype", "device", "verdict", "error_over_bound", "comparisons", "reason"}
    for i, item in enumerate(data["rows"]):
        assert fields <= set(item)
        assert item["verdict"] in {"PASS", "MISMATCH", "UNRESOLVED", "UNSUPPORTED", "ERROR", "SKIPPED"}
        assert isinstance(item["comparisons"], int)
        found = item["verdict"] == "MISMATCH"
        assert item["failure"] == (sum(r["verdict"] == "MISMATCH" for r in data["rows"][:i]) if found else None)
    assert {item["candidate"] for item in data["rows"]} == {ORACLE, "mine"}
    failure = data["failures"][0]
    assert (failure["op"], failure["candidate"], failure["check"]) == ("square", "mine", "vjp")
    assert failure["wrong"][0]["looks_like"] == "x_bar = 0.5 * oracle"


def test_the_environment_says_what_a_verdict_depends_on(halved):
    environment = halved.environment
    keys = {"gradparity", "python", "jax", "torch", "numpy", "platform", "devices", "settings", "seed", "date"}
    assert keys <= set(environment)
    assert environment["torch"] == torch.__version__
    assert environment["settings"]["jax_enable_x64"] is True


def test_json_is_strict_and_is_the_same_data(halved, tmp_path):
    def refuse(constant):
        raise AssertionError(constant)

    path = tmp_path / "report.json"
    halved.to_json(path)
    data = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert data == halved.as_dict()
    assert path.read_text(encoding="utf-8").endswith("}\n")


def test_back_from_data(halved):
    halved.skipped.append("an axis")
    halved.not_built.append(NotBuilt("theirs", "no compiler"))
    back = Report.from_dict(json.loads(json.dumps(halved.as_dict())))
    assert back.as_dict() == halved.as_dict()
    assert back.rows == halved.rows
    halved.skipped.clear()
    halved.not_built.clear()


def test_merged():
    one, two = report_of(row(), skipped=["a"]), report_of(row(Verdict.MISMATCH), skipped=["a", "b"], error="stopped")
    merged = Report.merged([one, two])
    assert [r.verdict for r in merged.rows] == [Verdict.PASS, Verdict.MISMATCH]
    assert (merged.skipped, merged.error, merged.passed) == (["a", "b"], "stopped", False)
    assert Report.merged([]).exit_code == 2


def test_what_is_known_at_the_end_is_added_however_the_events_end():
    """Of themselves, by an exception, or because nobody takes any more of them."""
    first, second = row(candidate="first"), row(candidate="second")
    closed: list[str] = []

    def events(error: type[Exception] | None = None) -> Iterator[Event | None]:
        try:
            yield first
            yield None
            yield Note("a sample")
            if error is not None:
                raise error
            yield second
        finally:
            closed.append("events")

    def remaining() -> Iterator[Event]:
        assert closed.pop() == "events"  # which have ended by now
        yield AllRows((second, first))
        yield Note("a sample")
        yield Note("where it was")

    whole, interrupted, stopped = (Report({}) for _ in range(3))
    assert list(whole.collect(events(), remaining)) == [first, None, second]
    rows = interrupted.collect(events(), remaining)
    assert next(rows) is first
    assert (interrupted.rows, interrupted.skipped) == ([first], [])
    rows.close()
    with pytest.raises(ZeroDivisionError):
        list(stopped.collect(events(ZeroDivisionError), remaining))
    assert whole.skipped == stopped.skipped == interrupted.skipped == ["a sample", "where it was"]
    assert whole.rows == stopped.rows == interrupted.rows == [second, first]


def test_rows_of_one_name_keep_their_own_failures():
    failures = [
        Failure("op", "mine", "vjp", "float32", "cpu", sample, "why", {"n": 1}, 0, (WrongResult("x_bar", "wrong"),))
        for sample in ("first", "second")
    ]
    reports = [report_of(row()), *(report_of(row(Verdict.MISMATCH, failure=failure)) for failure in failures)]
    merged = Report.merged(reports)
    assert [r.failure for r in Report.from_dict(merged.as_dict()).rows] == [None, *failures]


def test_what_is_not_finite_becomes_null(tmp_path):
    wrong = WrongResult("x_bar", "1/1 entries wrong", index=(0,), candidate=float("nan"), error=float("inf"))
    failure = Failure("op", "mine", "vjp", "float32", "cpu", "given", "why", {"n": 1}, 0, (wrong,))
    worst = dataclasses.replace(row(Verdict.MISMATCH, failure=failure), error_over_bound=float("inf"))
    path = tmp_path / "report.json"
    report_of(worst).to_json(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["rows"][0]["error_over_bound"] is None
    (result,) = data["failures"][0]["wrong"]
    assert (result["candidate"], result["error"], result["index"]) == (None, None, [0])
    assert not {"NaN", "Infinity"} & set(path.read_text(encoding="utf-8").replace(",", " ").split())


def test_to_json_accepts_a_string_and_replaces_the_old_file(passed, tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    passed.to_json(str(path))
    assert json.loads(path.read_text(encoding="utf-8"))["passed"] is True
    assert os.listdir(tmp_path) == ["report.json"]


@pytest.mark.parametrize("where", ["write", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(passed, tmp_path, monkeypatch, where):
    path = tmp_path / "report.json"
    path.write_text("old")

    def fail(*args, **kwargs):
        if where == "write":
            with args[0].open("w") as file:
                file.write("{")
        raise OSError("no space left on device")

    monkeypatch.setattr(*((Path, "write_bytes") if where == "write" else (os, "replace")), fail)
    with pytest.raises(OSError, match="no space left"):
        passed.to_json(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]


def test_to_json_gives_the_permissions_of_any_new_file(passed, tmp_path):
    """A report is read by others than its writer: by a CI job, a web server."""
    (tmp_path / "plain").write_text("")
    passed.to_json(tmp_path / "report.json")
    modes = [Path(tmp_path / name).stat().st_mode & 0o777 for name in ("plain", "report.json")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize(
    ("report", "code"),
    [
        pytest.param(report_of(row()), 0, id="pass"),
        pytest.param(report_of(CERTIFICATE, row(), LISTED), 0, id="pass with a listed limit"),
        pytest.param(report_of(row(), SKIPPED), 0, id="pass, and a check that does not apply"),
        pytest.param(report_of(SKIPPED), 2, id="no check applies"),
        pytest.param(report_of(row(), row(Verdict.MISMATCH)), 1, id="mismatch"),
        pytest.param(report_of(row(), row(Verdict.UNSUPPORTED)), 1, id="a limit that is not listed"),
        pytest.param(report_of(row(Verdict.MISMATCH), row(Verdict.UNRESOLVED)), 1, id="a mismatch and an unresolved"),
        pytest.param(report_of(row(), row(Verdict.UNRESOLVED)), 2, id="unresolved"),
        pytest.param(report_of(row(), row(Verdict.ERROR)), 2, id="error"),
        pytest.param(report_of(row(Verdict.MISMATCH, ORACLE), row()), 2, id="no certificate"),
        pytest.param(report_of(), 2, id="nothing"),
        pytest.param(report_of(CERTIFICATE), 2, id="the oracle alone"),
        pytest.param(report_of(LISTED), 2, id="limits alone"),
        pytest.param(report_of(row(), error="interrupted"), 2, id="ended early"),
        pytest.param(report_of(row(Verdict.MISMATCH), error="interrupted"), 1, id="ended early after a mismatch"),
    ],
)
def test_exit_codes(report, code):
    assert report.exit_code == code
    assert report.passed is (code == 0)
    if code:
        with pytest.raises(ParityError):
            report.raise_if_failed()
    else:
        report.raise_if_failed()


def test_raise_if_failed_says_the_first_failure_and_what_print_says(halved):
    with pytest.raises(ParityError) as error:
        halved.raise_if_failed()
    first, blank, *rest = str(error.value).split("\n")
    assert (first.partition(": ")[0], blank) == (halved.failed[0].check, "")
    assert "entries wrong" in first
    assert "\n".join(rest) == str(halved)
    assert f"{type(error.value).__module__}.{type(error.value).__qualname__}" == "gradparity.ParityError"
    assert isinstance(error.value, AssertionError)
