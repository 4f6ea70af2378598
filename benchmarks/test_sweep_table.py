"""The table of a whole sweep counts what the file has."""

from __future__ import annotations

import json

from benchmarks.sweep_table import data, inductor_page, jit_page, page, reached
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


COMPILED = {
    "sin": [
        Line("sin", "inductor", "self", "float64", Verdict.AGREES, reason="code was generated"),
        Line("sin", "inductor", "result", "float64", Verdict.LOSES_DIGITS, reason="code was generated; a | b"),
    ],
    "mm": [Line("mm", "inductor", "self", "float64", Verdict.AGREES, reason="only PyTorch's kernels are called")],
    "put": [
        Line("put", "inductor", "self", "float64", Verdict.AGREES, reason="compiled, a call raises KeyError: 1; 2")
    ],
    "lift": [Line("lift", "inductor", "self", "float64", Verdict.UNREACHED, reason="no call reaches it")],
}


def test_the_page_of_compiled_code_says_of_how_many_operators_code_was_generated():
    header = Header(HEADER.versions, {"modes": ["inductor"], "dtypes": ["float64"]}, HEADER.environment)
    text = inductor_page(Results(header, COMPILED), "By hand.")
    assert "of 4 operators 3 are judged. Of 1 of these code was generated" in text
    assert "of 1 the compiled function only calls PyTorch's kernels" in text
    assert "## Loses digits\n\n| operator | of | reason |\n|---|---|---|\n| `sin` | result |" in text
    assert "a \\| b |" in text
    assert "| `put` | KeyError: 1 |" in text


def test_the_page_of_jit_has_its_mode_and_its_reasons():
    lines = {
        "sin": [Line("sin", "jit", "self", "float64", Verdict.AGREES)],
        "acosh": [Line("acosh", "jit", "self", "float64", Verdict.WRONG_IN_JAX, reason="op by op")],
        "lift": [Line("lift", "jit", "self", "float64", Verdict.UNREACHED, reason="no call reaches it")],
    }
    header = Header(HEADER.versions, {"modes": ["jit"], "dtypes": ["float64"]}, HEADER.environment)
    text = jit_page(Results(header, lines), "By hand.")
    assert "`gradparity sweep --mode jit`, float64: of 3 operators 2 are judged.\n" in text
    assert "`sweep_jit.json`" in text
    assert "## Wrong in JAX\n\n| operator | of | reason |\n|---|---|---|\n| `acosh` | self | op by op |" in text
    assert "raises an error" not in text
