"""low_precision: where two numbers are equal a derivative is a choice, which is right and not like rounding at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional

from parity_tests import OpSpec, Verdict
from parity_tests.harness.numbers.contracts import INSIDE_FLOAT32
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast

OPERATORS: dict[str, tuple[Callable, Callable[..., Any], str]] = {
    "l1_loss": (functional.l1_loss, lambda x, y: jnp.abs(x - y).mean(), "(n,m),(n,m)->()"),
    "row sums": (lambda x, y: (x - y).abs().sum(-1), lambda x, y: jnp.abs(x - y).sum(-1), "(n,m),(n,m)->(n)"),
    "relu": (lambda x, y: torch.relu(x - y).mean(), lambda x, y: jax.nn.relu(x - y).mean(), "(n,m),(n,m)->()"),
    "maximum": (lambda x, y: torch.maximum(x, y).mean(), lambda x, y: jnp.maximum(x, y).mean(), "(n,m),(n,m)->()"),
}


@fast("l1_loss-10-bfloat16", "l1_loss-7-float16", "row sums-5-bfloat16")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("seed", [3, 5, 7, 10, 13, 14, 17])
@pytest.mark.parametrize("name", OPERATORS)
def test_another_choice_at_a_tie_is_not_suspected(name, seed, dtype):
    call, primal, signature = OPERATORS[name]
    row = judged(call, OpSpec(name, primal=primal, signature=signature), "low_precision", dtype, seed=seed)
    assert row.verdict is Verdict.PASS, row.failure


def _inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in ((256, 64), (256, 64), (64, 32))]


# In 16 bits some of the pairs of x and y are equal.
DISTANCES = OpSpec("distances", lambda x, y, w: jnp.abs(x - y) @ w, inputs=_inputs(), input_names=("x", "y", "w"))


def distances(x_bar: Callable = lambda x: x, w_bar: Callable = lambda w: w) -> Callable:
    """With a backward in float32; each argument changes one value."""

    class Distances(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, w):
            ctx.save_for_backward(x, y, w)
            return ((x.float() - y.float()).abs() @ w.float()).to(x.dtype)

        @staticmethod
        def backward(ctx, *bars):
            x, y, w = (x.float() for x in ctx.saved_tensors)
            (bar,) = (x.float() for x in bars)
            of_x = torch.sign(x - y) * (bar @ w.T)
            return (
                x_bar(of_x).to(bars[0].dtype),
                -of_x.to(bars[0].dtype),
                w_bar((x - y).abs().T @ bar).to(bars[0].dtype),
            )

    return Distances.apply


def _without_a_row(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:17], 0.95 * x[17:18], x[18:]])


MISTAKES: dict[str, Callable] = {
    "a factor of x_bar": distances(x_bar=lambda x: 0.996 * x),
    "a row of x_bar": distances(x_bar=_without_a_row),
    "an error of one sign in x_bar": distances(x_bar=lambda x: x + 0.004),
    "a factor of w_bar": distances(w_bar=lambda w: 0.99 * w),
}


@pytest.mark.slow
def test_right_code_with_ties_passes():
    row = judged(distances(), DISTANCES, "low_precision", "bfloat16")
    assert row.verdict is Verdict.PASS, row.failure
    assert any(text.startswith("x_bar") for text in row.conventions)
    assert {row.arithmetic[label] for label in ("x_bar", "y_bar", "w_bar")} == {str(INSIDE_FLOAT32)}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_mistake_beside_ties_is_suspected(name, dtype):
    """Wherever the oracle does not jump, all is compared: nothing is lost with the ties."""
    verdicts = [judged(MISTAKES[name], DISTANCES, check, dtype).verdict for check in ("low_precision", "vjp")]
    assert verdicts == [Verdict.SUSPECT, Verdict.PASS] or verdicts[1] is Verdict.MISMATCH
