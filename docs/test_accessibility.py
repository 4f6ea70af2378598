"""The pages that people read break no rule; and a page that breaks one is told by the rule's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from accessibility import SCREENS, problems
from styles import Colour, Screen, Sheets, contrast

from parity_tests import Report, crosscheck
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.html import as_fragment, as_html
from parity_tests.harness.report.results import Row
from parity_tests.suite.harness._ops import SQUARE, unary_function
from parity_tests.sweep import page as sweep_page
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import Line
from parity_tests.sweep.lines import Verdict as SweepVerdict
from parity_tests.sweep.results_file import Header, Results

HEAD = "<title>A page</title><style>{style}</style>"
PAGE = f'<!doctype html><html lang="en"><head>{HEAD}</head><body>{{body}}</body></html>'
GOOD = '<h1>One</h1><h2>Two</h2><p>See <a href="#x">there</a>.</p><img src="a.png" alt="a graph"><h3>Three</h3>'


def rules(body: str, style: str = "", page: str = PAGE) -> set[str]:
    page = page.replace("{style}", style).replace("{body}", body)
    return {problem.rule for problem in problems(page).problems}


def test_a_good_page_has_no_problem():
    looked = problems(PAGE.format(style="", body=GOOD))
    assert not looked.problems
    assert looked.texts == 2 * 5  # on two screens
    assert looked.undecided == 0


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        ("image-alt", GOOD.replace(' alt="a graph"', "")),
        ("heading-order", GOOD.replace("<h2>Two</h2>", "")),
        ("page-has-heading-one", GOOD.replace("h1>", "p>")),
        ("page-has-heading-one", GOOD + "<h1>Two of them</h1>"),
        ("empty-heading", GOOD + "<h3><span></span></h3>"),
        ("link-name", GOOD.replace("there</a>", "</a>")),
        ("link-name", GOOD.replace("there</a>", '<img src="b.png" alt=""></a>')),
        ("button-name", GOOD + "<button><svg></svg></button>"),
        ("label", GOOD + '<label></label><input name="q" placeholder="a hint is no name">'),
        ("aria-dialog-name", GOOD + '<div role="dialog"><input aria-label="q"></div>'),
        ("role-img-alt", GOOD + '<div role="img"><i></i></div>'),
        ("empty-table-header", GOOD + "<table><tr><th></th><th>b</th></tr></table>"),
        ("duplicate-id", GOOD + '<p id="a">1</p><p id="a">2</p>'),
        ("frame-title", GOOD + '<iframe src="a.html"></iframe>'),
        ("color-contrast", GOOD + '<p style="color: #bbb">pale grey on white</p>'),
    ],
)
def test_a_mistake_is_told_by_its_rule(rule: str, body: str):
    assert rules(body) == {rule}


@pytest.mark.parametrize(
    ("rule", "page"),
    [("html-has-lang", PAGE.replace(' lang="en"', "")), ("document-title", PAGE.replace("A page", ""))],
)
def test_a_mistake_of_the_whole_page(rule: str, page: str):
    assert rules(GOOD, page=page) == {rule}


@pytest.mark.parametrize(
    "style",
    [
        "h2 { color: #aaa }",
        "body { background: #888 }",
        ":root { --pale: #aaa } h2 { color: var(--pale) }",
        "h2 { color: var(--nosuch, rgb(170 170 170)) }",
        "body { h2 { color: #aaa } }",
        "h2 { opacity: 40% } body { & > h2 { opacity: .4 } }",
        "@media (prefers-color-scheme: dark) { body { background: #222 } }",
        "@media (max-width: 100em) { @media screen { h2 { color: hsl(0 0% 67%) } } }",
        "h2 { color: #aaa !important } body h2 { color: #000 }",
        "h1 + h2 { color: #aaa } h2 { color: #000 }",
        "h2 { font-size: 12px; color: #888 }",
        "p { color: #000 } p a { color: #222; text-decoration: none } a:hover { text-decoration: underline }",
    ],
)
def test_what_a_stylesheet_makes_hard_to_read(style: str):
    assert rules(GOOD, style) in ({"color-contrast"}, {"link-in-text-block"})


@pytest.mark.parametrize(
    "style",
    [
        "h2 { color: #888 }",  # 24 pixels and bold: 3.5 is enough
        "h2 { display: none; color: #fff } h3 { visibility: hidden; color: #fff } img { opacity: 0 } h1 { opacity: 0 }",
        "h2:hover { color: #fff } h2::before { color: #fff } @media print { h2 { color: #fff } }",
        "h2 { color: #fff; background: #000 } h2 { color: #fff }",
        ".nosuch h2 { color: #fff } @media not screen { h2 { color: #fff } }",
        "h2 { color: #fff } h2 { color: #000 } body { color: #fff; color: #000 }",
    ],
)
def test_what_may_be_so(style: str):
    hidden = style.startswith("h2 { display")
    assert rules(GOOD, style) <= ({"heading-order"} if hidden else set())


def test_a_text_before_a_picture_is_undecided():
    looked = problems(PAGE.format(style="body { background: url(a.png) }", body=GOOD))
    assert (looked.undecided, looked.texts) == (10, 10)


def test_the_numbers_are_those_of_wcag():
    assert contrast(Colour(0, 0, 0), Colour(1, 1, 1)) == pytest.approx(21)
    assert contrast(Colour(1, 1, 1), Colour(*[0x76 / 255] * 3)) == pytest.approx(4.54, abs=0.005)  # WCAG's own example
    assert Colour(0, 0, 0, 0.5).over(Colour(1, 1, 1)) == Colour(128 / 255, 128 / 255, 128 / 255)
    assert Screen().fits("screen and (min-width: 60em)")
    assert not Screen().fits("(hover), print")


JUPYTER = """<style>:root { --text: rgba(255, 255, 255, .87); --page: #111 } body { background: var(--page) }
.common { color: var(--text) } .common pre, .common h1, .common td { color: var(--text); background-color: var(--page) }
.common tbody tr:nth-child(odd) { background: #111 } .common tbody tr:nth-child(even) { background: #222 }</style>
<div class="common">{report}</div>"""


def report() -> Report:
    """A report with everything that a page of it may have."""

    def backward(x, g):
        spoilt = 2 * x * g
        spoilt[1, 2] += 3
        return spoilt

    found = crosscheck(unary_function(lambda x: x * x, backward), SQUARE, checks=["forward", "vjp", "linearity"])
    rows = [Row("square", f"of {v}", "forward", "float64", "cpu", v, 2.0, 3, "why") for v in Verdict]
    return Report(found.environment, found.rows + rows, ["a note"], [NotBuilt("theirs", "no compiler")])


def test_the_report():
    whole = report()
    assert any(failure.wrong[0].heat for failure in whole.failures)
    looked = problems(as_html(whole))
    assert not looked.problems
    assert looked.texts > 100
    in_notebook = JUPYTER.replace("{report}", as_fragment(whole))
    assert rules(in_notebook) == set()
    assert rules(in_notebook.replace("color: inherit; background: none;", "")) == {"color-contrast"}


def test_the_page_of_the_sweep():
    header = Header.of(["vjp", "jvp"], ["float64"], Limits())
    lines = {f"op{i}": [Line(f"op{i}", "vjp", "self", "float64", v, reason="why")] for i, v in enumerate(SweepVerdict)}
    looked = problems(sweep_page.as_html(Results(header, lines)))
    assert not looked.problems
    assert looked.texts > 50


def test_nothing_of_the_stylesheets_is_passed_over():
    """A selector that cssselect2 does not know would be a rule that nobody looks at."""
    theme = Path(pytest.importorskip("material").__file__).parent / "templates/assets/stylesheets"
    texts = [path.read_text(encoding="utf-8") for path in sorted(theme.glob("*.min.css"))]
    texts.append(Path(__file__).with_name("site.css").read_text(encoding="utf-8"))
    assert len(texts) == 3
    refused = {selector for screen in SCREENS for selector in Sheets(texts, screen).refused}
    of_browsers = ("::", ":-", ":valid")  # parts and states that only a browser knows
    assert [selector for selector in refused if not any(part in selector for part in of_browsers)] == []
