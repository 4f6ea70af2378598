"""What is judged otherwise than by its values: draws, with the stream held fixed, and surrogates."""

from __future__ import annotations

import pytest
import torch

from parity_tests.sweep.cases import Case, Side
from parity_tests.sweep.drawn import seeded
from parity_tests.sweep.judgement import judge_entry, judge_operator
from parity_tests.sweep.lines import Line, Verdict
from torch_impl.derivatives import lookup


def _off_by(amount: float):
    def pytorch(case: Case) -> Side:
        return lambda mode, given: [y + amount * (mode == "vjp") for y in case.in_pytorch(mode, given)]

    return pytorch


def _of(operator: str, lines: list[Line]) -> set[Verdict]:
    assert lines, operator
    return {line.verdict for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["native_dropout", "bernoulli_.Tensor", "normal_"])
def test_a_derivative_with_the_draws_of_one_seed_agrees(operator):
    assert _of(operator, judge_operator(operator, ["vjp", "jvp"], ["float64"])) == {Verdict.AGREES}


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["native_dropout", "bernoulli_.Tensor", "normal_"])
def test_a_wrong_formula_is_told(operator):
    lines = judge_entry(lookup(operator), ["vjp"], ["float64"], pytorch=_off_by(0.5))
    assert _of(operator, lines) == {Verdict.WRONG_IN_PYTORCH}


@pytest.mark.slow
@pytest.mark.parametrize("per", ["per_tensor", "per_channel"])
def test_a_surrogate_is_compared_with_the_documented_one(per):
    entry = lookup(f"fake_quantize_{per}_affine_cachemask")
    assert _of(entry.name, judge_entry(entry, ["vjp"], ["float64"])) == {Verdict.AGREES}
    (line,) = judge_entry(entry, ["vjp"], ["float64"], pytorch=_off_by(0.5))
    assert line.verdict.is_wrong


def test_the_draws_are_those_of_one_seed_and_the_generator_is_as_it_was():
    before = torch.random.get_rng_state()
    first, again = (seeded(torch.ops.aten.bernoulli.default, self=torch.full((40,), 0.5)) for _ in range(2))
    assert torch.equal(first, again)
    assert torch.equal(before, torch.random.get_rng_state())


def test_the_generators_of_gpus_are_left_alone(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    seeded(torch.ops.aten.bernoulli.default, self=torch.full((4,), 0.5))
    assert not seeds
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
    assert seeds == [0]


@pytest.mark.slow
def test_a_formula_that_is_declared_is_not_judged():
    (line,) = judge_operator("_standard_gamma", ["vjp"], ["float64"])
    assert line.verdict is Verdict.UNREACHED
    assert "quantile" in line.reason
