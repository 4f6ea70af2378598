"""No mistake is proved that changes a number at the inputs of the proof, and the page counts those that do not."""

from __future__ import annotations

import os
import signal
import time

import pytest

from benchmarks import proof_mutants
from benchmarks.proof_mutants import Child, Outcome, page
from benchmarks.proofs import formulas


def mistakes(name: str) -> Outcome:
    with Child() as child:
        return child.mistakes(name, formulas()[name])


@pytest.mark.slow
def test_what_changes_a_number_is_accused() -> None:
    found = mistakes("elu")
    assert (found.verdicts, found.proved) == ({"MISMATCH": 3}, [])


@pytest.mark.slow
def test_what_is_right_at_its_inputs_is_proved_and_told() -> None:
    """At a sample with one axis the first axis is the one that `dim` names."""
    found = mistakes("sum.dim_IntList")
    assert found.verdicts["PROVED"] == len(found.proved) > 0
    assert all("result" in one["mistake"] or "{0}" in one["mistake"] for one in found.proved)


def _at_its_end(name: str, i: int) -> tuple[str, str]:
    if i == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    while i == 1:
        time.sleep(1)
    return "MISMATCH", ""


@pytest.mark.slow
def test_one_that_crashes_and_one_that_never_ends_cost_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_mutants, "judge_mistake", _at_its_end)
    monkeypatch.setattr(proof_mutants, "_LONGEST", 20)
    assert mistakes("elu").verdicts == {"CRASH": 1, "NO END": 1, "MISMATCH": 1}


def test_the_page_counts_what_the_sweep_convicts_elsewhere() -> None:
    def proved(sweep: str) -> dict[str, str]:
        return {"mistake": "wrong dim: self = f({0})", "where": "a sample of (3,)", "sweep": sweep}

    stamped = ("2026-11-28T00:00:00", "abc", "Python", 2.0)
    found = {
        "sum": Outcome(*stamped, {"MISMATCH": 2, "PROVED": 2}, [proved("convicted"), proved("changes no value")]),
        "sin": Outcome(*stamped, {"MISMATCH": 1}),
    }
    text = page(found, [*found, "cos"])
    assert "5 mistakes in 2 of 3 entries: 3 MISMATCH, 2 PROVED. Of the PROVED the sweep convicts 1" in text
    assert "| `sum` | wrong dim: self = f({0}) | a sample of (3,) | convicted |" in text
