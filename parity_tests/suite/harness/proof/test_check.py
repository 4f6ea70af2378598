"""The check: what is not read is not proved."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec
from parity_tests.harness.findings import Verdict
from parity_tests.suite.harness._ops import SQUARE, judged, unary_function


def complex_zero(x):
    return torch.fft.fft(x).real * 0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (unary_function(lambda x: 7 * x + complex_zero(x), lambda x, g: 2 * x * g), "forward cannot be told"),
        (unary_function(lambda x: x * 0 + torch.inf, lambda x, g: 2 * x * g), "forward cannot be told"),
        (unary_function(lambda x: x * x, lambda x, g: 2 * x * g + complex_zero(g)), "vjp cannot be told"),
        (lambda x: x * x if x.sum() > 0 else x * x * 1.0, "forward is refused: PyTorch's tracer gives up"),
    ],
    ids=["the values", "infinite values", "the gradient", "a branch on data"],
)
def test_what_is_not_read_is_not_proved(call: Callable, reason: str) -> None:
    row = judged(call, SQUARE, "proof")
    assert row.verdict is Verdict.SKIPPED, row
    assert row.reason.startswith(reason)


def test_a_map_that_the_candidate_refuses_is_told() -> None:
    row = judged(unary_function(lambda x: x * x, lambda x, g: 2 * x * g), SQUARE, "proof")
    assert row.verdict is Verdict.PROVED
    assert any(line.startswith("jvp is refused: ") for line in row.proofs)


def test_integer_outputs_are_not_compared_and_not_proved() -> None:
    spec = OpSpec("signs", lambda x: (x * 2, x > 0), "(n)->(n),(n)")
    row = judged(lambda x: (x * 2, x < 0), spec, "proof")
    assert row.verdict is Verdict.SKIPPED
    assert "an output of integers or booleans" in row.reason


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_format_that_is_not_looked_at_is_not_named(dtype: str) -> None:
    row = judged(lambda x: x * 2 if x.dtype == torch.float64 else x * 3, SQUARE, "proof", dtype)
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED, "programs are compared in float64: --dtype float64, or dtypes=['float64']",
    )  # fmt: skip


def test_a_mask_of_the_least_float() -> None:
    spec = OpSpec("masked", lambda x: jnp.where(x > 0, x, 0.0), "(n)->(n)")
    least = torch.finfo(torch.float64).min
    row = judged(lambda x: torch.where(x > 0, x, torch.full_like(x, least)).clamp(min=0), spec, "proof")
    assert row.verdict in (Verdict.PROVED, Verdict.UNRESOLVED)
