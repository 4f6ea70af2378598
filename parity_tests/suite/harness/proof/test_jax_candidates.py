"""The programs of candidates in JAX, which JAX traces."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import JaxCandidate, OpSpec
from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.suite.harness._ops import SQUARE, judged


def _square(backward: Callable) -> Callable:
    square = jax.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), lambda x, y_bar: (backward(x, y_bar),))
    return square


@jax.custom_jvp
def softmax(x):
    y = jnp.exp(x - x.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True)


@softmax.defjvp
def _tangent(primals, tangents):
    y, (x_dot,) = softmax(*primals), tangents
    return y, y * (x_dot - (y * x_dot).sum(-1, keepdims=True))


@pytest.mark.parametrize("around", [lambda f: f, pytest.param(jax.jit, marks=pytest.mark.slow)], ids=["eager", "jit"])
def test_a_custom_vjp_is_proved_but_in_forward_mode(around: Callable) -> None:
    row = judged(JaxCandidate(around(_square(lambda x, y_bar: 2 * x * y_bar))), SQUARE, "proof")
    assert row.verdict is Verdict.PROVED, row.reason
    assert row.proofs[0].startswith("forward, vjp, vjp_of_vjp, jvp_of_vjp proved to be the oracle's formula")
    assert row.proofs[1].startswith("jvp is refused")


@pytest.mark.slow
def test_a_custom_jvp_is_proved_in_every_map() -> None:
    row = judged(JaxCandidate(softmax), OpSpec("softmax", jax.nn.softmax, "(n,d)->(n,d)"), "proof")
    assert row.verdict is Verdict.PROVED, row.reason
    assert row.proofs[0].startswith("forward, vjp, jvp, vjp_of_vjp, jvp_of_vjp proved ")


def test_a_term_that_float64_rounds_away_is_shown() -> None:
    row = judged(JaxCandidate(_square(lambda x, y_bar: 2 * x * y_bar + 1e-40 * x)), SQUARE, "proof")
    assert row.verdict is Verdict.MISMATCH
    assert any(line.startswith("vjp differs at the given shapes") for line in row.proofs)


def _callback(x):
    return jax.pure_callback(lambda x: np.asarray(x) ** 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def _every_second_time() -> Callable:
    """A function whose value is one unit in the last place too large at every second call."""
    calls = itertools.count()
    return lambda x: x * x * (1 + 2.0**-52 * (next(calls) % 2))


def _unless_traced(x, y_bar):
    return (2 if isinstance(y_bar, jax.core.Tracer) else 4) * x * y_bar


def _unless_refused(x, y_bar):
    try:
        return (4 if x.min() > 50 else 2) * x * y_bar
    except jax.errors.ConcretizationTypeError:
        return 2 * x * y_bar


@pytest.mark.parametrize("check", ["proof", "determinism"])
def test_a_candidate_is_run_outside_of_jit(check: str) -> None:
    assert judged(JaxCandidate(_square(_unless_traced)), SQUARE, check).verdict is Verdict.MISMATCH
    assert judged(JaxCandidate(_square(lambda x, y_bar: 2 * x * y_bar)), SQUARE, check).verdict in AGREE


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        (JaxCandidate(_square(lambda x, y_bar: _callback(x) / x * 2 * y_bar)), "'pure_callback'"),
        (JaxCandidate(_every_second_time()), "JAX's trace of it computes other numbers"),
        (JaxCandidate(_square(_unless_refused)), "it asks JAX's tracers for their numbers"),
    ],
    ids=["a callback", "no function", "a refusal that is caught"],
)
def test_what_is_not_read_is_not_proved(candidate: JaxCandidate, reason: str) -> None:
    row = judged(candidate, SQUARE, "proof")
    assert row.verdict is Verdict.SKIPPED
    assert reason in row.reason


def test_only_the_program_of_float64_is_read() -> None:
    row = judged(JaxCandidate(_square(lambda x, y_bar: 2 * x * y_bar)), SQUARE, "proof", "float32")
    assert row.verdict is Verdict.SKIPPED
    assert row.reason == "of such a candidate float64's program is read: --dtype float64, or dtypes=['float64']"
