"""Where else a wrong result is right, with an argument of ones, zeros or equal entries: true, and telling."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from jax_ref.aten.reductions import max as aten_max
from parity_tests import OpSpec, Verdict
from parity_tests.harness.diagnosis import right_where
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.addends import addends
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged, unary_function
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("certified_once")

EPS = 1e-6
LACKS = "lack a factor {}, or have one too many?"


def said(call: Callable, spec: OpSpec, dtype: str = "float64", label: str = "x_bar", check: str = "vjp") -> str | None:
    """What the wrong result of that label looks like."""
    row = judged(call, spec, check, dtype)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.unexplained == ()
    (wrong,) = (wrong for wrong in row.failure.wrong if wrong.label == label)
    return wrong.looks_like


# RMSNorm and LayerNorm: the terms of x_bar that come from the statistics.

RMS_NORM = OpSpec(
    "rms_norm",
    lambda x, w: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * w,
    "(n,d),(d)->(n,d)",
    input_names=["x", "w"],
)
LAYER_NORM = OpSpec(
    "layer_norm",
    lambda x, w: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + EPS) * w,
    "(n,d),(d)->(n,d)",
    input_names=["x", "w"],
)


def _rms_norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def rms_norm(mean: Callable, eps: float = EPS) -> Callable:
    """RMSNorm whose x_bar has this mean in it: mean(x_hat, w, w * output_bar)."""

    def backward(x, w, bar):
        rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
        x_hat = x * rstd
        return rstd * (w * bar - x_hat * mean(x_hat, w, w * bar)), (x_hat * bar).sum(0)

    return function(_rms_norm, backward)


def layer_norm(first: Callable, second: Callable) -> Callable:
    """LayerNorm whose x_bar has these means in it: first(w, output_bar), second(x_hat, w, output_bar)."""

    def standardized(x):
        centered = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + EPS)
        return centered * rstd, rstd

    def backward(x, w, bar):
        x_hat, rstd = standardized(x)
        means = first(w, bar).mean(-1, keepdim=True) + x_hat * second(x_hat, w, bar).mean(-1, keepdim=True)
        return rstd * (w * bar - means), (x_hat * bar).sum(0)

    return function(lambda x, w: standardized(x)[0] * w, backward)


def _right_mean(x_hat, w, bar):
    return (x_hat * bar).mean(-1, keepdim=True)


@pytest.mark.slow
def test_the_right_versions_are_right():
    assert judged(rms_norm(_right_mean), RMS_NORM, "vjp").verdict is Verdict.PASS
    right = layer_norm(lambda w, bar: w * bar, lambda x_hat, w, bar: x_hat * w * bar)
    assert judged(right, LAYER_NORM, "vjp").verdict is Verdict.PASS


@pytest.mark.slow
def test_the_mean_of_rms_norm_forgets_w():
    text = said(rms_norm(lambda x_hat, w, bar: (x_hat * bar / w).mean(-1, keepdim=True)), RMS_NORM)
    assert text == (
        "x_bar is right where x = 0, and where w = 1 (not where it is 0.5, 2 or -2): does a term that vanishes with x "
        + LACKS.format("w")
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_same_is_said_in_a_narrower_format(dtype):
    text = said(rms_norm(lambda x_hat, w, bar: (x_hat * bar * w).mean(-1, keepdim=True)), RMS_NORM, dtype)
    assert text is not None
    assert "where w = 1 (not where it is 0.5, 2 or -2)" in text
    assert text.endswith(LACKS.format("w"))
    assert text.startswith("in float64 x_bar") == (dtype == "bfloat16")  # whose bounds are too wide


MEANS_OF_LAYER_NORM = {
    "of output_bar": (lambda w, bar: bar, lambda x_hat, w, bar: x_hat * w * bar),
    "of output_bar * x_hat": (lambda w, bar: w * bar, lambda x_hat, w, bar: x_hat * bar),
    "both": (lambda w, bar: bar, lambda x_hat, w, bar: x_hat * bar),
}


@fast("of output_bar * x_hat")
@pytest.mark.parametrize("which", MEANS_OF_LAYER_NORM)
def test_a_mean_of_layer_norm_forgets_w(which):
    text = said(layer_norm(*MEANS_OF_LAYER_NORM[which]), LAYER_NORM)
    assert text is not None
    assert "where w = 1 (not where it is 0.5, 2 or -2)" in text
    assert text.endswith(f"does one of its terms {LACKS.format('w')}")


def test_a_mean_of_w_in_place_of_its_entries():
    text = said(rms_norm(lambda x_hat, w, bar: (x_hat * bar / w).mean(-1, keepdim=True) * w.mean()), RMS_NORM)
    assert text is not None
    assert "and where all entries of w are equal (tried: 1, 0.5, 2, -2)" in text


def test_a_mean_over_the_wrong_axis():
    """No factor is missing: the term is named by what it vanishes with, and nothing is said of w."""
    text = said(rms_norm(lambda x_hat, w, bar: (x_hat * bar).mean(0, keepdim=True)), RMS_NORM)
    assert text == "x_bar is right where x = 0"


# Factors of other operators.

SOFTMAX = OpSpec("softmax", lambda x, s: jax.nn.softmax(x * s, -1), "(n,d),()->(n,d)", input_names=["x", "s"])


def softmax(x_bar: Callable) -> Callable:
    """The softmax of x * s, with x_bar(y, s, output_bar)."""

    def backward(x, s, bar):
        y = (x * s).softmax(-1)
        return x_bar(y, s, bar), (y * (bar - (y * bar).sum(-1, keepdim=True)) * x).sum()

    return function(lambda x, s: (x * s).softmax(-1), backward)


def _sum(y, bar):
    return (y * bar).sum(-1, keepdim=True)


def test_the_scale_of_a_softmax_is_missing():
    """All of x_bar lacks it: an explanation by values says so."""
    assert said(softmax(lambda y, s, bar: y * (bar - _sum(y, bar))), SOFTMAX) == "x_bar = oracle / s"


def test_the_scale_of_a_softmax_is_missing_in_one_term():
    text = said(softmax(lambda y, s, bar: y * (s * bar - _sum(y, bar))), SOFTMAX)
    assert text == (
        f"x_bar is right where s = 1 (not where it is 0.5, 2 or -2): does one of its terms {LACKS.format('s')}"
    )


def test_a_bias_is_forgotten():
    spec = OpSpec("biased", lambda x, b: jnp.tanh(x + b), "(n,d),(d)->(n,d)", input_names=["x", "b"])

    def backward(x, b, bar):
        return (1 - torch.tanh(x) ** 2) * bar, ((1 - torch.tanh(x + b) ** 2) * bar).sum(0)

    text = said(function(lambda x, b: torch.tanh(x + b), backward), spec)
    assert text == "x_bar = the oracle's without b in (x + b)"


def test_the_part_of_one_cotangent_is_wrong():
    spec = OpSpec(
        "two",
        lambda x, y: (x * y, jnp.sin(x) * y),
        "(n,m),(n,m)->(n,m),(n,m)",
        input_names=["x", "y"],
        output_names=["first", "second"],
    )

    def backward(x, y, first, second):
        return y * first + torch.cos(x) * y * y.abs() * second, x * first + torch.sin(x) * second

    text = said(function(lambda x, y: (x * y, torch.sin(x) * y), backward), spec)
    assert text is not None
    assert "where second_bar = 0" in text
    assert "first_bar" not in text


def test_a_mask_is_no_factor():
    """Right where x = 1 and wrong where it is 2, as without a factor x; but also where it is 0.5."""
    spec = OpSpec("clipped", lambda x: jnp.sin(x), "(n,m)->(n,m)", input_names=["x"])
    text = said(unary_function(torch.sin, lambda x, bar: torch.cos(x) * bar * (x.abs() <= 1) + 0 * bar), spec)
    assert "factor" not in (text or "")


# Where nothing may be said.

WITHOUT_A_FACT = {
    "a number added": lambda x, bar: (1 - torch.tanh(x) ** 2) * bar + 0.125,
    "noise added": lambda x, bar: (1 - torch.tanh(x) ** 2) * bar + 0.1 * torch.rand(x.shape, dtype=x.dtype),
    "the derivative of another function": lambda x, bar: torch.cos(x + 1) * bar,
}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("which", WITHOUT_A_FACT)
def test_a_mistake_that_no_argument_hides(which, dtype):
    spec = OpSpec("tanh", lambda x: jnp.tanh(x), "(n,m)->(n,m)", input_names=["x"])
    text = said(unary_function(torch.tanh, WITHOUT_A_FACT[which]), spec, dtype)
    assert "is right where" not in (text or "")


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_a_result_that_grows_hides_nothing(dtype):
    """Where x = 0 the result is a thousand times larger, and so is its bound: 0.125 more is not seen there."""

    def more(x, w, bar):
        rstd = torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)
        x_hat = x * rstd
        return rstd * (w * bar - x_hat * _right_mean(x_hat, w, w * bar)) + 0.125, (x_hat * bar).sum(0)

    assert "is right where" not in (said(function(_rms_norm, more), RMS_NORM, dtype) or "")


def test_another_epsilon_is_wrong_everywhere():
    text = said(rms_norm(_right_mean, eps=1e-3), RMS_NORM)
    assert "is right where" not in (text or "")


def test_where_everything_is_0_nothing_can_be_told():
    """x_bar = 0 on both sides where output_bar or y is 0: that shows nothing."""
    spec = OpSpec("product", lambda x, y: jnp.sin(x) * y, "(n,m),(n,m)->(n,m)", input_names=["x", "y"])

    def backward(x, y, bar):
        return torch.cos(x + 0.5) * y * bar, torch.sin(x) * bar

    text = said(function(lambda x, y: torch.sin(x) * y, backward), spec)
    assert "is right where" not in (text or "")


def test_what_only_another_call_shows():
    """The mistake is in the layout; at the same numbers a plain call is right, so that nothing is known of them."""

    def backward(x, bar):
        return torch.cos(x) * bar if bar.is_contiguous() else torch.cos(x + 0.5) * bar

    row = judged(unary_function(torch.sin, backward), OpSpec("sin", lambda x: jnp.sin(x), "(n,m)->(n,m)"), "layouts")
    assert row.failure is not None
    assert "is right where" not in str(row.failure.wrong)


def test_a_candidate_that_refuses_ones():
    def mean(x_hat, w, bar):
        if (w == 1).all():
            raise RuntimeError("not these")
        return (x_hat * bar / w).mean(-1, keepdim=True)

    assert said(rms_norm(mean), RMS_NORM) == "x_bar is right where x = 0"


def test_a_domain_without_the_numbers_is_not_left():
    """Of probabilities neither ones nor zeros are tried, of positive numbers no zeros."""
    asked = []

    def backward(p, x, bar):
        if bar.shape == p.shape:
            asked.append((p.detach().clone(), x.detach().clone()))
        return x.log() * bar, p / x * bar + 0.1 * p

    spec = OpSpec(
        "weighted",
        lambda p, x: p * jnp.log(x),
        "(n,d),(n,d)->(n,d)",
        input_names=["p", "x"],
        domains={"p": "probabilities", "x": "positive"},
    )
    assert judged(function(lambda p, x: p * x.log(), backward), spec, "vjp").verdict is Verdict.MISMATCH
    assert any((x == 2).all() for _, x in asked) or any((x == 1).all() for _, x in asked)
    assert all(bool((p.sum(-1) - 1).abs().max() < 1e-6) and bool((x > 0).all()) for p, x in asked if p.numel())


def test_a_sampler_that_is_called_like_a_domain_is_not_left():
    def real(rng, shape):
        return rng.uniform(1, 2, shape)

    asked = []

    def backward(x, bar):
        asked.append(x.detach().clone())
        return torch.cos(x) * bar + 0.25 * x * bar

    spec = OpSpec("sin", lambda x: jnp.sin(x), "(n,m)->(n,m)", input_names=["x"], domains={"x": real})
    assert judged(unary_function(torch.sin, backward), spec, "vjp").verdict is Verdict.MISMATCH
    assert all(bool((x >= 1).all()) and len(x.unique()) == x.numel() for x in asked if x.numel())


@pytest.mark.slow
def test_after_its_time_nothing_more_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = rms_norm(lambda x_hat, w, w_bar: (x_hat * w_bar / w).mean(-1, keepdim=True))
    assert "x_bar is right where" in (said(wrong, RMS_NORM) or "")
    monkeypatch.setattr(right_where, "_SECONDS", -1.0)
    assert "is right where" not in (said(wrong, RMS_NORM) or "")


def test_the_tangent_of_an_integer_is_a_term_without_a_number() -> None:
    with pinned():
        closed = jax.make_jaxpr(jax.grad(lambda x: aten_max(x, 0)[0].sum()))(np.ones((4, 3)))
        (terms,) = addends(closed, [np.ones((4, 3))], ["x"])
    assert [term.value.shape for term in terms] == [(4, 3)]


@pytest.mark.slow
def test_a_pool_has_choices_at_equal_entries_and_is_explained() -> None:
    def pool(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool1d(x, 2)

    def backward(x: torch.Tensor, bar: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return 1.5 * torch.autograd.grad(pool(x), x, bar)[0]

    text = said(unary_function(pool, backward), OpSpec.from_torch(pool, inputs="x: (n,6)"))
    assert text is not None
    assert "1.5" in text
