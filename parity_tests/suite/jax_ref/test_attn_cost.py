"""What `attn` costs next to autodiff of the plain primal, cotangent by cotangent: the matrix products that XLA leaves.

The pullback is compiled in one program with the values, and by itself, as it runs where forward and backward are two
programs: within one, XLA finds a product that is computed twice, and a rule that wastes it looks free.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from jax_ref import attn, attn_ad, attn_jvp, attn_primal, attn_vjp
from parity_tests.suite.jax_ref._cases import Sizes, draw
from parity_tests.suite.jax_ref.test_gemms import compiled_gemms
from parity_tests.suite.marks import fast

# All axes differ and none is so small that XLA would write a product as a sum.
SIZES = Sizes(n=12, m=10, d=8, e=6)
PRIMALS = draw(SIZES, "q k v", seed=50)
DOTS = draw(SIZES, "q_dot k_dot v_dot", seed=51)
BARS = draw(SIZES, "output_bar attn_bar", seed=52)
COTANGENTS = {"both": (0, 1), "output_bar": (0,), "attn_bar": (1,)}


def _present(results: tuple, cotangents: str) -> tuple:
    """The outputs whose cotangents are there, or these cotangents: JAX knows that the other one is zero."""
    return tuple(results[i] for i in COTANGENTS[cotangents])


def forward(op: Callable) -> int:
    return compiled_gemms(op, *PRIMALS)


def one_program(op: Callable, cotangents: str) -> int:
    """Both outputs and the pullback of the cotangents that are there."""

    def values_and_gradients(primals, bars):
        def outputs(*primals):
            values = op(*primals)
            return _present(values, cotangents), values

        _, pull, values = jax.vjp(outputs, *primals, has_aux=True)
        return values, pull(bars)

    return compiled_gemms(values_and_gradients, PRIMALS, _present(BARS, cotangents))


def backward_alone(op: Callable, cotangents: str) -> int:
    """The pullback, whose residuals are the arguments of its program."""
    _, pull = jax.vjp(lambda *primals: _present(op(*primals), cotangents), *PRIMALS)
    return compiled_gemms(lambda pull, bars: pull(bars), pull, _present(BARS, cotangents))


def tangents(op: Callable) -> int:
    return compiled_gemms(lambda primals, dots: jax.jvp(op, primals, dots), PRIMALS, DOTS)


faces = pytest.mark.parametrize("op", [pytest.param(attn, id="attn"), pytest.param(attn_ad, id="attn_ad")])
cotangents = pytest.mark.parametrize("cotangents", COTANGENTS)
# (10), (11), and with output_bar (8), (12).
BACKWARD = {"both": 4, "output_bar": 4, "attn_bar": 2}


@faces
def test_forward(op):
    assert forward(op) == forward(attn_primal) == 2  # (1), (3)


@fast("both-attn")
@faces
@cotangents
def test_forward_and_backward_in_one_program(op, cotangents):
    assert one_program(op, cotangents) == one_program(attn_primal, cotangents) == 2 + BACKWARD[cotangents]


@fast("output_bar-*")
@faces
@cotangents
def test_backward_by_itself(op, cotangents):
    assert backward_alone(op, cotangents) == backward_alone(attn_primal, cotangents) == BACKWARD[cotangents]


def test_forward_mode():
    assert tangents(attn_ad) == tangents(attn_primal) == 2 + 4  # (5) and (7), two products each


# What the counters must see: right rules that do one product more.


def _with_backward(bwd: Callable) -> Callable:
    """attn with another backward; every cotangent is there, as zeros if need be."""
    op = jax.custom_vjp(attn_primal)

    def fwd(q, k, v):
        output, A = attn_primal(q, k, v)
        return (output, A), (q, k, v, A)

    op.defvjp(fwd, bwd)
    return op


def _scores_again(residuals, bars):
    """The public formula, which has no saved A and computes (1) and (2)."""
    return attn_vjp(*residuals[:3], *bars)


def _by_parts(residuals, bars):
    """P of output_bar and P of attn_bar, each multiplied by k and q: (10) and (11) twice."""
    q, k, v, A = residuals
    D = (1 - A) * (1 + A)
    parts = D * (bars[0] @ v.T), D * bars[1]
    return sum(P @ k for P in parts), sum(P.T @ q for P in parts), A.T @ bars[0]


@pytest.mark.parametrize(
    ("bwd", "count", "more"),
    [
        pytest.param(_scores_again, backward_alone, 1, id="scores_again-alone"),
        pytest.param(_by_parts, backward_alone, 2, id="by_parts-alone", marks=pytest.mark.slow),
        pytest.param(_by_parts, one_program, 2, id="by_parts-one_program"),
    ],
)
def test_a_product_more_is_counted(bwd, count, more):
    assert count(_with_backward(bwd), "both") == count(attn_primal, "both") + more


def test_a_product_more_is_counted_forward():
    def twice(q, k, v):
        output, A = attn_primal(q, k, v)
        return output + jnp.tanh(A) @ v, A

    assert forward(twice) == forward(attn_primal) + 1


def test_a_product_more_is_counted_in_forward_mode():
    @jax.custom_jvp
    def op(q, k, v):
        return attn_primal(q, k, v)

    @op.defjvp
    def _(primals, dots):
        q, k, v = primals
        one_by_one = [
            attn_jvp(q, k, v, dots[0], None, None),
            attn_jvp(q, k, v, None, dots[1], dots[2]),
        ]
        return op(q, k, v), jax.tree.map(jnp.add, *one_by_one)

    assert tangents(op) == tangents(attn_primal) + 1
