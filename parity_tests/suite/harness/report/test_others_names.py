"""Names and messages of others in a report: as Markdown and as a page they are shown, and do nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from parity_tests import Report, Verdict
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.report.html import as_fragment, as_html
from parity_tests.harness.report.junit import as_junit
from parity_tests.harness.report.markdown import as_markdown
from parity_tests.harness.report.results import Failure, Row, Smallest, WrongResult

HOSTILE = {
    "a mention": "@octocat",
    "a mention in a word": "name@octocat",
    "a mention by an entity": "&#64;octocat &commat;octocat",
    "an issue": "#123",
    "an issue of another project": "pytorch/pytorch#123",
    "an issue by letters": "GH-123",
    "an address": "https://example.org/x",
    "another address": "HTTP://example.org and ftp://example.org",
    "an address without a scheme": "www.example.org",
    "a mail": "mailto:somebody@example.org somebody@example.org",
    "a link": "[text](https://example.org)",
    "a picture": "![text](https://example.org/x.png)",
    "an automatic link": "<https://example.org>",
    "HTML": "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "the end of a fold": "</details></summary>",
    "a comment": "<!-- hidden",
    "a cell": "a | b | c",
    "the end of a line": "a\n\n# A heading\n\n- a list",
    "a carriage return": "a\r\n\r\n> quoted",
    "a line separator": "a\u2028# b\u2029c\x85d",
    "backticks": "a `b` ``c`` ```d",
    "a fence": "\n```\n@octocat\n",
    "emphasis": "**a** _b_ ~~c~~",
    "the end of emphasis": "a** b **",
    "mathematics": "$x$ $$y$$",
    "a list": "- a",
    "a numbered list": "1. a",
    "a rule": "---",
    "an underline": "===",
    "backslashes": "\\@octocat \\\\ \\|",
    "reversed": "a\u202eb\u2066c",
    "escape sequences": "a\x1b[31mb\x00c\x07",
    "half a character": "a\ud800b",
    "blanks": "    a",
    "nothing": "",
}
TAGS = {
    "p",
    "h3",
    "strong",
    "code",
    "pre",
    "ul",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
}
_LINKED = re.compile(r"@\w|#\d|GH-\d|://|www\.|mailto:", re.IGNORECASE)


def hostile_report(text: str) -> Report:
    """A report in which every text is this one."""
    wrong = WrongResult(text, text, text, (0, 1), 1.0, 2.0, 1.0, 1e-9, text, text)
    sizes, entries = {text: 2}, {text: text}
    smallest = Smallest({text: 1}, entries, wrong)
    failure = Failure(
        *(text, text, text, "float64", text, text, text, sizes, 0, (wrong,), (text,), text, text, smallest, text),
        *((text,), text, text),
    )
    of_row = (text, text, text, "float64", text)
    rows = [
        Row(*of_row, Verdict.MISMATCH, 7.0, 10, text, failure=failure, conventions=(text,), arithmetic={text: text}),
        Row(*of_row, Verdict.ERROR, 0.0, 0, text),
        Row(*of_row, Verdict.PASS, 0.5, 10, lost_digits=(text,)),
    ]
    return Report({"torch": text, text: text}, rows, [text], [NotBuilt(text, text)], text, catches={text: text})


class Shown(HTMLParser):
    """The tags of a page, its text outside of code, and the number of cells in each line of a table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.cells: list[int] = []
        self._code = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._code += tag in ("code", "pre")
        if tag == "tr":
            self.cells.append(0)
        elif tag in ("td", "th"):
            self.cells[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "pre")

    def handle_data(self, data: str) -> None:
        self.text += "" if self._code else data


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_them_and_does_nothing(name: str):
    text = as_markdown(hostile_report(HOSTILE[name]), {HOSTILE[name]: f"# {HOSTILE[name]}\n"})
    shown = Shown(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    assert shown.tags <= TAGS
    assert shown.attributes <= {"class"}
    assert not _LINKED.search(shown.text)
    assert set(shown.cells) == {7}
    assert shown.text.count("To judge it again") == bool(HOSTILE[name])
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text.split("```")[0])


def test_what_is_interrupted_reads_as_before():
    text = as_markdown(hostile_report("@octocat at https://example.org/#12"))
    shown = Shown(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    assert "@octocat at https://example.org/#12: " in shown.text.replace("\u200b", "")


def test_ordinary_names_are_as_before():
    text = as_markdown(hostile_report("linear_gelu"))
    assert "### linear\\_gelu: linear\\_gelu is suspect in `linear_gelu`" in text
    assert "\u200b" not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_page_shows_them_and_does_nothing(name: str):
    report = hostile_report(HOSTILE[name])
    for page in (as_html(report), as_fragment(report)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)
        shown = Shown(page)
        assert not shown.tags & {"script", "img", "iframe", "link", "object"}
        assert not any(attribute.startswith("on") for attribute in shown.attributes)


def test_a_page_lets_nothing_in_from_elsewhere():
    page = as_html(hostile_report("op"))
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert policy.split("; ") == [
        *("default-src 'none'", "style-src 'unsafe-inline'", "base-uri 'none'", "form-action 'none'")
    ]
    assert page.index("Content-Security-Policy") < page.index("<style>")  # it holds from where it stands
    assert not re.search(r"<script|<link|src=|url\(|@import", page)


@pytest.mark.parametrize("name", HOSTILE)
def test_junit_stays_well_formed(name: str):
    from xml.etree import ElementTree

    report = hostile_report(HOSTILE[name])
    assert len(ElementTree.fromstring(as_junit(replace(report, error=None)).encode()).findall(".//testcase")) == 3
