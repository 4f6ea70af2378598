"""JAX's own rules of differentiation, proved against a definition of the function by others, to second order.

The oracle differentiates its primals by these rules; a wrong one would accuse right code.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from parity_tests.harness.proof.proof import sameness
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

X = np.random.default_rng(0).standard_normal((2, 3))
POSITIVE, UNIT = np.abs(X) + 0.25, np.tanh(X)
MATRIX = np.eye(3) * 4 + np.random.default_rng(1).standard_normal((3, 3))

Rule = tuple[Callable[[jax.Array], jax.Array], Callable[[jax.Array], jax.Array], np.ndarray]


def _tanh(x):
    return (jnp.exp(x) - jnp.exp(-x)) / (jnp.exp(x) + jnp.exp(-x))


def _inverse(x):
    """By cofactors."""
    a, b, c, d, e, f, g, h, i = x.ravel()
    rows = [[e * i - f * h, c * h - b * i, b * f - c * e], [f * g - d * i, a * i - c * g, c * d - a * f],
            [d * h - e * g, b * g - a * h, a * e - b * d]]  # fmt: skip
    return jnp.array(rows) / _determinant(x)


def _determinant(x):
    a, b, c, d, e, f, g, h, i = x.ravel()
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


# A function with a rule of JAX's, its definition, and where.
RULES: dict[str, Rule] = {
    "tanh": (jnp.tanh, _tanh, X),
    "logistic": (lax.logistic, lambda x: 1 / (1 + jnp.exp(-x)), X),
    "sinh": (jnp.sinh, lambda x: (jnp.exp(x) - jnp.exp(-x)) / 2, X),
    "cosh": (jnp.cosh, lambda x: (jnp.exp(x) + jnp.exp(-x)) / 2, X),
    "expm1": (jnp.expm1, lambda x: jnp.exp(x) - 1, X),
    "log1p": (jnp.log1p, lambda x: jnp.log(1 + x), POSITIVE),
    "tan": (jnp.tan, lambda x: jnp.sin(x) / jnp.cos(x), X),
    "asinh": (jnp.arcsinh, lambda x: jnp.log(x + jnp.sqrt(x * x + 1)), X[0, :2]),
    "acosh": (jnp.arccosh, lambda x: jnp.log(x + jnp.sqrt(x * x - 1)), 1 + POSITIVE[0, :2]),
    "atanh": (jnp.arctanh, lambda x: jnp.log((1 + x) / (1 - x)) / 2, UNIT),
    "rsqrt": (lax.rsqrt, lambda x: 1 / jnp.sqrt(x), POSITIVE),
    "sqrt": (jnp.sqrt, lambda x: jnp.exp(jnp.log(x) / 2), POSITIVE[0]),
    "square": (lax.square, lambda x: x * x, X),
    "integer_pow": (lambda x: x**5, lambda x: x * x * x * x * x, X),
    "pow": (lambda x: x**2.5, lambda x: x * x * jnp.sqrt(x), POSITIVE[0]),
    "div": (lambda x: x[0] / x[1], lambda x: x[0] * x[1] ** -1, X),
    "reduce_prod": (lambda x: jnp.prod(x, 1), lambda x: x[:, 0] * x[:, 1] * x[:, 2], X),
    "reduce_max": (lambda x: x.max(1), lambda x: jnp.maximum(jnp.maximum(x[:, 0], x[:, 1]), x[:, 2]), X),
    "cumsum": (lambda x: jnp.cumsum(x, 1) ** 2, lambda x: (x @ jnp.triu(jnp.ones((3, 3)))) ** 2, X),
    "cumprod": (
        lambda x: jnp.cumprod(x, 1),
        lambda x: jnp.stack([x[:, 0], x[:, 0] * x[:, 1], x[:, 0] * x[:, 1] * x[:, 2]], 1),
        X,
    ),
    "cumlogsumexp": (
        lambda x: lax.cumlogsumexp(x, 1), lambda x: jnp.log(jnp.cumsum(jnp.exp(x), 1)), X[:, :2],
    ),
    "sort": (
        lambda x: jnp.sort(x, 1)[:, 0] ** 2, lambda x: jnp.minimum(jnp.minimum(x[:, 0], x[:, 1]), x[:, 2]) ** 2, X,
    ),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, 1), lambda x: jnp.log(jnp.exp(x).sum(1)), X),
    "logaddexp": (lambda x: jnp.logaddexp(x[0], x[1]), lambda x: jnp.log(jnp.exp(x[0]) + jnp.exp(x[1])), X),
    "softmax": (jax.nn.softmax, lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), X),
    "silu": (jax.nn.silu, lambda x: x / (1 + jnp.exp(-x)), X),
    "relu": (jax.nn.relu, lambda x: jnp.where(x > 0, x, 0), X),
    "relu6": (jax.nn.relu6, lambda x: jnp.where(x > 0, x, 0), X),
    "softplus": (jax.nn.softplus, lambda x: jnp.log(1 + jnp.exp(x)), X),
    "sinc": (jnp.sinc, lambda x: jnp.sin(np.pi * x) / (np.pi * x), X),
    "xlogy": (lambda x: jax.scipy.special.xlogy(x[0], x[1]), lambda x: x[0] * jnp.log(x[1]), POSITIVE),
    "xlog1py": (lambda x: jax.scipy.special.xlog1py(x[0], x[1]), lambda x: x[0] * jnp.log(1 + x[1]), POSITIVE),
    "entr": (jax.scipy.special.entr, lambda x: -x * jnp.log(x), POSITIVE),
    "logit": (jax.scipy.special.logit, lambda x: jnp.log(x / (1 - x)), POSITIVE / 4),
    "det": (jnp.linalg.det, _determinant, MATRIX),
    "slogdet": (lambda x: jnp.linalg.slogdet(x)[1], lambda x: jnp.log(jnp.abs(_determinant(x))), MATRIX),
    "inv": (jnp.linalg.inv, _inverse, MATRIX),
    "solve": (lambda x: jnp.linalg.solve(x, x[0] ** 2), lambda x: _inverse(x) @ x[0] ** 2, MATRIX),
    "cholesky": (
        lambda x: (c := jnp.linalg.cholesky(x @ x.T)) @ c.T, lambda x: x @ x.T, MATRIX,
    ),
}  # fmt: skip


def differs(rule: Callable, definition: Callable, x: np.ndarray) -> list[int]:
    """The number of entries of the JVP, the VJP and the JVP of the JVP in which two functions differ."""
    rng = np.random.default_rng(2)
    u, v = rng.standard_normal((2, *x.shape))

    def derivatives(f, x, u, v, bar):
        def first(x):
            return jax.jvp(f, (x,), (u,))[1]

        return first(x), jax.vjp(f, x)[1](bar)[0], jax.jvp(first, (x,), (v,))[1]

    with jax.enable_x64(True):
        args = x, u, v, rng.standard_normal(jax.eval_shape(rule, x).shape)
        programs = [jax.make_jaxpr(lambda *args, f=f: derivatives(f, *args))(*args) for f in (rule, definition)]
        return [int(each.sum()) for each in sameness(*programs, args).differs]


@rotating(3)
@fast("tanh", "relu", "reduce_max", "solve")
@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_jax_is_the_derivative_of_the_definition(name: str) -> None:
    assert differs(*RULES[name]) == [0, 0, 0]


@jax.custom_jvp
def _wrong_tanh(x):
    return jnp.tanh(x)


@_wrong_tanh.defjvp
def _wrong_rule(primals, tangents):
    y = _wrong_tanh(primals[0])
    return y, (1 - y * y * (1 + 2.0**-30) * (1 - 2.0**-30)) * tangents[0]


def test_a_wrong_rule_is_told() -> None:
    assert differs(_wrong_tanh, _tanh, X) == [6, 6, 6]
