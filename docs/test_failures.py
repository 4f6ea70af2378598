"""The gallery of failures shows what gradparity says of its cases today, and a picture of each."""

from __future__ import annotations

import re

import make_failures
import pytest
from accessibility import problems
from make_failures import CASE, DOCS, PAGE, written

TEXT = PAGE.read_text(encoding="utf-8")
NAMES = [case[1] for case in CASE.finditer(TEXT)]


def test_every_case_is_on_the_page():
    assert sorted(NAMES) == sorted(path.stem for path in (DOCS / "failures").glob("*.py"))
    assert 6 <= len(NAMES) <= 10
    assert TEXT.count("```text\n") == len(NAMES)


def test_the_texts_are_what_is_printed_today():
    assert written(TEXT) == TEXT, "python docs/make_failures.py writes the page"


def test_a_text_of_yesterday_would_be_noticed():
    old = TEXT.replace("15/15 entries wrong", "14/15 entries wrong")
    assert old != TEXT
    assert written(old) == TEXT


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_its_code_its_picture_and_its_report_on_the_site(name: str):
    (case,) = (each for each in CASE.finditer(TEXT) if each[1] == name)
    page = make_failures.with_pictures(case[0])
    assert f"```python\n{make_failures.source(name)}```\n\n```text\n{case[2]}```\n\n<div" in page
    assert f'href="{name}.html"' in page
    element = page[page.index("<div") : page.index("<style>")]
    assert 'class="bars"' in element
    assert "\n\n" not in element.strip()  # a block of HTML ends there
    coloured = any(result.heat for failure in make_failures.report(name).failures for result in failure.wrong)
    assert ('class="heat"' in element) is coloured
    assert coloured or name in ("batch", "in_place")
    assert f"failures/{name}.html" in make_failures.pages()


def test_the_picture_is_dark_where_the_site_is():
    (style,) = re.findall(r"<style>.*?</style>", make_failures.with_pictures(""), re.DOTALL)
    assert "[data-md-color-scheme=slate] .gradparity {\n      color-scheme: dark;" in style
    page = '<!doctype html><html lang="en"><head><title>A</title>{}</head><body><h1>A</h1>{}</body></html>'
    element = '<div class="gradparity"><small>pale</small></div>'
    assert not problems(page.format(style, element)).problems


def test_a_case_of_another_command_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(make_failures, "source", lambda name: "# gradparity check other.py --quick --only vjp\n")
    with pytest.raises(ValueError, match=r"must begin with: # gradparity check new\.py"):
        make_failures.report("new")
