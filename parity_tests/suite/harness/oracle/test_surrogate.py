"""Surrogate gradients: compared with as they are, certified to be linear, and reported to be no derivatives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.harness.report.results import ORACLE
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged, rows

VJP_LINE = "is a surrogate gradient (no derivative of the primal): compared with OpSpec.surrogate"
FIRST_ORDER = ["forward", "vjp", "jvp", "adjoint", "linearity"]


def _masked(x, w):
    return (jnp.where(jnp.abs(x) <= 1, w, 0.0),)


def binarize(**fields: Any) -> OpSpec:
    """The sign; its gradient passes where |x| <= 1."""
    return OpSpec("binarize", lambda x: jnp.sign(x), **{"signature": "(n)->(n)", "surrogate": _masked} | fields)


def _right(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return w * (x.abs() <= 1)


def candidate(backward: Any = _right, jvp: Any = _right) -> Any:
    return function(torch.sign, backward, jvp)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_right_version_passes_to_first_order_and_beyond(dtype):
    report = crosscheck(candidate(), binarize(), checks=[*FIRST_ORDER, "vjp_of_vjp", "points"], dtypes=[dtype])
    assert {row.verdict for row in report.rows} == {Verdict.PASS}, str(report)


def test_the_report_says_that_it_is_no_derivative():
    report = crosscheck(candidate(), binarize(), checks=["vjp", "jvp"], dtypes=["float64"])
    assert [row.reason for row in report.rows if row.candidate == ORACLE and row.check == "vjp"] == [VJP_LINE]
    assert str(report).count(f"oracle, vjp, f64: PASS: {VJP_LINE}") == 1


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        pytest.param(candidate(lambda x, w: 1 * w), "vjp", id="not masked"),
        pytest.param(candidate(lambda x, w: 2 * _right(x, w)), "vjp", id="scaled"),
        pytest.param(candidate(lambda x, w: w * (x <= 1)), "vjp", id="masked on one side"),
        pytest.param(candidate(lambda x, w: w * (x.abs() < 1)), "points", id="masked at 1"),
        pytest.param(candidate(jvp=lambda x, x_dot: 1 * x_dot), "jvp", id="tangent not masked"),
        pytest.param(torch.sign, "vjp", id="the derivative"),
    ],
)
def test_a_mistake_is_caught(wrong, check):
    row = judged(wrong, binarize(), check)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert "OpSpec.surrogate is binding" in str(row.failure.judge) or check == "points"


def test_at_a_kink_the_formula_is_binding_and_elsewhere_its_own_side_is():
    """Without a surrogate, 0 and 1 are both right slopes of clip at its end."""

    def at_end(x, w):
        return w * (x.abs() < 1)

    clip = OpSpec("clip", lambda x: jnp.clip(x, -1, 1), "(n)->(n)")
    assert judged(function(lambda x: x.clamp(-1, 1), at_end), clip, "points").verdict is Verdict.PASS
    assert judged(candidate(at_end), binarize(), "points").verdict is Verdict.MISMATCH


def test_second_order_is_the_derivative_of_the_formula():
    def slope(x):
        return 1 / (1 + x * x)

    spec = OpSpec("step", lambda x: jnp.sign(x), "(n)->(n)", surrogate=lambda x, w: (w * slope(x),))
    right, detached = (candidate(lambda x, w, f=f: w * slope(f(x)), None) for f in (lambda x: x, torch.detach))
    checks = ["vjp", "vjp_of_vjp"]
    assert crosscheck(right, spec, checks=checks, dtypes=["float64"]).passed
    report = crosscheck(detached, spec, checks=checks, dtypes=["float64"])
    assert [row.verdict for row in rows(report)] == [Verdict.PASS, Verdict.MISMATCH]


@pytest.mark.parametrize(
    "nonlinear",
    [
        pytest.param(lambda x, w: (jnp.clip(w, -1, 1),), id="clipped"),
        pytest.param(lambda x, w: (jnp.where(jnp.abs(w) > 100, 0.0, w),), id="large ones dropped"),
        pytest.param(lambda x, w: (w + 1,), id="affine"),
    ],
)
def test_a_surrogate_that_is_not_linear_judges_nobody(nonlinear):
    report = crosscheck(candidate(), binarize(surrogate=nonlinear), checks=["vjp"], dtypes=["float64"])
    certificate, row = report.rows
    assert certificate.verdict is Verdict.MISMATCH
    assert "OpSpec.surrogate must be linear" in certificate.reason
    assert row.verdict is Verdict.UNRESOLVED


@pytest.mark.slow
def test_two_inputs_one_of_them_without_a_gradient():
    """Fake quantization with a step that is learned elsewhere: None is an exact zero."""
    spec = OpSpec(
        "quantize",
        lambda x, s: jnp.round(x / s) * s,
        "(n),()->(n)",
        domains={"s": "positive"},
        surrogate=lambda x, s, w: (w, None),
    )

    class Quantize(torch.autograd.Function):
        factor = 0.0

        @staticmethod
        def forward(x, s):
            return torch.round(x / s) * s

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @classmethod
        def backward(cls, ctx, *output_bars):
            return output_bars[0], cls.factor * output_bars[0].sum()

    class Wrong(Quantize):
        factor = 1.0

    checks = ["vjp", "vjp_partial", "linearity", "input_subsets"]
    assert crosscheck(Quantize.apply, spec, checks=checks, dtypes=["float64"]).passed
    assert judged(Wrong.apply, spec, "vjp").verdict is Verdict.MISMATCH


@pytest.mark.slow
def test_a_custom_vjp_in_jax_is_judged_and_may_be_the_primal():
    @jax.custom_vjp
    def through(x):
        return jnp.round(x)

    through.defvjp(lambda x: (jnp.round(x), None), lambda _, w: (w,))
    with pytest.raises(ValueError, match=r"or as surrogate if it is no derivative of the primal$"):
        crosscheck(torch.round, OpSpec("through", through, "(n)->(n)"), checks=["forward"])
    spec = OpSpec("through", through, "(n)->(n)", surrogate=lambda x, w: (w,))
    assert judged(JaxCandidate(through), spec, "vjp").verdict is Verdict.PASS
    assert judged(JaxCandidate(jnp.round), spec, "vjp").verdict is Verdict.MISMATCH


def test_without_a_surrogate_the_report_names_it():
    """The primal's own autodiff fails its certificate: its gradient is no derivative."""
    spec = OpSpec("through", lambda x: x + jax.lax.stop_gradient(jnp.round(x) - x), "(n)->(n)")
    report = crosscheck(lambda x: x + (x.round() - x).detach(), spec, checks=["vjp"], dtypes=["float64"])
    assert not report.passed
    assert "OpSpec(surrogate=...)" in report.rows[0].reason
    spec = OpSpec("through", spec.primal, "(n)->(n)", surrogate=lambda x, w: (w,))
    assert judged(lambda x: x + (x.round() - x).detach(), spec, "vjp").verdict is Verdict.PASS


@pytest.mark.parametrize("role", ["vjp", "jvp"])
def test_a_surrogate_excludes_formulas_of_the_derivative(role):
    text = "^OpSpec binarize: give either surrogate, a gradient that is no derivative, or vjp and jvp, not both$"
    with pytest.raises(ValueError, match=text):
        binarize(**{role: _masked})
    with pytest.raises(TypeError, match="surrogate must be a JAX function, got int"):
        binarize(surrogate=1)
