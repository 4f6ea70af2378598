"""Files that somebody else has written: each is read as data, or told in a line that names it; nothing is half done.

What is read is not trusted: a wrong kind of value, a tree a hundred thousand levels deep, binary, half a character.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.harness.data_files import Malformed, built, field, parsed_json, read_json
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Failure, Row, Smallest, WrongResult

pytestmark = pytest.mark.usefixtures("wide")

DEEP = "[" * 100_000
FORMS = ("json", "html", "markdown", "junit")


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of a message is one line here."""
    monkeypatch.setenv("COLUMNS", "1000")


def gradparity(*args: object):
    """The command, in whose output a defect would be an exception."""
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


def a_report() -> dict[str, Any]:
    """The JSON of a report with a failure that has everything."""
    wrong = WrongResult("x_bar", "all wrong", "", (0, 1), 1.0, 2.0, 1.0, 1e-9, "2 * oracle", "(4)", ((1.0, 2.0),), None)
    smallest = Smallest({"n": 1}, {"x": "1"}, wrong)
    of_row = ("op", "mine", "vjp", "float64", "cpu")
    failure = Failure(*of_row, "small", "why", {"n": 2}, 0, (wrong,), ("y",), "Taylor", "replay", smallest)
    passing = Row("op", "mine", "forward", "float64", "cpu", Verdict.PASS, 0.5, 10)
    failing = Row(*of_row, Verdict.MISMATCH, 7.0, 10, failure=failure)
    report = Report({"torch": "2.13"}, [passing, failing], seconds={"total": 1.0}, catches={"vjp": "a sign"})
    return json.loads(report.as_json())


def changed(*path: str | int, to: Any) -> Callable[[], str]:
    """The report with another value at one place."""

    def make() -> str:
        data = a_report()
        at: Any = data
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = to
        return json.dumps(data)

    return make


def without(*path: str | int) -> Callable[[], str]:
    """The report without one place."""

    def make() -> str:
        data = a_report()
        at: Any = data
        for step in path[:-1]:
            at = at[step]
        del at[path[-1]]
        return json.dumps(data)

    return make


def failures_left_out() -> str:
    """The report of a run that did not pass, without what failed."""
    data = a_report()
    return json.dumps(data | {"rows": data["rows"][:1], "failures": []})


WRONG: tuple[str | int, ...] = ("failures", 0, "wrong", 0)
HOSTILE_REPORTS: dict[str, tuple[Callable[[], str | bytes], str]] = {
    "empty": (lambda: "", "no JSON at line 1"),
    "half": (lambda: json.dumps(a_report())[:300], "no JSON at line 1"),
    "a list": (lambda: "[]", "must be an object, and is []"),
    "null": (lambda: "null", "must be an object, and is null"),
    "a number": (lambda: "3", "must be an object, and is 3"),
    "text": (lambda: '"text"', "must be an object, and is 'text'"),
    "binary": (lambda: bytes(range(256)) * 10, "no text in UTF-8 at byte 128"),
    "UTF-16": (lambda: json.dumps(a_report()).encode("utf-16"), "no text in UTF-8 at byte 0"),
    "NUL": (lambda: json.dumps(a_report()) + "\0", "no JSON at line 1"),
    "NUL in front": (lambda: "\0" + json.dumps(a_report()), "no JSON at line 1"),
    "deep lists": (lambda: DEEP, "nested too deeply"),
    "deep lists, closed": (lambda: DEEP + "]" * len(DEEP), "nested too deeply"),
    "deep objects": (lambda: '{"a":' * 100_000, "nested too deeply"),
    "deep below the reader's limit": (lambda: "[" * 500 + "]" * 500, "nested in more than 64 levels"),
    "a deep environment": (
        changed("environment", to={"torch": json.loads("[" * 90 + "]" * 90)}),
        "more than 64 levels",
    ),
    "a number of 5000 digits": (lambda: '{"schema": ' + "9" * 5000 + "}", "Exceeds the limit"),
    "no schema": (without("schema"), "schema is missing"),
    "another schema": (changed("schema", to=7), "a report of schema 7, and this version reads 1"),
    "a schema of text": (changed("schema", to="x" * 1000), "a report of schema xxxxxxxxxxxxxxxxxxxx, and"),
    "no rows": (without("rows"), "rows is missing"),
    "rows: an object": (changed("rows", to={}), "rows must be a list, and is {}"),
    "rows: text": (changed("rows", to="rows"), "rows must be a list, and is 'rows'"),
    "rows: null": (changed("rows", to=None), "rows must be a list, and is null"),
    "a row that is a number": (changed("rows", 1, to=3), "rows[1] must be an object, and is 3"),
    "a row that is a list": (changed("rows", 1, to=[]), "rows[1] must be an object, and is []"),
    "op: 3": (changed("rows", 0, "op", to=3), "rows[0].op must be text, and is 3"),
    "op: null": (changed("rows", 0, "op", to=None), "rows[0].op must be text, and is null"),
    "op: a list": (changed("rows", 0, "op", to=["op"]), "rows[0].op must be text, and is ['op']"),
    "no op": (without("rows", 0, "op"), "rows[0].op is missing"),
    "candidate: an object": (changed("rows", 0, "candidate", to={}), "rows[0].candidate must be text"),
    "check: true": (changed("rows", 0, "check", to=True), "rows[0].check must be text, and is True"),
    "dtype: float3": (changed("rows", 0, "dtype", to="float3"), "rows[0].dtype must be one of float64, float32"),
    "device: 0": (changed("rows", 0, "device", to=0), "rows[0].device must be text, and is 0"),
    "verdict: GOOD": (changed("rows", 0, "verdict", to="GOOD"), "rows[0].verdict must be one of PASS"),
    "verdict: a list": (changed("rows", 0, "verdict", to=["PASS"]), "rows[0].verdict must be one of PASS"),
    "error: text": (changed("rows", 0, "error_over_bound", to="0.5"), "rows[0].error_over_bound must be a number"),
    "error: true": (changed("rows", 0, "error_over_bound", to=True), "must be a number, and is True"),
    "error: 10**400": (changed("rows", 0, "error_over_bound", to=10**400), "rows[0].error_over_bound must be a number"),
    "comparisons: 1.5": (changed("rows", 0, "comparisons", to=1.5), "rows[0].comparisons must be a whole number"),
    "comparisons: text": (changed("rows", 0, "comparisons", to="10"), "rows[0].comparisons must be a whole number"),
    "reason: a list": (changed("rows", 0, "reason", to=[]), "rows[0].reason must be text"),
    "listed: 1": (changed("rows", 0, "listed", to=1), "rows[0].listed must be true or false, and is 1"),
    "seconds: x": (changed("rows", 0, "seconds", to="x"), "rows[0].seconds must be a number, and is 'x'"),
    "conventions: text": (changed("rows", 0, "conventions", to="abc"), "rows[0].conventions must be a list"),
    "conventions of numbers": (changed("rows", 0, "conventions", to=[1]), "rows[0].conventions[0] must be text"),
    "arithmetic: a list": (changed("rows", 0, "arithmetic", to=[]), "rows[0].arithmetic must be an object"),
    "arithmetic of numbers": (changed("rows", 0, "arithmetic", to={"y": 1}), 'rows[0].arithmetic["y"] must be text'),
    "failure: 9": (changed("rows", 1, "failure", to=9), "rows[1].failure must be one of the 1 failures, and is 9"),
    "failure: -1": (changed("rows", 1, "failure", to=-1), "rows[1].failure must be one of the 1 failures"),
    "failure: text": (changed("rows", 1, "failure", to="0"), "rows[1].failure must be a whole number"),
    "failures: null": (changed("failures", to=None), "failures must be a list, and is null"),
    "failures: numbers": (changed("failures", to=[1]), "failures[0] must be an object"),
    "wrong: text": (changed("failures", 0, "wrong", to="x"), "failures[0].wrong must be a list"),
    "wrong: nothing": (
        changed("failures", 0, "wrong", to=[]),
        "failures[0].wrong must be a list of one result or more",
    ),
    "sizes: a list": (changed("failures", 0, "sizes", to=[1]), "failures[0].sizes must be an object, and is [1]"),
    "sizes of text": (changed("failures", 0, "sizes", to={"n": "x"}), 'failures[0].sizes["n"] must be a whole number'),
    "seed: text": (changed("failures", 0, "seed", to="0"), "failures[0].seed must be a whole number"),
    "agrees: a number": (changed("failures", 0, "agrees", to=3), "failures[0].agrees must be a list"),
    "judge: a list": (changed("failures", 0, "judge", to=[]), "failures[0].judge must be text"),
    "smallest: text": (changed("failures", 0, "smallest", to="x"), "failures[0].smallest must be an object"),
    "smallest without": (changed("failures", 0, "smallest", to={}), "failures[0].smallest.sizes is missing"),
    "a format of a failure": (changed("failures", 0, "dtype", to="float3"), "failures[0].dtype must be one of"),
    "label: null": (changed(*WRONG, "label", to=None), "failures[0].wrong[0].label must be text"),
    "index: text": (changed(*WRONG, "index", to="x"), "failures[0].wrong[0].index must be a list"),
    "index of text": (changed(*WRONG, "index", to=["x"]), "failures[0].wrong[0].index[0] must be a whole number"),
    "a pair of three": (changed(*WRONG, "candidate", to=[1, 2, 3]), "wrong[0].candidate must be a number or a pair"),
    "a pair of text": (changed(*WRONG, "candidate", to=["x", 1]), "wrong[0].candidate[0] must be a number"),
    "heat: text": (changed(*WRONG, "heat", to="hot"), "failures[0].wrong[0].heat must be a list"),
    "heat of text": (changed(*WRONG, "heat", to=[["x"]]), "failures[0].wrong[0].heat[0][0] must be a number"),
    "heat: rows of numbers": (changed(*WRONG, "heat", to=[1.0]), "failures[0].wrong[0].heat[0] must be a list"),
    "heat: ragged": (changed(*WRONG, "heat", to=[[1.0], [1.0, 2.0]]), "heat must be rows of one length"),
    "heat: empty": (changed(*WRONG, "heat", to=[]), "heat must be rows of one length"),
    "histogram of pairs": (changed(*WRONG, "histogram", to=[[1, 2]]), "histogram[0] must be a list of 3"),
    "environment: a list": (changed("environment", to=[]), "environment must be an object, and is []"),
    "environment: text": (changed("environment", to="x"), "environment must be an object"),
    "skipped: text": (changed("skipped", to="abc"), "skipped must be a list"),
    "skipped: numbers": (changed("skipped", to=[1]), "skipped[0] must be text"),
    "not_built: text": (changed("not_built", to=["x"]), "not_built[0] must be an object"),
    "not_built without a reason": (changed("not_built", to=[{"name": "x"}]), "not_built[0].reason is missing"),
    "error of a run: a list": (changed("error", to=[]), "error must be text"),
    "seconds of a run: a list": (changed("seconds", to=[]), "seconds must be an object"),
    "seconds of a run: text": (changed("seconds", to={"total": "x"}), 'seconds["total"] must be a number'),
    "catches: numbers": (changed("catches", to={"vjp": 1}), 'catches["vjp"] must be text'),
    "a pass of a negative count": (changed("rows", 0, "comparisons", to=-5), "rows[0].comparisons must be 1 or more"),
    "no time": (
        changed("rows", 0, "seconds", to=float("nan")),
        "rows[0].seconds must be a number from 0 on, and is nan",
    ),
    "a pass of no number": (changed("rows", 0, "error_over_bound", to=None), "must be a number from 0 to 1"),
    "a pass that is not finite": (
        changed("rows", 0, "error_over_bound", to=float("nan")),
        "rows[0].error_over_bound must be a number from 0 to 1 in a row that passes, and is nan",
    ),
    "passed: text": (changed("passed", to="yes"), "passed must be true or false, and is 'yes'"),
    "passed: no number": (changed("passed", to=float("nan")), "passed must be true or false, and is nan"),
    "no word on whether it passed": (without("passed"), "passed is missing"),
    "a report without what failed": (
        failures_left_out,
        "says that it did not pass, and no row of it fails: rows are missing",
    ),
    "allow_suspect: text": (changed("allow_suspect", to="no"), "allow_suspect must be true or false"),
}


@pytest.mark.parametrize("name", HOSTILE_REPORTS)
def test_a_report_of_a_wrong_kind_is_told_in_a_line_and_nothing_is_written(name: str, tmp_path: Path):
    make, says = HOSTILE_REPORTS[name]
    content, path = make(), tmp_path / "hostile.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    forms = [part for form in FORMS for part in (f"--{form}", tmp_path / f"out.{form}")]
    result = gradparity("report", path, *forms)
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert str(path) in line
    assert says in line
    assert result.stdout == ""
    assert sorted(tmp_path.iterdir()) == [path]


def test_there_are_many():
    assert len(HOSTILE_REPORTS) > 60


ODD_REPORTS: dict[str, Callable[[], str]] = {
    "as it is": lambda: json.dumps(a_report()),
    "a field that no version has": changed("rows", 0, "future", to={"a": [1]}),
    "an environment of anything": changed("environment", to={"torch": [1, {"a": None}], "\ud800": None, "seed": 1e999}),
    "half a character": changed("rows", 0, "op", to="\ud800"),
    "control characters": changed("rows", 0, "candidate", to="a\x1b[31m\u202eb\x00\n| c |"),
    "a negative count": changed("rows", 1, "comparisons", to=-5),
    "no number": changed("rows", 1, "error_over_bound", to=None),
    "a check that is not ours": changed("rows", 0, "check", to="theirs"),
    "a number that is not finite": changed("rows", 1, "error_over_bound", to=float("nan")),
    "a heat map of infinities": changed(*WRONG, "heat", to=[[None, None]]),
    "no index": changed(*WRONG, "index", to=None),
    "nothing is there": changed("rows", to=[]),
}


@pytest.mark.parametrize("name", ODD_REPORTS)
def test_an_odd_report_is_shown_in_every_form(name: str, tmp_path: Path):
    path = tmp_path / "odd.json"
    path.write_text(ODD_REPORTS[name]())
    forms = [part for form in FORMS for part in (f"--{form}", tmp_path / f"out.{form}")]
    result = gradparity("report", path, *forms)
    assert result.exit_code == (2 if name == "nothing is there" else 1), result.output
    assert len(list(tmp_path.iterdir())) == 1 + len(FORMS)
    for text in [result.output, *((tmp_path / f"out.{form}").read_text() for form in ("html", "markdown"))]:
        assert "\x1b[31m" not in text
        assert "\u202e" not in text


def test_reports_are_read_before_anything_is_written(tmp_path: Path):
    """Of two reports the second is no report: the first is not written either."""
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps(a_report()))
    two.write_text(changed("rows", 0, "op", to=3)())
    result = gradparity("report", one, two, "--html", tmp_path / "out.html")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{two}: not a report" in result.stderr
    assert not (tmp_path / "out.html").exists()


HEADER = {"kind": "results of gradparity sweep", "schema": 1, "versions": {"torch": "2"}, "options": {}}
LINE = {"operator": "sin", "mode": "vjp", "of": "self", "dtype": "float64", "verdict": "agrees"}
RESULT = {"operator": "sin", "lines": [LINE]}


def lines(*values: Any) -> str:
    """JSON in lines, as a sweep writes its results."""
    return "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)


HOSTILE_RESULTS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is no file of results of a sweep"),
    "deep": (DEEP + "\n", "is no file of results of a sweep"),
    "binary": (b"\xff\xfe\x00\n", "is no file of results of a sweep"),
    "a list": (lines([]), "is no file of results of a sweep"),
    "versions: a list": (lines(HEADER | {"versions": []}), "versions must be an object"),
    "versions of numbers": (lines(HEADER | {"versions": {"torch": 2}}), 'versions["torch"] must be text'),
    "another kind": (lines(HEADER | {"kind": "x"}), "it is of another kind"),
    "a deep line": (lines(HEADER, DEEP), ":2 is no result of a sweep"),
    "a line that is a number": (lines(HEADER, 3), ":2 is no result of a sweep: it must be an object, and is 3"),
    "operator: 3": (lines(HEADER, RESULT | {"operator": 3}), "operator must be text, and is 3"),
    "lines: text": (lines(HEADER, RESULT | {"lines": "x"}), "lines must be a list"),
    "a line of a wrong kind": (lines(HEADER, RESULT | {"lines": [LINE | {"calls": "x"}]}), "lines[0].calls must be a"),
    "a verdict": (
        lines(HEADER, RESULT | {"lines": [LINE | {"verdict": "x"}]}),
        "lines[0].verdict must be one of agrees",
    ),
    "seconds": (lines(HEADER, RESULT | {"lines": [LINE | {"seconds": "x"}]}), "lines[0].seconds must be a number"),
    "a finding": (lines(HEADER, RESULT | {"lines": [LINE | {"finding": [1]}]}), "lines[0].finding must be an object"),
    "twice": (lines(HEADER, RESULT, RESULT), ":3 has sin again"),
}


@pytest.mark.parametrize("name", HOSTILE_RESULTS)
def test_results_of_a_sweep_of_a_wrong_kind(name: str, tmp_path: Path):
    content, says = HOSTILE_RESULTS[name]
    path = tmp_path / "hostile.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    result = gradparity("merge", path, "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 2
    (line,) = result.output.strip().splitlines()
    assert str(path) in line
    assert says in line
    assert not (tmp_path / "out.jsonl").exists()


EXPECTED = {"schema": 2, "kind": "expected discrepancies of gradparity sweep", "versions": {}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (DEEP, "is no file of results of a sweep"),
        (json.dumps(EXPECTED), "verdicts is missing"),
        (json.dumps(EXPECTED | {"verdicts": []}), "verdicts must be an object"),
        (json.dumps(EXPECTED | {"verdicts": {"sin": {"fine": []}}}), "must be one of agrees"),
        (json.dumps(EXPECTED | {"verdicts": {"sin": {"overflows": "x"}}}), "must be a list"),
        (json.dumps(EXPECTED | {"verdicts": {"sin": {"overflows": ["x"]}}}), 'must be of "mode of dtype"'),
        (json.dumps({"kind": "table of gradparity sweep", "lines": 3}), "lines must be a list"),
    ],
)
def test_a_table_or_expected_discrepancies_of_a_wrong_kind(content: str, says: str, tmp_path: Path):
    path, right = tmp_path / "hostile.json", tmp_path / "right.jsonl"
    path.write_text(content)
    right.write_text(lines(HEADER, RESULT))
    result = gradparity("sweep", "--compare", right, path)
    assert result.exit_code == 2
    (line,) = result.output.strip().splitlines()
    assert str(path) in line
    assert says in line


TANH = "- name: tanh(Tensor self) -> Tensor\n"
HOSTILE_YAML: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", ":1: must be a list of entries"),
    "UTF-16": ((TANH + "  self: grad\n").encode("utf-16"), "no text in UTF-8: invalid start byte at byte 0"),
    "binary": (b"\x80\x04\x95" * 100, "no text in UTF-8"),
    "NUL": (TANH + "  self: gr\0ad\n", "not YAML: unacceptable character"),
    "deep": (DEEP, "in more than 10 levels"),
    "an alias": (TANH + "  self: &a grad\n- *a\n", "an alias (`*name`) is not read"),
    "an alias of itself": ("&a [*a]", "an alias (`*name`) is not read"),
    "two documents": (TANH + "  self: grad\n---\n" + TANH, "not YAML"),
    "an object of Python": (TANH + "  self: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
    "a name that is a list": ("- {[a]: b}\n", "with names of text"),
    "too many entries": ("".join(f"- {{name: a{i}}}\n" for i in range(5001)), "more than 5,000 entries"),
    "too many bytes": (TANH + "  self: grad\n" + "#" * 2**22, "has more than 4,194,304 bytes"),
    "a number for a formula": (TANH + "  self: 3\n", "the formula of self must be text"),
    "binary for a formula": (TANH + "  self: !!binary aGVsbG8=\n", "the formula of self must be text"),
    "brackets": (TANH + f"  self: {'(' * 5000}grad{')' * 5000}\n", "at most 40 brackets"),
    "signs": (TANH + f"  self: {'-' * 3000}grad\n", "at most 40 brackets, signs"),
    "a sum": (TANH + f"  self: {'+'.join(['grad'] * 3000)}\n", "at most 150 operators or calls in a row"),
    "conditions": (TANH + f"  self: '{'grad ? ' * 500}'\n", "at most 40 brackets, signs and conditions"),
    "a bracket in a schema": (f"- name: {'(' * 5000}\n", "no operator has this schema"),
    "a file": (TANH + '  self: grad + 0 * at::from_file("x", true, 4).zero_().sum()\n', "at::from_file is refused"),
    "a print": (TANH + '  self: at::_print("x")\n', "at::_print is refused"),
    "a file in a branch": (
        TANH + '  self: "true ? grad : at::from_file(\\"x\\", true, 4)"\n',
        "at::from_file is refused",
    ),
    "a file in a condition": (
        TANH + "  self: grad\n  output_differentiability: ['!at::from_file(\"x\", true, 4)']\n",
        "at::from_file is refused",
    ),
    "a large vector": (TANH + "  self: std::vector<int64_t>(99999999999, 1)\n", "a vector of 99,999,999,999 items"),
    "text times a number": (TANH + "  self: '\"aaaa\" * 99999999999'\n", "text is no number"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE_YAML)
def test_formulas_of_a_wrong_kind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content, says = HOSTILE_YAML[name]
    path = tmp_path / "hostile.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    result = gradparity("formula", path)
    assert result.exit_code == 2, result.output
    assert str(path) in result.output
    assert says in result.output
    assert list(tmp_path.iterdir()) == [path]


def test_a_case_with_a_null_byte_is_told_without_a_line(tmp_path: Path):
    path = tmp_path / "case.py"
    path.write_bytes(b"x = 1\n\0")
    result = gradparity("check", path, "--no-isolate")
    assert result.exit_code == 2
    assert f"{path}: SyntaxError: source code string cannot contain null bytes" in result.stderr


# The reader itself.


def test_what_a_value_must_be_is_told_with_its_place():
    with pytest.raises(Malformed, match=r"^rows\[3\]\.seconds must be a number, and is 'x'$"):
        built(Row, {**a_report()["rows"][0], "seconds": "x"}, "rows[3]")
    with pytest.raises(Malformed, match=r"^a\.b is missing$"):
        field({}, "b", int, "a")
    with pytest.raises(Malformed, match=r"^it must be an object, and is 3$"):
        field(3, "b", int)


def test_a_report_is_read_as_it_was_written():
    data = a_report()
    assert json.loads(Report.from_dict(copy.deepcopy(data)).as_json()) == data


def test_what_is_no_number_in_json_comes_back_as_infinity():
    assert built(float, None) == float("inf")
    assert built(float | None, None) is None
    assert built(complex, [None, 1]) == complex(float("inf"), 1)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, True), (int, 1.0), (float, True), (str, 1), (bool, 1), (tuple[int, ...], (1,)), (int, None)],
)
def test_kinds_are_not_mixed_up(kind: type, value: Any):
    with pytest.raises(Malformed):
        built(kind, value)


def test_a_file_that_is_larger_than_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("parity_tests.harness.data_files.LARGEST_FILE", 10)
    (tmp_path / "x.json").write_text("[" + " " * 20 + "]")
    with pytest.raises(Malformed, match="has more than 10 bytes"):
        read_json(tmp_path / "x.json", "a file")
    assert parsed_json("[]", "x", "a file") == []
