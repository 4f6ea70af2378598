"""The page of a sweep in a real browser: Chromium opens it, and it is sorted and filtered as it says."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from parity_tests.suite.sweep.test_page import Tree
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.page import as_html
from parity_tests.sweep.results_file import Header, Results

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
LINES = [
    Line("abs", "vjp", "self", "float64", Verdict.AGREES, calls=9),
    Line("abs", "jvp", "result", "float64", Verdict.CONVENTION, calls=10),
    Line("sum", "vjp", "self", "complex128", Verdict.WRONG_IN_JAX, calls=100),
    Line("tan", "jvp", "result", "complex128", Verdict.WRONG_IN_PYTORCH, reason="a branch cut", calls=2),
    Line("_foreach_tan", "vjp", "self", "float64", Verdict.UNREACHED, reason="no call reaches it"),
]
BY_VERDICT = ["tan jvp", "sum vjp", "_foreach_tan vjp", "abs jvp", "abs vjp"]


@functools.cache
def browser() -> str:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs a browser, one of {', '.join(NAMES)}, such as Debian's package chromium")
    return found


class Rows(Tree):
    """The rows that are shown, in their order, as "operator mode"; and what is said of their number."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        of = dict(attrs)
        if tag == "tr" and "data-operator" in of and "hidden" not in of:
            self.rows.append(f"{of['data-operator']} {of['data-mode']}")


def opened(folder: Path, address: str = "", actions: str = "") -> Rows:
    """The page as the browser shows it at an address, after what a script of the reader's does."""
    header = Header.of(["vjp", "jvp"], ["float64", "complex128"], Limits())
    lines: dict[str, list[Line]] = {}
    for line in LINES:
        lines.setdefault(line.operator, []).append(line)
    page = folder / "sweep.html"
    html = as_html(Results(header, lines))
    page.write_text(html.replace("</body>", f"<script>{actions}</script></body>"), encoding="utf-8")
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += ["--virtual-time-budget=2000", "--dump-dom", f"{page.as_uri()}#{address}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    rows = Rows()
    rows.feed(ran.stdout)
    return rows


def click(*columns: str) -> str:
    """A script that clicks on the heads of these columns, one after the other."""
    buttons = 'Array.from(document.querySelectorAll("thead button"))'
    return "".join(f"{buttons}.find(each => each.textContent === '{column}').click();" for column in columns)


def choose(name: str, value: str) -> str:
    """A script that chooses a value of a filter, or types it."""
    field = f'document.querySelector("#filters [name={name}]")'
    return f'{field}.value = "{value}"; {field}.dispatchEvent(new Event("input", {{bubbles: true}}));'


def shown(rows: Rows) -> str:
    (said,) = (text for text in rows.text if re.fullmatch(r"\d+ of \d+ shown", text.strip()))
    return said


@pytest.mark.slow
def test_the_worst_verdicts_come_first(tmp_path: Path) -> None:
    rows = opened(tmp_path)
    assert rows.rows == BY_VERDICT
    assert shown(rows) == "5 of 5 shown"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "order"),
    [
        (["operator"], ["_foreach_tan vjp", "abs jvp", "abs vjp", "sum vjp", "tan jvp"]),
        (["calls"], ["_foreach_tan vjp", "tan jvp", "abs vjp", "abs jvp", "sum vjp"]),  # as numbers
        (["calls", "calls"], ["sum vjp", "abs jvp", "abs vjp", "tan jvp", "_foreach_tan vjp"]),
        (["verdict"], BY_VERDICT[::-1]),
    ],
)
def test_a_click_on_a_head_sorts(tmp_path: Path, columns: list[str], order: list[str]) -> None:
    assert opened(tmp_path, actions=click(*columns)).rows == order


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("verdict", "wrong in JAX", ["sum vjp"]),
        ("family", "reductions", ["sum vjp"]),
        ("mode", "jvp", ["tan jvp", "abs jvp"]),
        ("dtype", "complex128", ["tan jvp", "sum vjp"]),
        ("operator", "ABS", ["abs jvp", "abs vjp"]),
        ("text", "cut branch", ["tan jvp"]),
    ],
)
def test_a_filter_leaves_what_fits(tmp_path: Path, name: str, value: str, left: list[str]) -> None:
    rows = opened(tmp_path, actions=choose(name, value))
    assert rows.rows == left
    assert shown(rows) == f"{len(left)} of 5 shown"


@pytest.mark.slow
def test_the_address_has_what_is_chosen_and_brings_it_back(tmp_path: Path) -> None:
    chosen = choose("mode", "vjp") + click("calls") + "document.title = location.hash;"
    title = next(text for text in opened(tmp_path, actions=chosen).text if text.startswith("#"))
    address = title.removeprefix("#")
    assert address == "mode=vjp&sort=calls"
    assert opened(tmp_path, address).rows == ["_foreach_tan vjp", "abs vjp", "sum vjp"]
    assert opened(tmp_path, f"{address}&down=").rows == ["sum vjp", "abs vjp", "_foreach_tan vjp"]
