"""The fault benchmark: its operators are right, its faults are there, its rules and its counts are what they say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.campaign import MET, MISSED
from benchmarks.fault_benchmark import differences, page, parity, right_versions, run
from benchmarks.fault_benchmark.command import Cells, measure_all
from benchmarks.fault_benchmark.rules import RULES, Results
from benchmarks.fault_benchmark.run import Cell
from benchmarks.fault_benchmark.tally import Tally, bars, caught_by_any, missed_by_ours, tally
from benchmarks.fault_benchmark.versions import (
    FORMATS,
    SIZES,
    VERSIONS,
    arguments,
    below_rounding,
    cotangents,
    exact_with,
    outputs_and_gradients,
    reference,
    version,
)
from parity_tests.harness.judging import candidate_rows
from parity_tests.operators.catalogue import MEASURED as OPERATORS
from parity_tests.operators.catalogue import SUBTLE
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

ROOT = Path(__file__).parents[1]

ABOUT = {"date": "today", "versions": {"torch": "2"}, "machine": {"cpu": "a processor"}}


def test_there_are_operators_and_faults_enough() -> None:
    assert len(OPERATORS) >= 20
    for operator in OPERATORS.values():
        assert len(operator.faults) >= 10
        assert set(operator.written.sizes) == set(SIZES)
    for operator in SUBTLE.values():
        assert len(operator.faults) == 5
        assert set(operator.written.sizes) == set(SIZES)


@fast("embedding", "capped attention, online softmax")
@rotating(4)
@pytest.mark.parametrize("name", OPERATORS | SUBTLE)
def test_the_versions_of_an_operator_compute_what_its_oracle_does(name: str) -> None:
    operator = (OPERATORS | SUBTLE)[name]
    inputs = arguments(operator, "small", "float64")
    found = reference(operator, inputs, "small")
    with jax.enable_x64(True):
        oracle = _oracle(operator, [x.numpy() for x in inputs], found)
    own = outputs_and_gradients(operator.written.with_backward(), operator, inputs, "small")
    for x, y, z in zip(found, oracle, own, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(x, z, rtol=1e-12, atol=1e-12)


def _oracle(operator, arrays, found):
    def primal(*differentiated):
        full = list(arrays)
        for i, x in zip(operator.differentiated, differentiated, strict=True):
            full[i] = x
        outputs = operator.spec.primal(*full)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    outputs, vjp = jax.vjp(primal, *(arrays[i] for i in operator.differentiated))
    bars = cotangents(operator, found[: len(outputs)], "small", "float64")
    return [np.asarray(x) for x in (*outputs, *vjp(tuple(bar.numpy() for bar in bars)))]


@rotating(4)
@pytest.mark.parametrize(
    "size",
    ["small", pytest.param("medium", marks=pytest.mark.slow), pytest.param("kernel", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("name", OPERATORS | SUBTLE)
def test_every_fault_changes_a_gradient_and_no_output(name: str, size: str) -> None:
    operator = (OPERATORS | SUBTLE)[name]
    inputs = arguments(operator, size, "float64")
    exact = reference(operator, inputs, size)
    outputs = len(exact) - len(operator.differentiated)
    for fault, mistake in operator.faults.items():
        wrong = exact_with(operator, mistake, inputs, size)
        assert all(torch.equal(x, y) for x, y in zip(wrong[:outputs], exact, strict=False)), fault
        assert not below_rounding(wrong, exact, "float64"), fault


def test_a_fault_acts_in_every_arithmetic() -> None:
    operator = OPERATORS["softmax"]
    fault = next(fault for fault in operator.faults.values() if fault.kind == "term")
    inputs = arguments(operator, "small", "bfloat16")
    for name in VERSIONS[:2]:
        _, plain = outputs_and_gradients(version(operator, name), operator, inputs, "small")
        _, wrong = outputs_and_gradients(version(operator, name, fault), operator, inputs, "small")
        assert plain.dtype == wrong.dtype == torch.bfloat16
        assert (plain - wrong).abs().max() > 1e-2
    with pytest.raises(ValueError, match="cannot have a planted fault"):
        version(operator, "torch.compile", fault)


def test_float32_inside_rounds_results_once() -> None:
    operator = OPERATORS["softmax attention"]
    inputs = arguments(operator, "small", "bfloat16")
    exact = reference(operator, inputs, "small")
    inside, throughout = (
        outputs_and_gradients(version(operator, name), operator, inputs, "small") for name in VERSIONS[:2]
    )
    once = [x.to(torch.bfloat16) for x in exact]
    assert all((x == y).double().mean() > 0.99 for x, y in zip(inside, once, strict=True))
    assert any((x == y).double().mean() < 0.9 for x, y in zip(throughout, once, strict=True))


def test_below_rounding_is_half_a_unit_in_the_last_place_of_each_entry() -> None:
    exact = torch.tensor([1.0, 1000.0], dtype=torch.float64)
    unit = 2.0**-7  # of bfloat16, at 1
    assert below_rounding([exact + torch.tensor([0.49 * unit, 0])], [exact], "bfloat16")
    assert not below_rounding([exact + torch.tensor([0.51 * unit, 0])], [exact], "bfloat16")
    assert below_rounding([exact + torch.tensor([0, 100 * unit])], [exact], "bfloat16")
    zero, tiny = torch.zeros(1).double(), torch.full((1,), 1e-30).double()
    assert below_rounding([tiny], [zero], "float16")  # below its smallest number, and not below bfloat16's
    assert not below_rounding([tiny], [zero], "bfloat16")


def _results(found: torch.Tensor) -> Results:
    exact = torch.linspace(-2, 3, 60, dtype=torch.float64).reshape(6, 10)
    eager = (exact * 1.004).to(torch.bfloat16)
    return Results((found,), (exact,), (eager,), outputs=0)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_accepts_the_exact_result_and_no_nan_and_no_shuffled_one(rule: str) -> None:
    exact = torch.linspace(-2, 3, 60, dtype=torch.float64).reshape(6, 10).to(torch.bfloat16)
    assert RULES[rule](_results(exact))
    one_nan = exact.clone()
    one_nan[2, 3] = torch.nan
    assert not RULES[rule](_results(one_nan))
    assert not RULES[rule](_results(exact.flip(0)))


def test_a_correlation_does_not_see_a_factor_and_the_other_rules_do() -> None:
    double = 2 * torch.linspace(-2, 3, 60).reshape(6, 10).to(torch.bfloat16)
    assert [rule for rule in RULES if RULES[rule](_results(double))] == ["correlation 0.99"]


def test_the_rules_by_differences_accept_a_right_version_and_no_wrong_one() -> None:
    operator = OPERATORS["SiLU"]
    inputs = arguments(operator, "small", "float64")
    for fault, accepted in ((None, True), (next(f for f in operator.faults.values() if f.kind == "factor"), False)):
        call = version(operator, "float32 inside", fault)
        assert differences.passes_gradcheck(call, operator, inputs, fast=True) is accepted
        assert differences.passes_check_grads(call, operator, inputs) is accepted
    assert not differences.slow_is_too_slow(operator, inputs, 8 * 32)
    assert differences.slow_is_too_slow(operator, arguments(operator, "medium", "float64"), 64 * 256)


def test_crosscheck_rejects_a_fault_and_explains_nothing() -> None:
    operator = OPERATORS["embedding"]
    inputs = arguments(operator, "small", "bfloat16")
    fault = operator.faults["the index is one too large"]
    explanation = candidate_rows.failure_of
    calls = {"right": version(operator, VERSIONS[0]), "wrong": version(operator, VERSIONS[0], fault)}
    judged = parity.judged(calls, operator, inputs)
    assert candidate_rows.failure_of is explanation
    assert {name: one.rejected_by(parity.CONVICTED) for name, one in judged.items()} == {"right": False, "wrong": True}


def test_what_rejects_a_version() -> None:
    suspect, unresolved = parity.Judged(frozenset({"PASS", "SUSPECT"})), parity.Judged(frozenset({"UNRESOLVED"}))
    assert suspect.rejected_by(parity.CONVICTED) is False
    assert suspect.rejected_by(parity.SUSPECTED) is True
    assert unresolved.rejected_by(parity.CONVICTED) is None
    assert parity.Judged(frozenset({"UNRESOLVED", "MISMATCH"})).rejected_by(parity.CONVICTED) is True


def _outcome(missed: list[int] | None, alarm: bool = False) -> dict:
    return {"alarm": alarm, "missed": missed, "commit": "abc"}


def _cells() -> list[Cell]:
    """attn, of whose faults the last is below rounding; crosscheck misses it, and the first one."""
    assert len(OPERATORS["attn"].faults) == 12
    rules = {"crosscheck": _outcome([0, 11]), "RMS ratio 0.005": _outcome([1, 2, 11])}
    alarming = {"crosscheck": _outcome([0, 11]), "RMS ratio 0.005": _outcome([], alarm=True)}
    return [
        Cell("attn", "bfloat16", "small", "float32 inside", [11], rules),
        Cell("attn", "bfloat16", "medium", "float32 inside", [11], alarming),
        Cell("attn", "bfloat16", "medium", "torch.compile", [11], {"RMS ratio 0.005": _outcome(None, alarm=True)}),
    ]


def test_the_counts() -> None:
    cells = _cells()
    assert tally(cells, "crosscheck") == Tally(20, 22, 20, 0, 2, 0, 2)
    assert tally(cells, "RMS ratio 0.005") == Tally(9 + 11, 22, 9, 1, 2, 2, 3)
    assert caught_by_any(cells[1], cells[1].rules) == {*range(1, 11)}  # not by the rule that rejects right code
    assert [(cell.size, i, by) for cell, i, by in missed_by_ours(cells)] == [("small", 0, ["RMS ratio 0.005"])]


def test_each_bar_can_be_missed() -> None:
    cells = _cells()
    assert [met for *_, met in bars(cells)] == [True, False, True]  # 20 of 21
    cells[0].rules["crosscheck"] = _outcome([11])
    assert [met for *_, met in bars(cells)] == [True, True, True]
    cells[0].rules["crosscheck"] = _outcome([*range(12)], alarm=True)
    cells[1].rules["crosscheck"] = _outcome([*range(12)])
    assert [met for *_, met in bars(cells)] == [False, False, False]
    assert bars([cells[2]]) == []  # crosscheck was not run
    cells[2].rules["crosscheck"] = _outcome(None)
    assert [met for *_, met in bars([cells[2]])] == [True]  # a version without faults


def test_the_page() -> None:
    text = page.as_markdown(ABOUT, _cells())
    assert "| RMS ratio 0.005 | 20 (9) of 22 | 1 of 2 | 1 of 2 | 1 of 1 |" in text
    assert "**Not complete.**" in text
    assert "- attn, one entry of k_bar 1.5 times too large: bfloat16, small" in text
    assert "| attn | 9 of 22 | 20 of 22 |" in text


@pytest.mark.slow
def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs Matplotlib")
    page.plot(_cells(), tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 10_000


@pytest.mark.slow
def test_a_run_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, console = tmp_path / "x.json", Console(quiet=True)
    keys = run.keys(["softmax"], ["float32"], ["small"], ["float32 inside"])
    (key,) = keys
    assert measure_all(console, keys, ["correlation 0.99"], path, resume=False) == 0
    first = Cells(path).kept[key]
    assert set(first.rules) == {"correlation 0.99"}
    assert run.waiting(key, ["correlation 0.99", "assert_close"], {key: first}) == ["assert_close"]
    assert measure_all(console, keys, ["correlation 0.99", "assert_close"], path, resume=True) == 0
    second = Cells(path).kept[key]
    assert second.rules["correlation 0.99"] == first.rules["correlation 0.99"]
    assert set(second.rules) == {"correlation 0.99", "assert_close"}
    written = path.read_text()
    assert "commit" in json.loads(written)
    assert measure_all(console, keys, ["assert_close"], path, resume=True) == 0  # there is nothing left to do
    assert path.read_text() == written
    shorter = run.described(tuple(OPERATORS)) | {"softmax": {"sizes": {}, "faults": {}}}
    monkeypatch.setattr(run, "described", lambda names: shorter)
    assert Cells(path).kept == {}  # its numbers mean other faults now


def test_which_rules_and_versions_there_are() -> None:
    assert run.versions_of("float32") == ("float32 inside", "torch.compile")
    assert run.versions_of("bfloat16") == VERSIONS
    assert "gradcheck fast" in run.rules_of("float64")
    assert "gradcheck fast" not in run.rules_of("bfloat16")
    every = run.keys(tuple(OPERATORS), FORMATS, SIZES, VERSIONS)
    assert len(every) == len(set(every)) == len(OPERATORS) * len(SIZES) * (2 + 3 + 3 + 1)
    assert [key[2] for key in every] == sorted((key[2] for key in every), key=SIZES.index)


@mock.patch.dict(os.environ)  # the command sets the number of threads
def test_an_unknown_name_is_refused() -> None:
    result = CliRunner().invoke(app, ["faults", "--operators", "gated sum, and its gate", "--operators", "nag"])
    assert result.exit_code == 2
    assert "unknown 'nag'" in result.output


@pytest.mark.slow
def test_a_compiled_version_is_judged() -> None:
    (key,) = run.keys(["SiLU"], ["bfloat16"], ["small"], ["torch.compile"])
    cell = run.measure(key, [*RULES, parity.CONVICTED], None, "abc")
    assert {rule: outcome["alarm"] for rule, outcome in cell.rules.items()} == dict.fromkeys(
        [*RULES, parity.CONVICTED], False
    )
    assert all(outcome["missed"] is None for outcome in cell.rules.values())


@pytest.mark.slow
def test_gradcheck_is_run_where_its_jacobian_is_small() -> None:
    small, medium = run.keys(["SiLU"], ["float64"], ["small", "medium"], ["float32 inside"])
    cells = [run.measure(key, tuple(run.GRADCHECK), None, "abc") for key in (small, medium)]
    assert set(cells[0].rules) == {*run.GRADCHECK}
    assert set(cells[1].rules) == {"gradcheck fast"}
    assert "Jacobian" in cells[1].not_run["gradcheck slow"]
    assert OPERATORS["SiLU"].written.composed(torch.zeros(3)).shape == (3,)


@pytest.mark.slow
def test_right_versions_at_two_seeds(tmp_path):
    path = tmp_path / "right.json"
    ran = CliRunner().invoke(app, ["right-versions", "--operators", "RMS norm", "--seeds", "2", "--out", str(path)])
    assert ran.exit_code == MET, ran.output
    assert "16 right versions of 1 operators: PASS 16" in ran.output
    assert len(json.loads(path.read_text())["judged"]) == 6
    assert "PASS 16" in path.with_suffix(".md").read_text()


@pytest.mark.slow
def test_a_wrong_version_among_the_right_ones_is_an_alarm(tmp_path):
    """A factor is missing in one of them, at a size at which only statistics tell."""

    def planted(operator, name):
        return version(operator, name, [*operator.faults.values()][3] if name == "float32 inside" else None)

    path = tmp_path / "right.json"
    with mock.patch.object(right_versions, "version", planted):
        code = right_versions.measure_all(Console(quiet=True), ["attn"], 1, "small", path, ["float16"])
    assert code == MISSED
    (found,) = json.loads(path.read_text())["judged"]
    assert {name: bool({"MISMATCH", "SUSPECT"} & {*verdicts}) for name, verdicts in found["verdicts"].items()} == {
        "float32 inside": True,
        "the format throughout": False,
        "torch.compile": False,
    }


def test_the_table_of_the_guide_is_that_of_the_results():
    cells = list(Cells(ROOT / "benchmarks/results/faults.json").kept.values())
    assert page.guide_table(cells) in (ROOT / "docs/judge_kernel.md").read_text(encoding="utf-8")
