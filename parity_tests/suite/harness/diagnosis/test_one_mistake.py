"""Mistakes in one equation of a program: each is found, called by its name, and gives what a person's mistake would."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.harness.diagnosis.one_mistake import mistakes, outcomes
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4))


def _outcomes(f: Callable, *args: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    labels = ["x", "y"][: len(args)]
    with pinned(), np.errstate(all="ignore"):
        closed = jax.make_jaxpr(f)(*args)
        found = mistakes(closed, args, labels, [])
        return {mistake.text: pair for mistake, pair in outcomes(closed, args, found, 0, FLOAT64)}


@pytest.mark.parametrize(
    ("f", "args", "text", "expected"),
    [
        (lambda x, y: x + y * y, (X, Y), "without y * y in (x + y * y)", X),
        (lambda x, y: x - y, (X, Y), "without x in (x + -y)", -Y),
        (lambda x, y: x - y, (X, Y), "with the other sign of y in (x + -y)", X + Y),
        (lambda x, y: x + y, (X, Y), "with the other sign of y in (x + y)", X - Y),
        (lambda x, y: jnp.sin(x) * y, (X, Y), "without the factor sin(x) of y", Y),
        (lambda x, y: x / y, (X, Y), "without the division of x by y", X),
        (lambda x: jnp.exp(jnp.tanh(x)), (X,), "with x in place of tanh(x)", np.exp(X)),
        (lambda x: -x, (X,), "without the sign of -x", X),
        (lambda x: x.sum(0), (X,), "with the mean in place of sum(x)", X.mean(0)),
        (lambda x: x.sum(0), (X,), "with the first entry in place of sum(x)", X[0]),
        (lambda x: x.sum(0), (X,), "with the last entry in place of sum(x)", X[-1]),
        (
            lambda x: x * x.sum(1, keepdims=True),
            (X,),
            "with the sum along axis 0, and not 1, in place of sum(x)",
            X * X.sum(0),
        ),
        (
            lambda x, y: y * jnp.exp(x.mean(1, keepdims=True) * y.sum(1, keepdims=True)),
            (X, Y),
            "with the mean along axis 0, and not 1, in place of sum(x)",
            Y * np.exp(X.mean(0) * Y.sum(1, keepdims=True)),
        ),
        (
            lambda x, y: jnp.where(x > 0, x, y),
            (X, Y),
            "as if the condition always held in select_n(gt(x, 0), y, x)",
            X,
        ),
        (
            lambda x, y: jnp.where(x > 0, x, y),
            (X, Y),
            "as if the condition never held in select_n(gt(x, 0), y, x)",
            Y,
        ),
        (lambda x, y: jax.jit(jnp.multiply)(x, y), (X, Y), "without the factor x of y", Y),
    ],
)
def test_each_kind(f: Callable, args: Sequence[np.ndarray], text: str, expected: np.ndarray) -> None:
    found = _outcomes(f, *args)
    assert text in found, sorted(found)
    value, bound = found[text]
    assert value.shape == expected.shape
    assert (np.abs(value - expected) <= bound + 1e-15).all()
    assert (bound < 1e-12).all()


def test_the_result_has_its_shape() -> None:
    """Along the other axis the sum of a matrix has another number of entries."""
    assert not [text for text in _outcomes(lambda x: x.sum(0), X) if "axis" in text]


def test_a_long_program_is_left_alone() -> None:
    def f(x: jax.Array) -> jax.Array:
        for _ in range(500):
            x = jnp.sin(x)
        return x

    assert not _outcomes(f, X)
