"""The report as a page: complete, self-contained, well-formed, and safe against the names in it."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.checks.explanations import as_markdown
from parity_tests.harness.report.html import as_fragment, as_html, length, shade
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.suite.harness._ops import SQUARE, unary_function

VOID = {"meta"}


class Page(HTMLParser):
    """Checks that every tag is closed, and collects the text, the tags and the addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_everything_is_there(failed):
    failed.not_built.append(NotBuilt("theirs", "no compiler"))
    text = " ".join(Page(as_html(failed)).text)
    failed.not_built.clear()
    for word in ("square", "mine", "theirs", "not built", "no compiler", "forward", "vjp", "PASS", "MISMATCH", "f32"):
        assert word in text, word
    assert "1/9 entries wrong" in text
    assert "2 of 5 rows do not pass" in text
    assert all(str(key) in text for key in failed.environment)


def test_the_failure_comes_first_and_a_passing_page_says_what_was_tried(failed):
    page = as_html(failed)
    assert page.index("<h2>Failures") < page.index("<h2>Checks") < page.index("<h2>Environment")
    assert "prefers-color-scheme: dark" in page
    assert "prefers-color-scheme" not in as_fragment(failed)  # a notebook has a theme of its own
    passed = crosscheck(torch.square, SQUARE, checks=["forward", "vjp"], dtypes=["float64"])
    text = " ".join(" ".join(Page(as_html(passed)).text).split())
    assert "Tried: 2 checks, in f64; " in text
    assert "largest: " in text


def test_a_check_that_was_skipped_was_not_tried():
    report = crosscheck(torch.square, SQUARE, checks=["forward", "opcheck"], dtypes=["float64"])
    text = " ".join(" ".join(Page(as_html(report)).text).split())
    assert "SKIPPED" in text
    assert "Tried: 1 check, in f64; " in text


def test_the_heat_map_shows_which_entry(failed):
    (wrong,) = failed.failures[0].wrong
    assert wrong.heat is not None
    assert [[ratio > 1 for ratio in line] for line in wrong.heat] == [
        [False, False, False],
        [False, False, True],
        [False, False, False],
    ]
    assert as_html(failed).count(shade(wrong.heat[1][2])) >= 1


def test_a_large_result_is_shown_in_blocks():
    def backward(x, g):
        spoilt = 2 * x * g
        spoilt[-1] += 3
        return spoilt

    wrong = unary_function(lambda x: x * x, backward)
    report = crosscheck(wrong, lambda x: x * x, inputs=(torch.randn(100, 5),), checks=["vjp"], dtypes=["float64"])
    heat = report.failures[0].wrong[0].heat
    assert heat is not None
    assert (len(heat), len(heat[0])) == (48, 5)
    assert [max(line) > 1 for line in heat] == [False] * 47 + [True]


def test_self_contained(failed):
    page = Page(as_html(failed))
    assert {*page.addresses} == {"#failure-1", "#check-1", "#check-2"}  # of the page itself
    assert all(f'id="{address[1:]}"' in as_html(failed) for address in page.addresses)
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "://" not in as_html(failed)


@pytest.mark.usefixtures("shrinking")
def test_the_smallest_input_the_script_and_the_bars_of_a_failure(tmp_path: Path):
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")
    wrong = unary_function(lambda x: x * x, lambda x, g: x * g)
    report = crosscheck(wrong, spec, checks=["vjp"], dtypes=["float64", "float32"], name="mine")
    report.save_failures(tmp_path)
    html = as_html(report)
    (script,) = tmp_path.glob("*.py")
    told = html[html.index("<h2>Failures</h2>") :]
    assert "smallest  n=1, m=1; " in told
    assert f"python {script}" in told
    assert f"gradparity replay {script.with_suffix('.npz')}" in told
    assert told.count('class="bars"') == 1
    assert told.count("<span>f32</span>") == 1
    assert "also in f32" in told
    assert html.startswith("<!doctype html>")


def test_consequences_are_folded():
    wrong = unary_function(lambda x: x * x, lambda x, g: x * g)
    report = crosscheck(wrong, SQUARE, checks=["vjp", "linearity"], dtypes=["float64"], name="mine")
    html = as_html(report)
    folded = html[html.index("<details>") : html.index("</details>")]
    assert "by the same mistake: linearity (f64)" in folded
    text = " ".join("".join(Page(f"<p>{folded}</details></p>").text).split())
    assert "mine: linearity, float64" in text
    assert "mine: vjp, float64" not in text
    addresses = Page(html).addresses
    assert {*addresses} == {"#failure-1", "#failure-2", "#check-1", "#check-2"}
    assert all(f'id="{address[1:]}"' in html for address in addresses)


def test_a_check_leads_to_the_text_of_explain_if_it_fails_and_else_to_a_line(failed):
    html = as_html(failed)
    words = html[html.index("<h2>What the checks catch</h2>") : html.index("<h2>Environment</h2>")]
    passing, folded = words.split("<details>")
    forward, vjp = CHECKS["forward"], CHECKS["vjp"]
    assert f'id="check-1"><b>forward</b>: {escape(forward.catches)}</p>' in passing
    text = " ".join(" ".join(Page(f"<details>{folded}").text).split())
    (_, code, _, fixed, *_) = re.split(r"```(?:python)?\n", as_markdown(vjp))
    assert escape(code.strip(), quote=False) in folded.replace("&#34;", '"').replace("&#39;", "'")
    assert " ".join(fixed.split()) in text
    assert "How to fix it" in text
    assert "`" not in text
    assert html.count('<a href="#check-2">vjp</a>') == 2  # in the table, and in the heading of the failure


@pytest.mark.parametrize("check", ["../../vjp", "no_such_check", "__init__", "a b"])
def test_a_check_of_another_report_of_which_nothing_is_known_is_a_name(check):
    html = as_html(Report({}, [Row("op", "mine", check, "float64", "cpu", Verdict.PASS, 0.25, 3)]))
    assert "What the checks catch" not in html
    assert f">{check}</th>" in html


def test_each_operator_has_a_table():
    rows = [
        Row("first", "mine", "vjp", "float64", "cpu", Verdict.PASS, 0.25, 3),
        Row("second", "mine", "vjp", "float64", "cpu", Verdict.MISMATCH, 77.0, 3),
    ]
    html = as_html(Report({}, rows))
    first, second = html[html.index("<h2>first</h2>") :].split("<h2>second</h2>")
    assert "PASS" in first
    assert "0.25" in first
    assert "MISMATCH" not in first
    assert "77" in second
    assert "PASS" not in second


def test_dtypes_are_named_where_they_differ():
    rows = [Row("op", "mine", "vjp", d, "cpu", Verdict.PASS, 0.25, 3) for d in ("float64", "bfloat16")]
    table = as_html(Report({}, rows))
    assert "0.25 bf16" not in table
    table = as_html(Report({}, [*rows, Row("op", "mine", "vjp", "float16", "cpu", Verdict.SKIPPED, 0.0, 0, "why")]))
    assert "0.25 f64 bf16" in " ".join(table.split())
    assert "SKIPPED</span> <small> f16" in " ".join(table.split())


def test_a_convention_is_marked():
    row = Row("op", "mine", "points", "float64", "cpu", Verdict.PASS, 0.0, 3, conventions=("x_bar is 1, not 0",))
    html = as_html(Report({}, [row]))
    assert "convention</small>" in "".join(line.strip() for line in html.splitlines())
    assert "a convention in points: x_bar is 1, not 0" in html


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a & b", '"quoted"'])
def test_a_name_is_text(name):
    row = Row("op", name, "vjp", "float32", "cpu", Verdict.PASS, 0.5, 3)
    page = Page(as_html(Report({"seed": 0}, [row])))
    assert name in "".join(page.text)
    assert "script" not in page.tags


def test_an_empty_report_is_a_page_too():
    assert "Nothing was judged" in "".join(Page(as_html(Report({}))).text)


def test_infinite_and_certificate_rows():
    rows = [
        Row("op", ORACLE, "vjp", "float64", "cpu", Verdict.PASS, 0.0, 3),
        Row("op", "mine", "vjp", "float16", "cpu", Verdict.MISMATCH, float("inf"), 3),
    ]
    assert "inf" in "".join(Page(as_html(Report({}, rows))).text)


def test_colours_and_bars_tell_the_bound():
    assert length(1) == 50
    assert length(0) == 0 < length(1e-3) < 50 < length(1e3) < length(float("inf")) == 100
    assert shade(0.9).startswith("hsl(215")
    assert shade(1.1).startswith("hsl(0 ")


def test_a_notebook_shows_it(failed):
    text = failed._repr_html_()
    page = Page(text)
    assert page.tags[:2] == ["div", "style"]
    assert not {"html", "head", "body", "title", "script", "link"} & set(page.tags)
    assert "1/9 entries wrong" in "".join(page.text)
    assert as_html(failed).count("1/9 entries wrong") == text.count("1/9 entries wrong")


def test_its_styles_reach_nothing_else_in_the_notebook(failed):
    style = as_fragment(failed).split("<style>")[1].split("</style>")[0].strip()
    assert style.startswith(".gradparity {")
    depth = [0]
    for character in style:
        depth.append(depth[-1] + {"{": 1, "}": -1}.get(character, 0))
    assert depth[-1] == 0
    assert 0 not in depth[style.index("{") + 1 : -1]  # all rules are nested in the first one


def test_the_anchors_of_two_reports_in_one_notebook_differ(failed):
    other = Report({**failed.environment, "seed": 1}, failed.rows, catches=failed.catches)
    mine, theirs = ({*Page(report._repr_html_()).addresses} for report in (failed, other))
    assert len(mine) == len(theirs) == 3
    assert not mine & theirs
    assert all(f'id="{address[1:]}"' in failed._repr_html_() for address in mine)
    assert failed._repr_html_() == failed._repr_html_()


def test_written_whole(failed, tmp_path: Path):
    path = tmp_path / "report.html"
    failed.to_html(path)
    assert path.read_text(encoding="utf-8") == as_html(failed)
    assert [*tmp_path.iterdir()] == [path]
