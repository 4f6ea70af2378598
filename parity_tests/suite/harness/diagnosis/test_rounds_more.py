"""A right formula that rounds more than the oracle's: it is said to be one, and nothing else is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import hypot_by_a_ratio, judged, normal, unary_function

ADD = OpSpec("add_one", primal=lambda x: x + 1, signature="(n)->(n)")
MAPS = ("forward", "vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp")
SCALED = OpSpec("scaled", primal=lambda x, c: (x + 1) * c, signature="(n),()->(n)", constants=["c"])


def detour(x: torch.Tensor) -> torch.Tensor:
    """x + 1, by way of larger numbers, whose rounding is larger."""
    return (x + 4) - 3


def said(call: Callable, spec: OpSpec = ADD, dtype: str = "float16", check: str = "forward") -> str | None:
    row = judged(call, spec, check, dtype)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.unexplained == ()
    return row.failure.wrong[0].looks_like


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_formula_that_equals_the_oracles(dtype):
    text = said(detour, dtype=dtype)
    assert text is not None
    assert text.startswith("output is right in float64 at the same arguments, and here off by at most ")
    assert text.endswith(
        f"a formula that equals the oracle's and rounds more in {dtype}; if that loss is intended, give the formula "
        "as the primal"
    )


class SumIn16Bits(torch.autograd.Function):
    """The sum of n numbers, added up one by one in the format."""

    @staticmethod
    def forward(ctx, x: torch.Tensor) -> torch.Tensor:
        ctx.n = len(x)
        total = torch.zeros((), dtype=x.dtype)
        for entry in x:
            total = total + entry
        return total

    @staticmethod
    def backward(ctx, y_bar: torch.Tensor) -> torch.Tensor:
        return y_bar.expand(ctx.n).clone()


@pytest.mark.parametrize(
    ("call", "spec", "dtype", "to_do"),
    [
        (
            SumIn16Bits.apply,
            OpSpec("sum", primal=jnp.sum, inputs=(np.linspace(0.5, 1.5, 100),)),
            "bfloat16",
            "Round less: compute in float32, long sums above all, and round each result once",
        ),
        (
            detour,
            ADD,
            "float32",
            "Use a formula that loses as few digits as the oracle's, or compute in a wider dtype",
        ),
        (lambda x: x + 2, ADD, "float32", "Make both sides compute the same function"),
    ],
    ids=["a long sum", "a detour", "another function"],
)
def test_what_to_do_about_a_formula_that_rounds_more(call: Callable, spec: OpSpec, dtype: str, to_do: str) -> None:
    """No other formula, which the page of the check would have; the report says that of a formula that is another."""
    report = crosscheck(call, spec, checks=["forward"], dtypes=[dtype])
    (failure,) = report.failures
    assert failure.to_do == to_do
    assert f"  to do   {to_do}; gradparity explain forward" in str(report)


@pytest.mark.slow
def test_hypot_by_a_square_root():
    """Its squares underflow where those of a ratio do not."""
    spec = OpSpec("hypot", primal=hypot_by_a_ratio, signature="(n),(n)->(n)", input_names=["x", "y"])
    text = said(lambda x, y: torch.sqrt(x * x + y * y), spec)
    assert text is not None
    assert "a formula that equals the oracle's and rounds more in float16" in text


# Two formulas of one operator, each in JAX and in PyTorch: the other one may be the oracle.
EQUAL = {
    "hypot": (
        "(n),(n)->(n)",
        (hypot_by_a_ratio, torch.hypot),
        (lambda x, y: jnp.sqrt(x * x + y * y), lambda x, y: torch.sqrt(x * x + y * y)),
    ),
    "sigmoid": (
        "(n)->(n)",
        (lambda x: jax.nn.sigmoid(x), torch.sigmoid),
        (lambda x: 1 / (1 + jnp.exp(-x)), lambda x: 1 / (1 + torch.exp(-x))),
    ),
}


@pytest.mark.parametrize(
    ("name", "dtypes"), [("sigmoid", ["float16"]), *(pytest.param(n, None, marks=pytest.mark.slow) for n in EQUAL)]
)
def test_of_equal_formulas_the_other_one_is_said_to_be_as_good(name, dtypes):
    """In every format, at first and second order: no failure leaves it open whether the formula is wrong."""
    signature, *formulas = EQUAL[name]
    failures = [
        failure
        for (primal, _), (_, call) in (formulas, formulas[::-1])
        for failure in crosscheck(call, OpSpec(name, primal, signature), checks=MAPS, dtypes=dtypes).failures
    ]
    assert failures
    for failure in failures:
        for wrong in failure.wrong:
            assert wrong.looks_like is not None, failure
            assert " equals the oracle's" in wrong.looks_like
            assert "if that loss is intended, give the formula as the primal" in wrong.looks_like


def test_a_derivative_may_be_given_as_a_formula():
    spec = OpSpec("square", primal=lambda x: x + x * x / 2, inputs=(normal(40) / 64,))
    wrong = unary_function(lambda x: x + x * x / 2, lambda x, g: ((x + 12) - 11) * g)
    text = said(wrong, spec, check="vjp")
    assert text is not None
    assert text.startswith("x_bar is right in float64")
    assert text.endswith("give the formula as the primal, or as vjp=")


# The softmax of two logits is a logistic function of their difference, whose derivative takes the difference of the
# tangents first, and loses nothing where they are nearly equal. No softmax does that. Of 600 rows a few have such.


def _logistic(x):
    return jax.nn.sigmoid(x - x[..., ::-1])


def _softmax_jvp(x, x_dot):
    y = _logistic(x)
    return y * (x_dot - jnp.sum(y * x_dot, axis=-1, keepdims=True))


OF_TWO = OpSpec("of_two", primal=_logistic, inputs=(np.tile([1.5, 0.25], (600, 1)),))


def _softmax_with(jvp: Callable) -> Callable:
    return function(lambda x: x.softmax(-1), lambda x, w: w, jvp=lambda x, x_dot: jvp(x.softmax(-1), x_dot))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_tangents_of_a_softmax_by_logistic_functions(dtype):
    """As the remark says: with the derivative of softmax as jvp= it passes, and a mistake in it is one still."""
    text = said(lambda x: x.softmax(-1), OF_TWO, dtype, "jvp")
    assert text is not None
    assert "rounds more" in text
    assert text.endswith("give the formula as the primal, or as jvp=")
    spec = dataclasses.replace(OF_TWO, jvp=_softmax_jvp)
    assert judged(lambda x: x.softmax(-1), spec, "jvp", dtype).verdict is Verdict.PASS
    for factor in (1.125, -1.0):
        wrong = _softmax_with(lambda y, t, factor=factor: y * (t - factor * (y * t).sum(-1, keepdim=True)))
        assert "rounds more" not in (said(wrong, spec, dtype, "jvp") or "")


def test_floating_point_constants_are_widened_too():
    text = said(lambda x, c: torch.mul(detour(x), c), SCALED)
    assert text is not None
    assert "is right in float64" in text


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda x: 1.0001 * detour(x), id="another function in float64"),
        pytest.param(lambda x: x + 1 if x.dtype == torch.float64 else x.sin() + 1, id="another function in float16"),
        pytest.param(lambda x: (x + 1).bfloat16().to(x.dtype), id="bfloat16 in every format"),
    ],
)
def test_what_is_not_such_a_formula(call):
    assert "rounds more" not in (said(call, dtype="float32") or "")


# In float64 there is no wider format, but single precision must then lose as many roundings.


def _logistic_written_out(x):
    return 1 / (1 + jnp.exp(-x))


SIGMOID = OpSpec("sigmoid", primal=_logistic_written_out, inputs=(np.linspace(4, 8, 40),))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("check", "field"), [("vjp", "vjp"), ("jvp", "jvp")])
def test_y_times_one_minus_y(dtype, check, field):
    """The derivative of torch.sigmoid: right, and without the digits of 1 - y where y is nearly 1."""
    text = said(torch.sigmoid, SIGMOID, dtype, check)
    assert text is not None
    assert "the error goes with the roundoff" in text
    assert text.endswith(f"give the formula as the primal, or as {field}=")
    as_pytorch = dataclasses.replace(SIGMOID, primal=jax.nn.sigmoid)
    assert judged(torch.sigmoid, as_pytorch, check, dtype).verdict is Verdict.PASS


def test_a_wrong_derivative_does_not_lose_digits():
    for factor in (1 + 1e-12, 1.001, 2):
        wrong = unary_function(torch.sigmoid, lambda x, g, factor=factor: g * factor * x.sigmoid() * (-x).sigmoid())
        assert "roundoff" not in (said(wrong, SIGMOID, "float64", "vjp") or "")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda x: (1 + 1e-14) * (x + 1), id="a few roundings of float64, and none of float32"),
        pytest.param(lambda x: (x + 1).float().to(x.dtype), id="float32 in every format"),
        pytest.param(lambda x: (detour(x) if x.dtype == torch.float64 else 1.01 * x) + 0, id="another in float32"),
    ],
)
def test_what_does_not_go_with_the_roundoff(call):
    assert "roundoff" not in (said(call, dtype="float64") or "")


def test_a_format_that_the_operator_is_not_judged_in_is_not_asked():
    only = dataclasses.replace(SIGMOID, dtypes=("float64",))

    def sigmoid(x):
        assert x.dtype == torch.float64
        return torch.sigmoid(x)

    assert "roundoff" not in (said(sigmoid, only, "float64", "vjp") or "")


# The slope of copysign does not depend on the size of x, so that its second derivative is exactly 0.
COPYSIGN = OpSpec("copysign", primal=jnp.copysign, signature="(n),(n)->(n)")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_noise_where_0_is_exact_is_said_to_be_noise(dtype):
    text = said(torch.copysign, COPYSIGN, dtype, "vjp_of_vjp")
    assert text is not None
    assert text.startswith("x1_bar is noise of rounding where 0 is exact: nearby up to ")
    assert text.endswith("no wrong derivative is of that size")


@pytest.mark.parametrize("size", [1e-3, 1e-8, 1e-13])
def test_a_wrong_number_where_0_is_exact_is_no_noise(size):
    wrong = unary_function(lambda x: x + 1, lambda x, g: g * (1 + size * x))
    assert "noise" not in (said(wrong, check="vjp_of_vjp", dtype="float64") or "")
