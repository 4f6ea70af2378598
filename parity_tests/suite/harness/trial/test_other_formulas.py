"""digits: a right formula that loses other digits than the oracle's is no mismatch, and a mistake far out is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.report.results import Row
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged, unary_function
from parity_tests.suite.marks import fast

SWIGLU = OpSpec("swiglu", primal=lambda a, b: a / (1 + jnp.exp(-a)) * b, signature="(n,d),(n,d)->(n,d)")
LOG1P = OpSpec("log1p", primal=jnp.log1p, signature="(n)->(n)", domains={"x": "positive"}, input_names=("x",))
QUOTIENT = OpSpec(
    "quotient",
    primal=lambda x: 1 / (jnp.sqrt(1 + x * x) + x),
    signature="(n)->(n)",
    domains={"x": "positive"},
    input_names=("x",),
)
# x times the logistic function of x, and its derivative by the formula of the oracle.
SILU = OpSpec("silu", primal=lambda x: x / (1 + jnp.exp(-x)), signature="(n)->(n)", input_names=("x",))


def _normalized(x):
    square = jnp.sum(x * x, -1, keepdims=True)
    zero = square == 0
    return jnp.where(zero, 0.0, x / jnp.sqrt(jnp.where(zero, 1.0, square)))


NORMALIZED = OpSpec("normalized", primal=_normalized, signature="(n,d)->(n,d)")


def _swiglu_backward(a, b, g):
    s = torch.sigmoid(a)
    return g * b * s * (1 + a * (1 - s)), g * a * s


def swiglu(backward: Callable = _swiglu_backward) -> Callable:
    return function(lambda a, b: torch.nn.functional.silu(a) * b, backward)


def silu(slope: Callable[[torch.Tensor], torch.Tensor]) -> Callable:
    """With a derivative by another formula than the oracle's, times what a mistake may make of it."""
    return unary_function(
        torch.nn.functional.silu,
        lambda x, g: g * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))) * slope(x),
    )


def digits(call: Callable, spec: OpSpec, dtype: str, seed: int = 0) -> Row:
    return judged(call, spec, "digits", dtype, seed=seed)


@fast("0-float64", "2-float32")
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("seed", range(6))
def test_the_everyday_backward_of_swiglu_is_right(seed, dtype):
    row = digits(swiglu(), SWIGLU, dtype, seed)
    assert row.verdict is Verdict.PASS, row.failure


def _difference(x):
    return torch.sqrt(1 + x * x) - x


@fast("float64", "bfloat16")
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_formula_that_cancels_where_the_oracles_does_not_loses_digits(dtype):
    row = digits(_difference, QUOTIENT, dtype)
    assert row.verdict is Verdict.PASS, row.failure
    assert any(line.startswith("output loses ") and "JAX's formula loses 0" in line for line in row.lost_digits)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_what_has_to_be_accurate_must_not_lose_them(dtype):
    row = digits(_difference, dataclasses.replace(QUOTIENT, accurate=True), dtype)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert all("OpSpec(accurate=True)" in wrong.circumstance for wrong in row.failure.wrong)


def test_without_any_digit_in_any_format_it_is_a_mismatch():
    """log(1 + x) is 0 at 1e-162, as a wrong derivative might be."""
    row = digits(lambda x: (1 + x).log(), LOG1P, "float64")
    assert row.verdict is Verdict.MISMATCH
    assert any(line.startswith("output loses 19 of 53 bits at x = 1.1") for line in row.lost_digits)


def _by_scaling(x):
    largest = x.abs().amax(-1, keepdim=True)
    scaled = torch.where(largest == 0, x, x / largest)
    return torch.where(largest == 0, x, scaled / scaled.norm(dim=-1, keepdim=True))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_where_the_oracle_itself_underflows_it_judges_nobody(seed):
    """The guarded oracle gives 0 where the squares underflow in float64; what has the right number is not wrong."""
    row = digits(_by_scaling, NORMALIZED, "float64", seed)
    assert row.verdict is Verdict.PASS, row.failure


def _far(x: torch.Tensor) -> torch.Tensor:
    return (x.abs() > 75) & (x.abs() < 95)


def _times(factor: float, where: Callable = _far, only: torch.dtype | None = None) -> Callable:
    """A factor where a condition holds; in one format alone, if one is given."""

    def slope(x: torch.Tensor) -> torch.Tensor:
        factors = torch.full_like(x, factor if only in (None, x.dtype) else 1.0)
        return torch.where(where(x), factors, torch.ones_like(x))

    return slope


def _float32_inside(x: torch.Tensor) -> torch.Tensor:
    return torch.where(_far(x), (1 + x.float().sin() * 1e-6).to(x.dtype), torch.ones_like(x))


MISTAKES: dict[str, tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "twice": ("float64", _times(2.0)),
    "twice in float32": ("float32", _times(2.0)),
    "minus": ("float64", _times(-1.0)),
    "a thousandth in float32": ("float32", _times(1.001)),
    "zero": ("float64", _times(0.0)),
    "a constant of ten digits": ("float64", _times(1 + 1e-10)),
    "float32 inside": ("float64", _float32_inside),
    "not finite": ("float64", _times(torch.inf)),
    "not finite in float32": ("float32", _times(torch.inf)),
    "in float64 alone": ("float64", _times(1 + 1e-9, only=torch.float64)),
    "in float32 alone": ("float32", _times(1.001, only=torch.float32)),
    "in bfloat16 alone": ("bfloat16", _times(2.0, only=torch.bfloat16)),
    "in float16 alone": ("float16", _times(2.0, only=torch.float16)),
    "wrong where it cancels": ("float64", _times(1 + 1e-9, where=lambda x: (x + 1.33).abs() < 0.1)),
}


@fast("twice in float32", "in float32 alone", "a constant of ten digits")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_far_out_is_a_mismatch(name):
    dtype, slope = MISTAKES[name]
    assert digits(silu(torch.ones_like), SILU, dtype).verdict is Verdict.PASS
    row = digits(silu(slope), SILU, dtype)
    assert row.verdict is Verdict.MISMATCH, (row.error_over_bound, row.lost_digits)
    assert row.failure is not None
    assert row.failure.wrong[0].label == "x_bar"


def _normalized_backward(factor: float) -> Callable:
    def backward(x, g):
        norm = x.norm(dim=-1, keepdim=True)
        y = x / norm
        right = (g - y * (g * y).sum(-1, keepdim=True)) / norm
        return torch.where(_far(x).any(-1, keepdim=True), factor * right, right)

    return function(lambda x: x / x.norm(dim=-1, keepdim=True), backward)


@pytest.mark.slow
def test_a_mistake_beside_an_oracle_that_underflows_is_a_mismatch():
    assert digits(_normalized_backward(1.0), NORMALIZED, "float64").verdict is Verdict.PASS
    assert digits(_normalized_backward(1 + 1e-9), NORMALIZED, "float64").verdict is Verdict.MISMATCH


@pytest.mark.slow
def test_in_a_format_alone_that_the_candidate_refuses_elsewhere():
    """Without a witness in the other format nothing is excused."""

    def log(x):
        if x.dtype != torch.float64:
            raise TypeError("float64 only")
        return (1 + x).log()

    assert digits(log, LOG1P, "float64").verdict is Verdict.MISMATCH
