"""The comparison of a converted model with PyTorch, where it is right and where it is not, and the page of results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from benchmarks.models import judged
from benchmarks.models.__main__ import app
from benchmarks.models.judged import BOUND, Outcome
from benchmarks.models.table import as_markdown, bars
from benchmarks.models.zoo import MODELS, Example, made
from parity_tests.conversion.cannot_convert import CannotConvert


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model, of which a parameter is a millionth of the others."""

    def example(name: str) -> Example:
        torch.manual_seed(0)
        first = nn.Linear(3, 4)
        first.weight.data *= 1e-6
        model = nn.Sequential(first, nn.Tanh(), nn.Linear(4, 2)).double()
        return Example(model, (torch.randn(5, 3, dtype=torch.float64),))

    monkeypatch.setattr(judged, "made", example)


def converted_by(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]) -> Outcome:
    def convert(example: Example) -> Any:
        function, trained = judged._in_gradparity(example)
        return (lambda trained: change(function)(trained)), trained

    monkeypatch.setitem(judged._CONVERTERS, "gradparity", convert)
    return judged.judged("a model")


def test_a_right_model_agrees(monkeypatch):
    found = converted_by(monkeypatch, lambda f: f)
    assert not found.error
    assert found.parameters == 26
    assert 0 < max(found.values, found.gradients) < 1e-14
    assert all(met for _, _, met in bars([found]))


def test_a_wrong_value_is_seen(monkeypatch):
    found = converted_by(monkeypatch, lambda f: lambda trained: f(trained) * (1 + 1e-11))
    assert found.values == pytest.approx(1e-11, rel=1e-3)
    assert [met for _, _, met in bars([found])] == [True, False]


def test_a_wrong_gradient_of_one_parameter_is_seen(monkeypatch):
    def stopped(f: Any) -> Any:
        return lambda trained: f(trained | {"0.bias": jax.lax.stop_gradient(trained["0.bias"])})

    found = converted_by(monkeypatch, stopped)
    assert (found.worst, found.values < 1e-14) == ("0.bias", True)
    assert found.gradients == pytest.approx(1)


def test_a_defect_of_pytorch_is_named_if_it_explains_all(monkeypatch):
    def example(name: str) -> Example:
        torch.manual_seed(0)
        return Example(nn.Sequential(nn.Linear(3, 4), nn.Hardsigmoid()).double(), (torch.randn(5, 3).double(),))

    monkeypatch.setattr(judged, "made", example)
    found = converted_by(monkeypatch, lambda f: f)
    assert found.gradients > BOUND > found.gap
    assert found.defect.startswith("48. ")
    assert any(found.defect in path.read_text() for path in (Path(__file__).parents[1] / "docs" / "found").glob("*.md"))
    wrong = converted_by(monkeypatch, lambda f: lambda trained: f(trained) * (1 + 1e-11))
    assert (wrong.defect, wrong.gap > BOUND) == ("", True)


def test_numbers_that_are_not_finite_are_seen(monkeypatch):
    right = converted_by(monkeypatch, lambda f: f)
    wrong = converted_by(monkeypatch, lambda f: lambda trained: f(trained) / 0)
    assert [met for _, _, met in bars([right, wrong])] == [True, False]


def test_a_model_that_is_refused_misses_its_bar(monkeypatch):
    def refuse(f: Any) -> Any:
        raise CannotConvert("it reads numbers")

    found = converted_by(monkeypatch, refuse)
    assert found.error == "it reads numbers"
    assert [met for _, _, met in bars([found])] == [False, True]
    assert [met for _, _, met in bars([found], refused={"another"})] == [False, True]
    assert [met for _, _, met in bars([found], refused={"a model"})] == [True, True]
    assert "refused: it reads numbers" in as_markdown({}, [found])


def test_what_gradparity_itself_raises_is_not_hidden(monkeypatch):
    def fail(f: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        converted_by(monkeypatch, fail)


def test_a_hundred_models_and_tenths_that_are_all_of_them():
    assert len(set(MODELS)) == 100
    assert sorted(name for part in range(10) for name in MODELS[part::10]) == sorted(MODELS)


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("torch.nn/")])
def test_models_of_pytorch_itself_are_made(name):
    model, args, kwargs = made(name)
    assert not model.training
    assert all(x.dtype == torch.float64 and x.ne(0).any() for x in model.parameters())
    model(*args, **kwargs)


def test_an_unknown_model_is_named():
    done = CliRunner().invoke(app, ["torch.nn/LSTMM"])
    assert done.exit_code == 2
    assert "LSTMM" in done.output
