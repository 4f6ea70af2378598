"""In float32 and bfloat16 right derivatives agree, and what rounding cannot explain is told from lost digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch

from parity_tests.suite.marks import fast
from parity_tests.suite.sweep.test_judgement import call_of, no_special_calls
from parity_tests.sweep.cases import Case, case_of
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import LOW_DTYPES, Line, Verdict
from parity_tests.sweep.low_precision import InFormat, in_format, judge_in_format
from parity_tests.sweep.random_rounding import RandomRounding
from parity_tests.sweep.tallies import Tally
from torch_impl.derivatives import lookup

X = np.random.default_rng(0).standard_normal((3, 4))
RIGHT: dict[str, dict[str, Any]] = {
    "tanh": {"self": 3 * X},
    "sum.dim_IntList": {"self": X, "dim": [1], "keepdim": False},
    "logsumexp": {"self": 9 * X, "dim": [1], "keepdim": False},
    "mm": {"self": X, "mat2": X.T.copy()},
    "_softmax": {"self": X, "dim": 1, "half_to_float": False},
    "prod": {"self": X[0]},
}


@fast("tanh", "mm")
@pytest.mark.parametrize("name", RIGHT)
def test_pytorch_s_own_derivatives_are_explained_by_rounding(name):
    call = call_of(name, RIGHT[name])
    lines: list[Line] = judge_entry(
        lookup(name), ["vjp", "jvp"], LOW_DTYPES, calls=lambda name, dtype: [call], special=no_special_calls
    )
    assert {line.dtype for line in lines} == set(LOW_DTYPES)
    assert {line.verdict for line in lines} == {Verdict.AGREES}
    assert all(line.calls == 1 for line in lines)


def with_gradient(change: Callable[[torch.Tensor], torch.Tensor], only: torch.dtype) -> InFormat:
    """PyTorch's own operator, whose gradient is changed in one format."""

    def operator(case: Case, dtype: torch.dtype) -> Any:
        right = in_format(case, dtype)

        def function(*inputs: torch.Tensor) -> Any:
            if dtype is only:
                for x in inputs:
                    x.register_hook(change)
            return right(*inputs)

        return function

    return operator


def judged(change: Callable[[torch.Tensor], torch.Tensor], dtype: str) -> Tally:
    case = case_of(lookup("tanh"), call_of("tanh", {"self": X}))
    assert case is not None
    tally = Tally()
    with jax.enable_x64(True):
        planted = with_gradient(change, torch.float32)
        judge_in_format([case], Case.jax_function, dtype, ["vjp"], {("vjp", "self"): tally}, planted)
    return tally


def at_one_lane(number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[-1, -1] = number
        return y

    return change


@pytest.mark.parametrize(
    "change",
    [lambda g: -g, lambda g: 1.5 * g, lambda g: 1.02 * g, at_one_lane(np.nan), at_one_lane(np.inf), at_one_lane(0.0)],
    ids=["sign", "factor", "two percent", "NaN in the last lane", "infinity in the last lane", "a lane is lost"],
)
def test_a_mistake_in_one_format_alone_is_convicted_there(change):
    tally = judged(change, "float32")
    assert (tally.verdict, tally.verdict_reason) == (Verdict.WRONG_IN_PYTORCH, "rounding cannot explain it")
    assert tally.finding is not None
    assert "within" in tally.finding.right
    assert judged(change, "bfloat16").verdict is Verdict.AGREES


def test_digits_that_are_lost_are_counted():
    tally = judged(lambda g: g * (1 + 2.0**-12), "float32")
    assert tally.verdict is Verdict.LOSES_DIGITS
    assert tally.verdict_reason == "PyTorch has 3 of 7 digits: more than its formula explains"
    assert judged(lambda g: g * (1 + 2.0**-24), "float32").verdict is Verdict.AGREES


def test_random_rounding_is_of_the_format_s_size_and_leaves_views_alone():
    x = torch.linspace(1, 2, 50, dtype=torch.float64)
    before = x.clone()
    with RandomRounding(torch.bfloat16, 2.0**-8, 0):
        view = x.view(5, 10)
        y = x * 1.0
        z = x.clone().add_(1.0)
    assert torch.equal(view.flatten(), before)
    assert torch.equal(x, before)
    assert 2.0**-9 < float((y / x - 1).abs().max()) <= 5 * 2.0**-8
    assert torch.equal(z, z.to(torch.bfloat16).to(torch.float64))
