"""The sweep of MLX: that it catches mistakes, and what it says of them."""

from __future__ import annotations

import os

import pytest

from benchmarks.mlx_sweep import found, run
from benchmarks.mlx_sweep.command import campaign
from benchmarks.mlx_sweep.page import failed_rows, sections_of, unexplained, verdict
from benchmarks.mlx_sweep.run import Outcome, judged

MISSING = "needs MLX: pip install 'gradparity[mlx]'"


def failing(check: str) -> Outcome:
    row = {"check": check, "dtype": "float32", "verdict": "MISMATCH", "reason": "", "wrong": ["x_bar"]}
    return Outcome("add", rows={"MISMATCH": 1}, failures=[row])


def test_each_committed_failure_is_explained():
    outcomes = campaign().kept
    assert len(outcomes) >= 60
    assert {name: rows for name, x in outcomes.items() if (rows := unexplained(x))} == {}
    assert {*found.FOUND, *found.MEANT} <= {*outcomes}


def test_an_explanation_that_explains_nothing_is_told():
    """Each check of an explanation fails in the committed results: one that is mended must go."""
    outcomes = campaign().kept
    for known in (found.FOUND, found.MEANT):
        for name, checks in known.items():
            assert {*checks} <= {row.split()[0] for row in failed_rows(outcomes[name])}, name


def test_a_failure_without_a_section_is_unexplained(monkeypatch):
    monkeypatch.setattr("benchmarks.mlx_sweep.page.FOUND", {"add": {"vjp_of_vjp": 126}})
    assert (unexplained(failing("vjp")), verdict(failing("vjp"))) == (["vjp float32"], "unexplained")
    assert (unexplained(failing("vjp_of_vjp")), verdict(failing("vjp_of_vjp"))) == ([], "defect found")
    assert sections_of(failing("vjp_of_vjp")) == [126]
    assert unexplained(Outcome("add", error="its process ended")) == ["process"]


def dies(name: str) -> Outcome:
    if name == "second":
        os._exit(1)
    return Outcome(name)


@pytest.mark.slow
def test_an_operator_that_ends_its_process_costs_itself_only(monkeypatch):
    monkeypatch.setattr(run, "judge_one", dies)
    outcomes = {x.name: x.error for x in judged(["first", "second", "third"], 1)}
    assert outcomes == {"first": None, "second": "its process ended", "third": None}


def test_each_operator_of_the_table_was_judged():
    pytest.importorskip("mlx.core", reason=MISSING)
    from benchmarks.mlx_sweep.table import OPERATORS

    assert {*campaign().kept} == {*OPERATORS}


@pytest.mark.slow
def test_a_planted_mistake_is_found(monkeypatch):
    pytest.importorskip("mlx.core", reason=MISSING)
    import mlx.core as mx

    from benchmarks.mlx_sweep._operator import op
    from benchmarks.mlx_sweep.table import OPERATORS

    sine = op("sine", lambda x: mx.sin(x) + mx.stop_gradient(x - x), lambda x: x)
    half = op("half", lambda x: 0.5 * x + mx.stop_gradient(0.5 * x), lambda x: x)  # the value is right
    monkeypatch.setitem(OPERATORS, "sine", sine)
    monkeypatch.setitem(OPERATORS, "half", half)
    assert "forward float32" in unexplained(run.judge_one("sine"))
    rows = unexplained(run.judge_one("half"))
    assert "vjp float32" in rows
    assert "forward float32" not in rows
