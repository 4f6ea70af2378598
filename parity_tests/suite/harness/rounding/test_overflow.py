"""Masks have bounds, in every format and however they are written; what else may overflow has none, as before."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.rotation import rotating

LEAST = float(np.finfo(np.float64).min)
X, KEPT = np.array([1.0, 2.0, 3.0, 2.5]), np.array([1.0, 0.0, 1.0, 0.0])
MASKS: dict[str, Callable] = {
    "chosen": lambda x, m: jnp.where(m > 0, x, LEAST),
    "added": lambda x, m: x + (1 - m) * LEAST,
    "added with its axes": lambda x, m: x + (1 - m) * jnp.broadcast_to(LEAST, x.shape),
    "a small one": lambda x, m: x + (1 - m) * -1e9,
}


def _bound(function: Callable, *args: np.ndarray, precision: str) -> np.ndarray:
    with pinned():
        ((_, bound),) = bounded(jax.make_jaxpr(function)(*args), *args, precision=PRECISIONS[precision], inputs=0)
    return bound


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", MASKS)
def test_the_softmax_of_a_masked_row_is_bounded_as_that_of_the_others(name: str, precision: str) -> None:
    def softmax(x, m):
        return jax.nn.softmax(MASKS[name](x, m))

    bound, kept = _bound(softmax, X, KEPT, precision=precision), X[KEPT > 0]
    assert (bound[KEPT > 0] <= 4 * _bound(softmax, kept, np.ones(kept.shape), precision=precision)).all()
    assert (bound[KEPT == 0] <= 2 * PRECISIONS[precision].tiny).all()


def _scores(mask: Callable) -> Callable:
    def attention(q, k, v, m):
        return jax.nn.softmax(mask(q @ k.T / 2, m)) @ v

    def gradients(q, k, v, m, w):
        return jnp.stack(jax.vjp(lambda *x: attention(*x, m), q, k, v)[1](w))

    return gradients


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", MASKS)
def test_masked_scores_have_the_bounds_of_a_mask_within_the_format(name: str, precision: str) -> None:
    """Scores are sums, in whose other orders the mask may come first: what overflows keeps its sign."""
    q, k, v, w = (np.linspace(-1.0, i, 16).reshape(4, 4) for i in (1.0, 1.5, 2.0, 0.5))
    args = (q, k, v, np.tri(4), w)
    small = _scores(lambda x, m: jnp.where(m > 0, x, -(2.0**12)))
    assert (
        _bound(_scores(MASKS[name]), *args, precision=precision) <= 2 * _bound(small, *args, precision=precision)
    ).all()


@pytest.mark.parametrize("function", [jnp.exp, jnp.tanh, jax.nn.sigmoid, jax.scipy.special.erf, jnp.expm1, jnp.exp2])
def test_a_function_with_a_limit_has_it(function: Callable) -> None:
    assert _bound(lambda x: function(x * -60000), X[1:], precision="float16").max() <= 20 * PRECISIONS["float16"].u


BEYOND = {
    "what is no constant, multiplied by 0": lambda x: 0 * (x * 60000),
    "a sum that comes back": lambda x: x * 60000 - 60000,
    "a difference of two": lambda x: jnp.exp(x * 60000 - x * 60000),
    "a sum of them": lambda x: jnp.exp(jnp.sum(x * -60000)),
    "a logarithm": lambda x: jnp.log(x * 60000),
    "an angle": lambda x: jnp.arctan(x * 60000),
    "the number itself": lambda x: x * 60000,
    "the larger one": lambda x: jnp.maximum(x * 60000, 1.0),
    "a quotient": lambda x: 1 / (x * 60000),
    "a square": lambda x: (x * 60000) ** 2,
}


@pytest.mark.parametrize("name", BEYOND)
def test_what_depends_on_how_large_it_is_has_no_bound(name: str) -> None:
    assert np.isinf(_bound(BEYOND[name], np.array([2.0, 1.5]), precision="float16")).all()


def test_a_sign_that_is_not_certain_has_no_bound() -> None:
    assert np.isinf(_bound(lambda x: jnp.tanh((x * 40000 - 40000) * 1e4), np.array([1.0]), precision="float16")).all()


def _added(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + (1.0 - m.to(x.dtype)) * torch.finfo(x.dtype).min, -1)


def masked(factor: float) -> Callable:
    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, m):
            p = _added(x, m)
            ctx.save_for_backward(p)
            return p

        @staticmethod
        def backward(ctx, g):
            (p,) = ctx.saved_tensors
            return p * (g - factor * (p * g).sum(-1, keepdim=True)), None

    return Softmax.apply


def _attention(softmax: Callable) -> Callable:
    return lambda q, k, v, m: softmax(q @ k.mT / 2, m) @ v


OPERATORS = {
    "added": (_added, lambda softmax: softmax, "x: (n,k), m: (n,k) integer(0,2)"),
    "attention": (_attention(_added), _attention, "q: (n,d), k: (k,d), v: (k,e), m: (n,k) integer(0,2)"),
}


@pytest.mark.slow
@rotating(2)
@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_right_code_passes_and_a_mistake_is_convicted(operator: str, dtype: str) -> None:
    reference, around, inputs = OPERATORS[operator]
    spec = OpSpec.from_torch(reference, inputs=inputs)
    candidates = {"right": around(masked(1.0)), "wrong": around(masked(0.9))}
    report = crosscheck(candidates, spec, checks=["forward", "vjp"], dtypes=[dtype], progress=False)
    assert {(row.candidate, row.check) for row in report.rows if row.verdict is Verdict.MISMATCH} == {("wrong", "vjp")}
    assert {row.verdict for row in report.rows} == {Verdict.PASS, Verdict.MISMATCH}
