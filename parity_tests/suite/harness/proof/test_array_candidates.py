"""The programs of candidates in NumPy, whose operations JAX does, too."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import ArrayCandidate, OpSpec
from parity_tests.harness.findings import Verdict
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast

SOFTMAX = OpSpec("softmax", jax.nn.softmax, "(n,d)->(n,d)")
ATTN = OpSpec("attn", lambda q, k, v: jnp.tanh(q @ k.T) @ v, "(n,d),(m,d),(m,e)->(n,e)")


def softmax(x):
    y = np.exp(x - x.max(-1, keepdims=True))
    y /= y.sum(-1, keepdims=True)
    return y


def softmax_vjp(x, y_bar):
    y = softmax(x)
    return y * (y_bar - (y * y_bar).sum(-1, keepdims=True))


def softmax_jvp(x, x_dot):
    y = softmax(x)
    y_dot = np.zeros_like(y)
    for i, (row, direction) in enumerate(zip(y, x_dot, strict=True)):
        y_dot[i] = row * (direction - np.dot(row, direction))
    return y_dot


def attn(q, k, v):
    return np.tanh(q @ k.T) @ v


def attn_vjp(q, k, v, output_bar):
    attn = np.tanh(q @ k.T)
    s_bar = np.multiply(1 - attn**2, output_bar @ v.T, out=np.empty_like(attn))
    return s_bar @ k, np.einsum("nm,nd->md", s_bar, q), attn.T @ output_bar


@pytest.mark.slow
def test_values_vjp_and_jvp_are_proved() -> None:
    row = judged(ArrayCandidate(softmax, softmax_vjp, softmax_jvp), SOFTMAX, "proof")
    assert row.verdict is Verdict.PROVED, row.reason
    assert row.proofs[0].startswith("forward, vjp, jvp proved to be the oracle's formula")
    assert row.proofs[1].startswith("vjp_of_vjp is refused")


@pytest.mark.slow
def test_several_inputs_are_proved() -> None:
    row = judged(ArrayCandidate(attn, attn_vjp), ATTN, "proof")
    assert row.verdict is Verdict.PROVED, row.reason


def test_a_term_that_float64_rounds_away_is_shown() -> None:
    row = judged(ArrayCandidate(softmax, lambda x, y_bar: softmax_vjp(x, y_bar) + 1e-40 * x), SOFTMAX, "proof")
    assert row.verdict is Verdict.MISMATCH
    assert any(line.startswith("vjp differs at n = 4, d = 3") for line in row.proofs)


def _through_a_view(x, y_bar):
    """Right, but by a write to a view, which the arrays that are traced do not see: as if half of a row were lost."""
    product = y_bar * softmax(x)
    row = product[0]
    row *= 2
    product[0] = product[0] / 2
    return softmax(x) * (y_bar - product.sum(-1, keepdims=True))


def _branching(x, y_bar):
    return softmax_vjp(x, y_bar) if x.max() < 1e9 else 0 * x


def _of_type(x, y_bar):
    if not isinstance(x, np.ndarray):
        raise TypeError("an array is expected")
    return softmax_vjp(x, y_bar)


def _caught(x, y_bar):
    try:
        return _branching(x, y_bar)
    except Exception:
        return softmax_vjp(x, y_bar)


def _sorted_in_place(x, y_bar):
    y = y_bar.copy()
    y.sort()
    return softmax_vjp(x, y_bar + 1e-20 * (y - y_bar))


@fast("a view", "a branch")
@pytest.mark.parametrize(
    ("vjp", "reason"),
    [
        (_through_a_view, "the operations that are read compute other numbers, as of an array with views"),
        (_branching, "it takes numbers out of an array"),
        (lambda x, y_bar: softmax_vjp(np.asarray(x), y_bar), "it takes numbers out of an array"),
        (lambda x, y_bar: softmax_vjp(x, y_bar) + 0 * np.extract(x > -9e9, x)[0], "JAX "),
        (lambda x, y_bar: np.multiply(softmax_vjp(x, y_bar), 1, out=np.empty(x.shape)), "writes to an array"),
        (_of_type, "NumPy cannot trace it: TypeError: an array is expected"),
        (_caught, "it takes numbers out of an array"),
        (lambda x, y_bar: softmax_vjp(x, y_bar) * (1 if "e+" not in str(x) else 2), "it takes numbers out of an array"),
        (_sorted_in_place, "the method sort of an array writes to it"),
    ],
    ids=[
        *("a view", "a branch", "asarray", "a shape that follows from numbers", "out", "an error of its own"),
        *("a refusal that is caught", "a text", "a method in place"),
    ],
)
def test_what_is_not_read_is_not_proved(vjp: Callable, reason: str) -> None:
    row = judged(ArrayCandidate(softmax, vjp), SOFTMAX, "proof")
    assert row.verdict is Verdict.SKIPPED, row.reason
    assert reason in row.reason
