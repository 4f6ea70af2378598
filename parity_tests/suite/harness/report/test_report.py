"""The report: as data, as a file, as an exception, as text."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from parity_tests import OpSpec, ParityError, Report, Verdict, crosscheck
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import AS_JAX
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.numbers.digits import apart
from parity_tests.harness.report.results import ORACLE, AllRows, Event, Failure, Note, Row, Smallest, WrongResult
from parity_tests.harness.report.table import SHORT
from parity_tests.harness.report.text import as_text, explanations, grouped_failures
from parity_tests.suite.harness._ops import SQUARE, unary_function

WRONG = unary_function(lambda x: x * x, lambda x, g: x * g)


def row(verdict: Verdict = Verdict.PASS, candidate: str = "mine", **fields) -> Row:
    return Row("op", candidate, "vjp", "float32", "cpu", verdict, 0.5, 3, **fields)


def report_of(*rows: Row, **fields) -> Report:
    return Report({"seed": 0}, list(rows), **fields)


@pytest.fixture(scope="module")
def failed() -> Report:
    return crosscheck(
        WRONG, SQUARE, checks=["forward", "vjp", "vjp_of_vjp"], dtypes=["float64", "float32"], name="mine"
    )


@pytest.fixture(scope="module")
def passed() -> Report:
    return crosscheck(torch.square, SQUARE, checks=["forward", "vjp"])


def test_schema_1(failed):
    data = failed.as_dict()
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


def test_the_environment_says_what_a_verdict_depends_on(failed):
    environment = failed.environment
    keys = {"gradparity", "python", "jax", "torch", "numpy", "platform", "devices", "settings", "seed", "date"}
    assert keys <= set(environment)
    assert environment["torch"] == torch.__version__
    assert environment["settings"]["jax_enable_x64"] is True


def test_json_is_strict_and_is_the_same_data(failed, tmp_path):
    def refuse(constant):
        raise AssertionError(constant)

    path = tmp_path / "report.json"
    failed.to_json(path)
    data = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert data == failed.as_dict()
    assert path.read_text(encoding="utf-8").endswith("}\n")


def test_back_from_data(failed):
    failed.skipped.append("an axis")
    failed.not_built.append(NotBuilt("theirs", "no compiler"))
    back = Report.from_dict(json.loads(json.dumps(failed.as_dict())))
    assert back.as_dict() == failed.as_dict()
    assert back.rows == failed.rows
    failed.skipped.clear()
    failed.not_built.clear()


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


LISTED = row(Verdict.UNSUPPORTED, listed=True, reason="a limit")
CERTIFICATE = row(candidate=ORACLE)
SKIPPED = row(Verdict.SKIPPED, reason="not an operator")


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


def test_raise_if_failed_says_what_print_says(failed):
    with pytest.raises(ParityError) as error:
        failed.raise_if_failed()
    assert str(error.value) == str(failed)
    assert isinstance(error.value, AssertionError)


def test_the_text_of_a_failure(failed):
    text = str(failed)
    told = text[text.index("square: mine disagrees") :].splitlines()
    assert told[0] == "square: mine disagrees with the oracle   [vjp, given, float64, cpu, seed 0]"
    assert told[1].startswith("  x_bar  9/9 entries wrong; worst (")
    assert "): candidate " in told[1]
    assert ", oracle " in told[1]
    assert told[2].startswith("      error ")
    assert ", allowed " in told[2]
    assert told[3:7] == [
        "  looks like  x_bar = 0.5 * oracle",
        "  witness Taylor rate in float64: oracle 2.00, candidate 1.00 -> the oracle is right",
        "  also in f32",
        '  replay  the same call with checks=["vjp"], dtypes=["float64"], device="cpu"',
    ]


def test_what_follows_from_a_failure_is_told_in_a_line(failed):
    text = str(failed)
    assert text.count("disagrees with") == 1
    assert "square: mine also fails, probably by the same mistake: vjp_of_vjp (f64 f32)" in text
    assert text.rstrip().splitlines()[-2].startswith("4 of 8 rows do not pass, ")


def failing(check: str, dtype: str, error: float | None = 1.0) -> Row:
    wrong = WrongResult("x_bar", "1/1 entries wrong", error=error, allowed=1e-3)
    failure = Failure("op", "mine", check, dtype, "cpu", "given", "why", {}, 0, (wrong,))
    return Row("op", "mine", check, dtype, "cpu", Verdict.MISMATCH, 2.0, 3, failure=failure)


def order_of(*rows: Row) -> tuple[list[list[tuple[str, str]]], list[list[tuple[str, str]]]]:
    causes, consequences = grouped_failures(report_of(*rows).failures)
    places = [[[(f.check, SHORT[f.dtype]) for f in group] for group in groups] for groups in (causes, consequences)]
    return places[0], places[1]


def test_a_failure_hides_those_that_follow_from_it_in_its_format_and_in_narrower_ones():
    rows = [failing("vjp", "float32"), *(failing("vjp_of_vjp", dtype) for dtype in ("float32", "float16"))]
    causes, consequences = order_of(*rows)
    assert causes == [[("vjp", "f32")]]
    assert consequences == [[("vjp_of_vjp", "f32"), ("vjp_of_vjp", "f16")]]


@pytest.mark.parametrize(
    ("narrow", "other"), [("float16", "float64"), ("float16", "bfloat16"), ("complex64", "float64")]
)
def test_a_failure_in_a_wider_format_is_never_hidden(narrow, other):
    causes, consequences = order_of(failing("vjp", narrow), failing("vjp_of_vjp", narrow), failing("vjp_of_vjp", other))
    assert [group[0] for group in causes] == [("vjp", SHORT[narrow]), ("vjp_of_vjp", SHORT[other])]
    assert consequences == []


def test_the_simplest_the_widest_the_worst_first():
    causes, consequences = order_of(
        failing("points", "float64"),
        failing("vjp", "float16", error=9.0),
        failing("vjp", "bfloat16", error=1.0),
        failing("jvp", "bfloat16", error=2.0),
        failing("jvp", "float32"),
        failing("forward", "float16"),
    )
    assert causes == [
        [("forward", "f16")],
        [("jvp", "f32"), ("jvp", "bf16")],
        [("vjp", "bf16"), ("vjp", "f16")],
        [("points", "f64")],
    ]
    assert consequences == []


def test_the_equation_the_sizes_and_the_agreement_are_told():
    equations = {"x_bar": "equation (4)", "vjp_of_vjp/y_bar": "equation (5)", "points/x_bar": "equation (6)"}
    spec = OpSpec("op", primal=lambda x, y: x * y, signature="(n),(n)->(n)", equations=equations)

    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, *cotangents):
            x, y = ctx.saved_tensors
            return y * cotangents[0] / 2, x * cotangents[0]

    text = str(crosscheck(Half.apply, spec, checks=["vjp"], dtypes=["float32"], seed=7))
    assert "op: Half disagrees with the oracle   [vjp, all_axes_differ (n=4), float32, cpu, seed 7]" in text
    assert "; equation (4)\n" in text
    assert "\n  agrees  y_bar (" in text


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ((1.0, 2.5), ("+1", "+2.5")),
        ((1.0000001, 1.0), ("+1.0000001", "+1.0000000")),
        ((1.0, 1.0 + 2**-52), ("+1.0000000000000000", "+1.0000000000000002")),
        ((1e-7, 1.00000001e-7), ("+1.00000000e-07", "+1.00000001e-07")),
        ((1 + 1j, 1 + 1.0000001j), ("+1.0000000+1.0000000j", "+1.0000000+1.0000001j")),
        ((1.0, 1.0), ("+1", "+1")),
        ((float("inf"), 1.0), ("+inf", "+1")),
        ((None, 1.0), ("+nan", "+1")),
    ],
    ids=str,
)
def test_two_numbers_differ_on_paper(numbers, texts):
    assert apart(*numbers) == texts


def test_the_worst_entry_in_as_many_digits_as_it_takes():
    wrong = WrongResult("x_bar", "1/1", index=(0,), candidate=1.00000001, oracle=1.0, error=1e-8, allowed=1e-15)
    failure = Failure("op", "mine", "vjp", "float64", "cpu", "given", "why", {}, 0, (wrong,))
    smallest = dataclasses.replace(failure, smallest=Smallest({}, {"x": "[1]"}, wrong))
    assert (
        str(report_of(row(Verdict.MISMATCH, failure=smallest))).count("candidate +1.00000001, oracle +1.00000000") == 2
    )


def test_the_table(passed):
    text = str(passed)
    assert text.splitlines()[0].strip() == "square"
    assert [line.split()[1] for line in text.splitlines() if line.startswith("│")] == ["forward", "vjp"]
    assert text.count("PASS") == 3
    assert "All agree: 8 rows, 72 comparisons" in text


def test_each_operator_has_a_table_of_its_own():
    """Even if their candidates have one name: a mistake in one is not seen in the table of the other."""
    of_cube = dataclasses.replace(row(Verdict.MISMATCH), op="cube")
    text = str(report_of(row(), of_cube))
    square, cube = text.split("\ncube ", 1)
    assert square.splitlines()[0].strip() == row().op
    assert "PASS" in square
    assert "MISMATCH" not in square
    assert "MISMATCH" in cube
    assert "PASS" not in cube


@pytest.mark.parametrize(
    ("report", "line"),
    [
        pytest.param(report_of(), "Nothing was judged", id="nothing"),
        pytest.param(report_of(row(), error="interrupted"), "Could not judge: interrupted", id="ended early"),
        pytest.param(report_of(row(), LISTED), "All agree: 1 rows, 6 comparisons, 1 listed limit", id="limits"),
        pytest.param(
            report_of(row(), dataclasses.replace(LISTED, declared=True)),
            "All agree: 1 rows, 6 comparisons, 1 known limit",
            id="what the author declares",
        ),
        pytest.param(report_of(row(Verdict.ERROR)), "1 of 1 rows do not pass, 3 comparisons", id="error"),
    ],
)
def test_the_verdict_is_told_in_a_line(report, line):
    assert str(report).rstrip().splitlines()[-2 if report.rows else -1] == line


def test_the_last_line_says_how_long_it_took():
    slow, fast = (dataclasses.replace(row(), check=check, seconds=s) for check, s in (("vjp", 2.0), ("forward", 0.25)))
    assert str(report_of(slow, fast)).splitlines()[-1] == "2.2 s: vjp 2.0 s, forward 0.2 s"


def test_reasons_and_what_was_skipped_are_told():
    text = str(report_of(row(), LISTED, row(Verdict.UNRESOLVED, reason="no rule"), skipped=["device cuda: none"]))
    assert "mine, vjp, f32: UNSUPPORTED, as listed: a limit\n" in text
    declared = dataclasses.replace(LISTED, declared=True)
    assert "mine, vjp, f32: UNSUPPORTED, a known limit: a limit\n" in str(report_of(row(), declared))
    assert "mine, vjp, f32: UNRESOLVED: no rule\n" in text
    assert "skipped: device cuda: none\n" in text


@pytest.mark.parametrize(("expected", "code"), [(True, 0), (False, 2)])
def test_who_is_not_built_has_a_column_and_a_reason(expected, code):
    missing = NotBuilt("fast_kernel", "no compiler: get one", expected)
    plan = Plan(
        SQUARE,
        [Candidate(torch.square, "mine"), missing],
        select_checks(["forward"]),
        select_precisions(["float64"]),
        "cpu",
        seed=0,
        replay=lambda row: "",
    )
    report = Report({})
    assert len(list(report.collect(judge(plan)))) == plan.length == 1
    assert report.not_built == [missing]
    text = as_text(report)
    header, line = text.split("┡")[0], next(line for line in text.splitlines() if "forward" in line)
    assert "kernel" in header
    assert "not built" in line
    assert "fast_kernel, not built: no compiler: get one\n" in text
    assert report.as_dict()["not_built"] == [dataclasses.asdict(missing)]
    assert (report.passed, report.exit_code) == (expected, code)
    last = text.splitlines()[-2]
    assert last.startswith("All agree: 1 rows") if expected else last == "fast_kernel should have been judged"


def test_a_format_is_named_once_for_several_operators():
    of_one = [row(Verdict.UNSUPPORTED, reason="why"), row(Verdict.UNSUPPORTED, reason="why", candidate="other")]
    also = [dataclasses.replace(each, op="another") for each in of_one]
    wide = dataclasses.replace(of_one[1], check="forward", dtype="float64")
    text = as_text(report_of(*of_one, *also, wide))
    assert "\nmine, vjp, f32: UNSUPPORTED: why\n" in text
    assert "\nother, vjp (f32), forward (f64): UNSUPPORTED: why\n" in text


def test_who_should_have_been_judged_is_named_once_with_the_operator():
    """A candidate that the machine cannot build is not among them."""
    broken = [NotBuilt("impl", reason, expected=False, op=op) for op in ("add", "mul") for reason in ("why", "also")]
    report = report_of(row(), not_built=[NotBuilt("fast_kernel", "no compiler"), *broken])
    assert as_text(report).splitlines()[-2] == "add, impl; mul, impl should have been judged"


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [(["SKIPPED"], "SKIPPED"), (["SKIPPED", "UNSUPPORTED", "SKIPPED"], "SKIPPED or UNSUPPORTED")],
)
def test_rows_that_judge_nothing(verdicts, told):
    rows = [row(Verdict(verdict), listed=verdict == "UNSUPPORTED") for verdict in verdicts]
    report = report_of(*(dataclasses.replace(each, check="forward") for each in rows))
    assert (report.passed, report.exit_code) == (False, 2)
    assert as_text(report).splitlines()[-2] == f"Nothing was judged: each row is {told}"


def test_nobody_built_is_nothing_judged():
    report = report_of(not_built=[NotBuilt("fast_kernel", "no compiler")])
    assert report.exit_code == 2
    assert as_text(report).splitlines()[-1] == "Nothing was judged"


@pytest.mark.parametrize("width", [20, 80, 120])
def test_every_width(failed, passed, width):
    for report in (failed, passed, report_of(), report_of(row(Verdict.MISMATCH), LISTED)):
        text = as_text(report, width)
        table = [line for line in text.splitlines() if line.startswith(("│", "┃", "┏", "└"))]
        assert all(len(line) <= width for line in table)


@pytest.mark.parametrize("name", ["[bold]mine[/bold]", "f[n]", "[/]"])
def test_a_name_is_not_taken_for_markup(name):
    text = as_text(report_of(row(candidate=name, verdict=Verdict.ERROR, reason=f"{name} failed")))
    assert text.count(name) == 3  # the column, and the reason


def test_checks_and_formats_of_one_reason_share_a_line():
    others = [dataclasses.replace(SKIPPED, check=check) for check in ("jvp", "leaks")]
    half = dataclasses.replace(SKIPPED, dtype="float16")
    assert "mine, vjp, f32 f16: SKIPPED: not an operator" in as_text(report_of(row(), SKIPPED, half))
    assert "mine, vjp, jvp, leaks: SKIPPED: not an operator" in as_text(report_of(row(), SKIPPED, half, *others))
    refused = [dataclasses.replace(a, verdict=Verdict.UNSUPPORTED) for a in (SKIPPED, *others)]
    assert "mine, vjp, jvp, leaks, f32: UNSUPPORTED: not an operator\n" in as_text(report_of(*refused))
    refused.append(dataclasses.replace(refused[0], dtype="float16"))
    assert "mine, vjp (f32 f16), jvp (f32), leaks (f32): UNSUPPORTED: not an operator\n" in as_text(report_of(*refused))


def test_a_table_of_many_candidates_fits_80_columns():
    names = ["oracle", "attn_composite", "attn_function", "attn_native_implicit", "attn_native", "engine_a", "engine_b"]
    verdicts = [*[Verdict.PASS] * 5, Verdict.SKIPPED, Verdict.UNSUPPORTED]
    rows = [
        dataclasses.replace(row(verdict), candidate=name, check="saved_tensors")
        for name, verdict in zip(names, verdicts, strict=True)
    ]
    lines = [line for line in as_text(report_of(*rows), width=80).splitlines() if ":" not in line]
    assert max(map(len, lines)) <= 80
    words = " ".join(lines).split()
    assert {"SKIPPED", "UNSUPPORTED", "composite", "function", "implicit"} <= {*words}
    assert words.count("PASS") == words.count("0.50") == 5
    assert words.count("check") == 2  # a part below the other
    assert as_text(report_of(*rows), width=120).count("check") == 1


def test_a_check_that_applies_to_no_candidate_has_no_line_in_the_table():
    other = dataclasses.replace(SKIPPED, check="layouts")
    text = as_text(report_of(row(), other))
    assert [line.split()[1] for line in text.splitlines() if line.startswith("│")] == ["vjp"]
    assert "mine, layouts, f32: SKIPPED: not an operator" in text
    assert "│ layouts" in as_text(report_of(other))  # or there were no table


def test_a_line_is_for_all_candidates_of_which_it_is_true():
    lost = {"lost_digits": ("x_bar loses 3 of 24 bits; the problem forces 0" + AS_JAX,), "arithmetic": {"y": "exact"}}
    names = ("a", "b", "c")
    rows = [
        made for name in names for made in (row(candidate=name, **lost), dataclasses.replace(SKIPPED, candidate=name))
    ]
    whole = [text.plain for text in explanations(report_of(*rows))]
    assert [line.partition(",")[0] for line in whole] == ["all 3 candidates"] * 3
    brief = [text.plain for text in explanations(report_of(*rows), brief=True)]
    assert brief == [
        "all 3 candidates: digits are lost where JAX loses them, too (-v shows where)",
        "not applicable (-v says why): vjp",
    ]
    two = [text.plain for text in explanations(report_of(*rows[:4], row(candidate="c")))]
    assert [line.partition(", vjp")[0].partition(", f32")[0] for line in two] == ["a, b"] * 3


def test_the_failure_is_below_all_reasons_and_the_verdict_is_below_it(failed):
    lines = as_text(Report(failed.environment, [*failed.rows, LISTED], skipped=["an axis"])).splitlines()
    reason, skipped, failure, verdict = (
        min(i for i, line in enumerate(lines) if text in line)
        for text in (", as listed: ", "skipped: an axis", "mine disagrees", "do not pass")
    )
    assert reason < skipped < failure < verdict == len(lines) - 2
