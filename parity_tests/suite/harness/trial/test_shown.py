"""Differences of formulas that rounding hides at a sample: numbers elsewhere show them, or none do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from parity_tests import OpSpec
from parity_tests.harness.findings import Verdict
from parity_tests.suite.harness._ops import SQUARE, judged, unary_function
from parity_tests.suite.marks import fast

SHOWN = "at inputs made to show a difference of the formulas"


def squares(**options: object) -> OpSpec:
    return OpSpec("squares", lambda x: x * x, "(n,d)->(n,d)", **options)  # type: ignore[arg-type]


def with_slope(slope: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    return unary_function(lambda x: x * x, lambda x, y_bar: slope(x) * y_bar)


@fast("no cotangent")
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(with_slope(lambda x: 2 * x + 1e-25 * x**4), id="large inputs"),
        pytest.param(with_slope(lambda x: 2 * x + 1e-22), id="small inputs"),
        pytest.param(unary_function(lambda x: x * x, lambda x, y_bar: 2 * x * y_bar + 1e-40), id="no cotangent"),
        pytest.param(unary_function(lambda x: x * x + 1e-20, lambda x, y_bar: 2 * x * y_bar), id="the values"),
    ],
)
def test_a_difference_shows_at(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    row = judged(call, squares(), "proof")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.wrong[0].circumstance == SHOWN
    assert judged(call, squares(), "vjp").verdict is Verdict.PASS


def test_a_factor_shows_nowhere() -> None:
    row = judged(with_slope(lambda x: 2 * x * (1 + 2.0**-30) * (1 - 2.0**-30)), squares(), "proof")
    assert row.verdict is Verdict.UNRESOLVED
    assert row.reason.startswith("vjp differs at n = 4, d = 3")


@pytest.mark.slow
def test_inputs_stay_in_their_domain() -> None:
    call = with_slope(lambda x: 2 * x + 1e-25 * x**4)
    assert judged(call, squares(domains={"x": "unit"}), "proof").verdict is Verdict.UNRESOLVED


def test_given_inputs_stay_as_they_are() -> None:
    """Nobody has said which other ones belong to the operator."""
    spec = OpSpec("squares", lambda x: x * x, inputs=SQUARE.inputs)
    assert judged(with_slope(lambda x: 2 * x + 1e-25 * x**4), spec, "proof").verdict is Verdict.UNRESOLVED
