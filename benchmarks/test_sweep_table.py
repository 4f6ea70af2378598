"""The table of a whole sweep counts what the file has."""

from __future__ import annotations

import json

from benchmarks.sweep_table import data, page, reached
from parity_tests.sweep.lines import Finding, Line, Verdict
from parity_tests.sweep.results_file import Header, Results

FINDING = Finding("x = [1.]", (0,), "1.0", "2.0", "2", "by hand")
LINES = {
    "sin": [Line("sin", "vjp", "self", "float64", Verdict.AGREES, calls=3, seconds=2.0)],
    "hypot": [
        Line("hypot", "vjp", "self", "float64", Verdict.AGREES, seconds=1.0),
        Line("hypot", "vjp_of_vjp", "self", "float64", Verdict.WRONG_IN_JAX, 2, finding=FINDING, seconds=1.0),
    ],
    "lift": [Line("lift", "vjp", "self", "float64", Verdict.UNREACHED, reason="no call reaches it")],
}
HEADER = Header(
    {"torch": "2.13.0", "jax": "0.10.2"}, {"modes": ["vjp"]}, {"date": "2026-11-25T01:02:03", "python": "3"}
)


def test_the_page_counts_verdicts_and_names_who_is_wrong():
    text = page(Results(HEADER, LINES), "By hand.")
    assert reached(Results(HEADER, LINES)) == 2
    assert "3 operators, 4 derivatives; 2 operators" in text
    assert "4 s of CPU time. By hand." in text
    assert "| agrees | 2 | 2 |" in text
    assert "## Wrong in JAX\n\n| operator | modes |\n|---|---|\n| `hypot` | vjp_of_vjp |\n" in text
    assert "## Wrong in PyTorch\n\nNone.\n" in text
    assert "| no call of it has such numbers: float64 | 1 |" in text


def test_the_data_have_what_differs_only():
    (line,) = json.loads(data(Results(HEADER, LINES)))["lines"]
    assert (line["operator"], line["finding"]["right"]) == ("hypot", "2")
    assert "seconds" not in line
