"""Candidates that raise, or return what is no result: which verdict they have, and what its reason says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from parity_tests import Verdict, crosscheck
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.names import COSTLY, ON_REQUEST
from parity_tests.suite.harness._ops import (
    PAIR,
    SQUARE,
    judged,
    pair,
    pair_function,
    pair_jvp,
    rows,
    unary_function,
)

pytestmark = pytest.mark.usefixtures("certified_once")


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        pytest.param(
            lambda x: 1 / 0, "raises ZeroDivisionError: division by zero (at test_broken_code.py:", id="it raises"
        ),
        pytest.param(lambda x: x.nope(), "raises AttributeError: 'Tensor' object has no attribute 'nope'", id="a typo"),
        pytest.param(lambda x: (x, x), "returned 2 outputs, expected 1", id="too many outputs"),
        pytest.param(lambda x: (), "returned 0 outputs, expected 1", id="no output"),
        pytest.param(
            lambda x: x.detach().numpy(),
            "returned ndarray where a tensor, or a tuple of tensors, is expected",
            id="an array",
        ),
        pytest.param(lambda x: None, "returned NoneType where a tensor, or a tuple of tensors, is expected", id="none"),
    ],
)
@pytest.mark.parametrize("check", ["forward", "vjp", "in_place"])
def test_a_candidate_that_raises_or_returns_no_tensors_disagrees(check, call, reason):
    report = crosscheck(call, SQUARE, checks=[check], dtypes=["float64"])
    (row,) = rows(report)
    assert (row.verdict, row.reason, row.passed, report.exit_code) == (Verdict.MISMATCH, "", False, 1)
    assert row.failure is not None
    (wrong,) = row.failure.wrong
    assert wrong.label in ("forward", check)
    assert wrong.pattern.startswith(reason)
    assert row.failure.judge is None


@pytest.mark.slow
@pytest.mark.parametrize("call", [lambda x, y: [*pair(x, y), x * y], lambda x, y: pair(x, y)[0]], ids=["many", "few"])
def test_no_check_takes_a_wrong_number_of_results_for_a_defect_of_its_own(call):
    usual = [name for name in CHECKS if name not in COSTLY | ON_REQUEST]
    report = crosscheck(call, PAIR, checks=usual, dtypes=["float64"])
    of_verdicts = {row.check: row.verdict for row in rows(report)}
    assert of_verdicts["in_place"] is Verdict.MISMATCH
    assert [check for check, verdict in of_verdicts.items() if verdict is Verdict.ERROR] == []


@pytest.mark.parametrize(
    ("call", "check", "label", "text"),
    [
        pytest.param(
            lambda x: (x * x).double(),
            "forward",
            "output",
            "is torch.float64 on cpu, its inputs are torch.float32 on cpu",
            id="output dtype",
        ),
        pytest.param(
            lambda x: (x * x).sum(0), "forward", "output", "has shape (3,), the oracle's is (3, 3)", id="output shape"
        ),
        pytest.param(
            lambda x: (x * x)[None],
            "forward",
            "output",
            "has shape (1, 3, 3), the oracle's is (3, 3)",
            id="an axis more",
        ),
    ],
)
def test_a_fact_that_does_not_hold(call, check, label, text):
    row = judged(call, SQUARE, check, "float32")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    (wrong,) = row.failure.wrong
    assert (wrong.label, wrong.pattern) == (label, text)


def test_a_tangent_of_a_wrong_dtype():
    """A gradient's dtype and shape are mended or refused by PyTorch; a tangent's are not checked by it."""
    wrong = pair_function(jvp=lambda *args: tuple(y.double() for y in pair_jvp(*args)))
    row = judged(wrong.apply, PAIR, "jvp", "float32")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert {wrong.pattern for wrong in row.failure.wrong} == {
        "is torch.float64 on cpu, its inputs are torch.float32 on cpu"
    }


@pytest.mark.parametrize(
    ("call", "check"),
    [
        pytest.param(pair_function(backward=lambda x, y, g, h: (g, h[0])), "vjp", id="gradient"),
        pytest.param(pair_function(jvp=lambda x, y, g, h: (g, h[0])), "jvp", id="tangent"),
    ],
)
def test_a_gradient_of_a_wrong_shape_is_refused_by_pytorch_itself(call, check):
    row = judged(call.apply, PAIR, check)
    assert (row.verdict, row.passed) == (Verdict.MISMATCH, False)
    assert row.failure is not None
    assert row.failure.wrong[0].pattern.startswith("raises RuntimeError: ")


@pytest.mark.parametrize("check", ["forward", "vjp"])
def test_nan_is_a_mismatch(check):
    def nan(x):
        return torch.where(x > 1, float("nan"), 1.0)

    calls = {
        "forward": lambda x: x * x * nan(x),
        "vjp": unary_function(lambda x: x * x, lambda x, g: 2 * x * g * nan(x)),
    }
    row = judged(calls[check], SQUARE, check)
    assert row.verdict is Verdict.MISMATCH
    assert row.error_over_bound == np.inf
    assert row.failure is not None
    assert row.failure.wrong[0].looks_like is not None
    assert row.failure.wrong[0].looks_like.endswith("are not finite")
