"""Formats that have no number for an operator's values: what is said of them, and what is caught all the same."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.suite.harness._ops import judged, rows, unary_function

BEYOND = "all values of the oracle exceed the largest number of float16, 65504"
CHECKS = ["forward", "vjp", "linearity"]
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]


def beyond_float16(rng, shape):
    """Numbers whose exponential float16 has not."""
    return rng.uniform(11.2, 14, shape)


def beyond_if_long(rng, shape):
    return rng.uniform(11.2, 14, shape) if shape[0] > 50 else rng.standard_normal(shape)


def exponential(sampler) -> OpSpec:
    return OpSpec("exp", jnp.exp, "(n)->(n)", input_names=["x"], domains={"x": sampler})


def verdicts(report: Report, dtype: str) -> dict[str, Verdict]:
    return {row.check: row.verdict for row in rows(report) if row.dtype == dtype}


@pytest.mark.slow
def test_a_format_without_any_of_its_values_is_skipped_if_another_has_them():
    report = crosscheck(torch.exp, exponential(beyond_float16), checks=CHECKS)
    for dtype in ("float64", "float32", "bfloat16"):
        assert verdicts(report, dtype) == dict.fromkeys(CHECKS, Verdict.PASS)
    assert verdicts(report, "float16") == dict.fromkeys(CHECKS, Verdict.SKIPPED)
    assert {row.reason for row in rows(report) if row.dtype == "float16"} == {f"at every sample {BEYOND}"}
    assert report.exit_code == 0


@pytest.mark.slow
def test_alone_it_leaves_everything_unresolved():
    report = crosscheck(torch.exp, exponential(beyond_float16), checks=CHECKS, dtypes=["float16"])
    assert verdicts(report, "float16") == dict.fromkeys(CHECKS, Verdict.UNRESOLVED)
    assert {row.reason for row in rows(report)} == {f"at every sample {BEYOND}"}
    assert report.exit_code == 2


@pytest.mark.slow
def test_a_wrong_version_is_caught_in_the_formats_that_have_them():
    wrong = unary_function(torch.exp, lambda x, g: g * torch.exp(x) * 1.5)
    report = crosscheck(wrong, exponential(beyond_float16), checks=["vjp"], dtypes=["bfloat16", "float16"])
    assert verdicts(report, "bfloat16") == {"vjp": Verdict.MISMATCH}
    assert verdicts(report, "float16") == {"vjp": Verdict.SKIPPED}
    assert report.exit_code == 1


@pytest.mark.slow
def test_a_wrong_version_is_caught_at_the_other_samples():
    def in_float16_only(x, g):
        return g * torch.exp(x) * (1.5 if x.dtype == torch.float16 else 1)

    spec = exponential(beyond_if_long)
    wrong = crosscheck(unary_function(torch.exp, in_float16_only), spec, checks=["vjp"], dtypes=["float32", "float16"])
    assert verdicts(wrong, "float16") == {"vjp": Verdict.MISMATCH}
    right = crosscheck(torch.exp, spec, checks=["vjp"], dtypes=["float32", "float16"])
    assert verdicts(right, "float16") == {"vjp": Verdict.PASS}
    lines = [line for line in right.skipped if line.endswith(BEYOND)]
    assert "exp, sample long_axes: " + BEYOND in lines
    assert not any("all_axes_differ" in line for line in lines)


@pytest.mark.slow
def test_a_wrong_dtype_is_caught_where_no_value_can_be_told():
    def widened(x):
        return torch.exp(x.float()) if x.dtype == torch.float16 else torch.exp(x)

    report = crosscheck(widened, exponential(beyond_float16), checks=["forward"], dtypes=["float32", "float16"])
    assert verdicts(report, "float16") == {"forward": Verdict.MISMATCH}


@pytest.mark.slow
def test_an_intermediate_that_overflows_is_no_value_that_does():
    """Of the norm of numbers of 300 to 600 float16 has every digit, but not of their squares."""

    def hundreds(rng, shape):
        return rng.uniform(300, 600, shape)

    def norm(x):
        return torch.sqrt((x**2).mean(-1))

    def norm_in_float32(x):
        return norm(x.float()).to(x.dtype)

    def norm_of_quotients(x):
        return 512 * norm(x / 512)

    def judged(candidate, primal):
        spec = OpSpec("norm", primal, "(n,3)->(n)", input_names=["x"], domains={"x": hundreds})
        (row,) = rows(crosscheck(candidate, spec, checks=["forward"], dtypes=["float16"]))
        return row

    def primal(x):
        return jnp.sqrt((x * x).mean(-1))

    def remedy(x):
        return 512 * primal(x / 512)

    def a_fiftieth_too_large(x):
        return 1.02 * norm_of_quotients(x)

    for candidate in (norm, a_fiftieth_too_large, lambda x: 0 * x.sum(-1)):
        row = judged(candidate, primal)
        assert row.verdict is Verdict.UNRESOLVED
        assert "an intermediate of the oracle may exceed the dtype's largest number, 65504" in row.reason
    assert judged(norm_in_float32, primal).verdict is Verdict.PASS  # which explains it, and would not explain zeros
    assert judged(norm_of_quotients, remedy).verdict is Verdict.PASS


# The second derivative of log, -c w / x² at the cotangents c and w: x⁻² is a number of float16, c w / x² in most
# entries, and w / x² in some of these. PyTorch has c ((w / x) / x), and JAX (c x⁻²) w.


def hundredths(rng, shape):
    """Positive numbers of which float16 has the reciprocal of the square, but not twice that."""
    return rng.uniform(0.0042, 0.0055, shape)


LOG = OpSpec("log", jnp.log, "(n)->(n)", input_names=["x"], domains={"x": hundredths})


def log_with(second: Callable) -> Callable:
    """log, whose VJP has this derivative by x: a function of x, its cotangent, and that of the VJP."""

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return w / x

        @staticmethod
        def backward(ctx, c):  # pyright: ignore[reportIncompatibleMethodOverride]
            x, w = ctx.saved_tensors
            return second(x, w, c), c / x

    return unary_function(torch.log, Backward.apply)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "second",
    [lambda x, w, c: -c * (w / x / x), lambda x, w, c: -(c / x) * (w / x), lambda x, w, c: -w * (c / x / x)],
    ids=["w first", "in turn", "c first"],
)
def test_a_product_whose_parts_overflow_in_another_order_is_no_alarm(second, seed):
    row = judged(log_with(second), LOG, "vjp_of_vjp", "float16", seed=seed)
    assert row.verdict is Verdict.PASS
    assert row.comparisons > 170  # of 97 entries of two derivatives, a few of which have other orders alone


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "second",
    [
        lambda x, w, c: -((w / x) ** 2) * (c / w),  # (w / x)² overflows where no product of its factors does
        lambda x, w, c: -c * (w / x / x) / 1.1,
        lambda x, w, c: torch.nan_to_num(-c * (w / x / x), posinf=0, neginf=0) * 1.1,
        lambda x, w, c: torch.full_like(x, torch.inf),
        lambda x, w, c: -c * w / x / x * torch.where((w / x / x).isinf(), 1.1, 1.0).to(x.dtype),
    ],
    ids=["square of the first", "too small", "too large", "infinite everywhere", "a number where an order overflows"],
)
def test_what_overflows_or_is_wrong_where_no_order_overflows_is_caught(second, seed):
    wrong = log_with(second)
    assert judged(wrong, LOG, "vjp", "float16", seed=seed).verdict is Verdict.PASS
    row = judged(wrong, LOG, "vjp_of_vjp", "float16", seed=seed)
    assert row.verdict is Verdict.MISMATCH
