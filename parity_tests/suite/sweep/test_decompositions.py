"""Decompositions of backward operators against the operators: planted mistakes are seen, right ones agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch

from parity_tests.suite.sweep.test_judgement import call_of, no_special_calls
from parity_tests.sweep.cases import case_of
from parity_tests.sweep.decompositions import decompositions, judge_decompositions
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import DECOMPOSITION, Verdict
from parity_tests.sweep.tallies import Tally
from torch_impl.derivatives import lookup

X = np.array([[-1.5, -0.25, 0.5], [2.0, 0.75, -4.0]])


def tally_of(name: str, operator: Any, decomposition: Callable[..., Any], **arguments: Any) -> Tally:
    case = case_of(lookup(name), call_of(name, arguments))
    assert case is not None
    with jax.enable_x64(True):
        (tally,) = judge_decompositions([case], {operator: decomposition}).values()
    return tally


def test_pytorch_s_own_decompositions_agree():
    call = call_of("_softmax", {"self": X, "dim": 1, "half_to_float": False})
    (line,) = judge_entry(
        lookup("_softmax"), [DECOMPOSITION], ["float64"], calls=lambda name, of: [call], special=no_special_calls
    )
    assert (line.of, line.verdict, line.calls) == ("_softmax_backward_data", Verdict.AGREES, 1)


def test_a_backward_operator_is_compared_itself():
    call = call_of(
        "elu_backward",
        {"grad_output": X, "alpha": 1.0, "scale": 1.0, "input_scale": 1.0, "is_result": False, "self_or_result": X},
    )
    (line,) = judge_entry(
        lookup("elu_backward"), [DECOMPOSITION], ["float64"], calls=lambda name, of: [call], special=no_special_calls
    )
    assert (line.of, line.verdict) == ("elu_backward", Verdict.AGREES)


def test_where_nothing_is_decomposed_the_line_says_so():
    call = call_of("sin", {"self": X})
    (line,) = judge_entry(
        lookup("sin"), [DECOMPOSITION], ["float64"], calls=lambda name, of: [call], special=no_special_calls
    )
    assert (line.of, line.verdict) == ("the backward", Verdict.UNREACHED)
    assert "decomposes" in line.reason


RIGHT = decompositions()[torch.ops.aten.tanh_backward.default]
CHANGES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Verdict]] = {
    "right": (lambda y: y, Verdict.AGREES),
    "sign": (lambda y: -y, Verdict.WRONG_IN_PYTORCH),
    "factor": (lambda y: 1.001 * y, Verdict.WRONG_IN_PYTORCH),
    "NaN": (lambda y: torch.where(y == y.max(), torch.nan, y), Verdict.WRONG_IN_PYTORCH),
    "eleven digits": (lambda y: y * (1 + 3e-11), Verdict.LOSES_DIGITS),
    "shape": (lambda y: y[:1], Verdict.WRONG_IN_PYTORCH),
    "dtype": (lambda y: y.float(), Verdict.WRONG_IN_PYTORCH),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_wrong_decomposition_is_seen(change):
    how, verdict = CHANGES[change]
    tally = tally_of("tanh", torch.ops.aten.tanh_backward.default, lambda *a: how(RIGHT(*a)), self=X)
    assert tally.verdict is verdict
    if verdict.is_wrong and change not in ("shape", "dtype"):
        assert tally.verdict_reason == "of the decomposition"
        assert tally.finding is not None
        assert "jax_ref.aten" in tally.finding.witness


def test_another_choice_at_a_kink_is_a_convention():
    """Of hardtanh the gradient at a bound is a choice; beyond it it is none."""
    x = np.array([-1.0, 0.5, 2.0])

    def of_closed_interval(bar: torch.Tensor, x: torch.Tensor, low: float, high: float) -> torch.Tensor:
        return torch.where((x >= low) & (x <= high), bar, 0.0)

    def of_wider_interval(bar: torch.Tensor, x: torch.Tensor, low: float, high: float) -> torch.Tensor:
        return torch.where((x > low) & (x < 3 * high), bar, 0.0)

    operator = torch.ops.aten.hardtanh_backward.default
    given = {"self": x, "min_val": -1.0, "max_val": 1.0}
    assert tally_of("hardtanh", operator, of_closed_interval, **given).verdict is Verdict.CONVENTION
    assert tally_of("hardtanh", operator, of_wider_interval, **given).verdict is Verdict.WRONG_IN_PYTORCH
