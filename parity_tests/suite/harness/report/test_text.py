"""The report as text: the table, the failures, reasons and the verdict."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import AS_JAX
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.numbers.digits import apart
from parity_tests.harness.report.results import Failure, Row, Smallest, WrongResult
from parity_tests.harness.report.table import SHORT
from parity_tests.harness.report.text import as_text, explanations, grouped_failures
from parity_tests.suite.harness._ops import SQUARE
from parity_tests.suite.harness.report._rows import LISTED, SKIPPED, report_of, row


def test_the_text_of_a_failure(halved):
    text = str(halved)
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


def test_what_follows_from_a_failure_is_told_in_a_line(halved):
    text = str(halved)
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
def test_every_width(halved, passed, width):
    for report in (halved, passed, report_of(), report_of(row(Verdict.MISMATCH), LISTED)):
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


def test_the_failure_is_below_all_reasons_and_the_verdict_is_below_it(halved):
    lines = as_text(Report(halved.environment, [*halved.rows, LISTED], skipped=["an axis"])).splitlines()
    reason, skipped, failure, verdict = (
        min(i for i, line in enumerate(lines) if text in line)
        for text in (", as listed: ", "skipped: an axis", "mine disagrees", "do not pass")
    )
    assert reason < skipped < failure < verdict == len(lines) - 2
