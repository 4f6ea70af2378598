"""Planted mistakes in formulas: what is counted, what the page says, and how a run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import sweep_mutants
from benchmarks.sweep_mutants import CONVICTED, Mutant, mutants_of, share, summary
from parity_tests.sweep.guard import WHOLE, Limits
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.mutant_judgement import CHANGES_NOTHING, STOPS, SURVIVES
from parity_tests.sweep.results_file import ResultsFile

SIGN, CONJ, DIM = "sign: self = -grad", "dropped conj: self = grad", "wrong dim: self = f(grad, 0)"


def line(of: str, dtype: str, verdict: Verdict = Verdict.AGREES, reason: str = "", operator: str = "tanh") -> Line:
    return Line(operator, "vjp", of, dtype, verdict, reason=reason, seconds=0.5)


LINES = [
    line(SIGN, "float64", Verdict.WRONG_IN_PYTORCH),
    line(CONJ, "float64", reason=CHANGES_NOTHING),
    line(CONJ, "complex128", Verdict.WRONG_IN_BOTH),
    line(DIM, "float64", Verdict.UNREACHED, f"{SURVIVES}: no reference"),
    line(DIM, "complex128", reason=STOPS),
    line(WHOLE, "float64", Verdict.UNREACHED, "crashed (SIGSEGV)", "cos"),
]


def test_of_two_dtypes_the_one_counts_that_convicts_and_then_the_one_that_changes_a_value():
    found = mutants_of(LINES)
    assert [(m.kind, m.text, m.outcome) for m in found] == [
        ("sign", "self = -grad", CONVICTED),
        ("dropped conj", "self = grad", CONVICTED),
        ("wrong dim", "self = f(grad, 0)", SURVIVES),
    ]
    assert found[2].reason == f"float64: cannot be reached, {SURVIVES}: no reference"
    assert [m.reached for m in found] == [True, True, False]
    assert share(found) == (2, 3)
    assert "3 of them change a value; 2 of these are convicted: 66.7 %." in summary(found)
    assert "Of derivatives that the sweep reaches, 2 of 2: 100.0 %." in summary(found)


def test_an_unknown_outcome_is_an_error():
    with pytest.raises(StopIteration):
        mutants_of([line(SIGN, "float64", reason="something new")])


def test_jax_wrong_is_no_conviction():
    (mutant,) = mutants_of([line(SIGN, "float64", Verdict.WRONG_IN_JAX, f"{SURVIVES}: of the reference")])
    assert mutant.outcome == SURVIVES


def test_a_run_goes_on_and_writes_what_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def run(
        operators: Sequence[str], file: ResultsFile, executor: Executor, judge: str, limits: Limits
    ) -> Iterator[tuple[str, list[Line]]]:
        for operator in operators:
            if operator not in file.lines:
                asked.append(operator)
                mine = [line(each.of, each.dtype, each.verdict, each.reason, operator) for each in LINES[:5]]
                file.append(operator, mine)
                yield operator, mine

    monkeypatch.setattr(sweep_mutants, "run", run)
    file, out = tmp_path / "a.jsonl", tmp_path / "a.json"
    command = ["--resume", str(file), "--out", str(out)]
    assert CliRunner().invoke(sweep_mutants.app, ["tanh", *command]).exit_code == 1  # the bar is missed
    assert CliRunner().invoke(sweep_mutants.app, ["tanh", "sin", *command]).exit_code == 1
    assert asked == ["tanh", "sin"]
    data = json.loads(out.read_text(encoding="utf-8"))
    assert {Mutant(**each).text for each in data["mutants"]} == {"self = f(grad, 0)"}
    assert data["kinds"]["sign"] == {CONVICTED: 2}
    page = out.with_suffix(".md").read_text(encoding="utf-8")
    assert "| sign | 2 | 2 | 100.0 % | 0 | 0 | 0 | 0 |" in page
    assert f"2, float64: cannot be reached, {SURVIVES}: no reference:\n\n- `sin`, vjp, wrong dim: " in page


def test_an_unknown_operator_is_refused():
    result = CliRunner().invoke(sweep_mutants.app, ["tanhh"])
    assert result.exit_code == 2
    assert "no entry for 'tanhh'" in result.output
