"""A digest of a program tells programs apart that JAX prints alike, and refuses what it cannot see."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from parity_tests.harness.language.digest import NoDigest, digest
from parity_tests.harness.numbers.numerics import pinned_jax

_LONG = np.arange(2000.0)


def _digest(f: Callable, *args: np.ndarray) -> str:
    with pinned_jax():
        return digest(jax.make_jaxpr(f)(*(args or (np.ones(3),))))


def _changed_in_the_middle() -> np.ndarray:
    x = _LONG.copy()
    x[1000] += 1e-9
    return x


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(lambda x: x + _LONG[:3], lambda x: x + (_LONG[:3] + 1e-13), id="a constant"),
        pytest.param(
            lambda x: jax.jit(lambda y: y + _LONG[0] * jnp.ones(3))(x),
            lambda x: jax.jit(lambda y: y + _LONG[1] * jnp.ones(3))(x),
            id="a constant of an inner program",
        ),
        pytest.param(
            lambda x: (x[:1] + _LONG).sum(), lambda x: (x[:1] + _changed_in_the_middle()).sum(), id="a long constant"
        ),
        pytest.param(lambda x: 0.1 * x, lambda x: np.nextafter(0.1, 1) * x, id="the last digit of a literal"),
        pytest.param(lambda x: jnp.sin(x), lambda x: jnp.cos(x), id="an operation"),
        pytest.param(lambda x: x**2, lambda x: x**3, id="a parameter"),
        pytest.param(lambda x: x - x * x, lambda x: x * x - x, id="the order of operands"),
        pytest.param(lambda x: (x, x * 2), lambda x: (x * 2, x), id="the order of results"),
        pytest.param(
            lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
            lambda x: lax.cond(x[0] > 0, jnp.cos, jnp.sin, x),
            id="branches",
        ),
        pytest.param(
            lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y), x),
            lambda x: lax.fori_loop(0, 4, lambda i, y: jnp.sin(y), x),
            id="the length of a loop",
        ),
    ],
)
def test_programs_that_differ(one: Callable, other: Callable):
    assert _digest(one) == _digest(one)
    assert _digest(one) != _digest(other)


def test_a_conversion_that_says_where_its_result_lies():
    """As JAX's VJP of a conversion to complex numbers does."""

    def pulled_back(x):
        return jax.vjp(lambda x: x.astype(complex), x)[1](x + 0j)

    assert _digest(pulled_back) == _digest(pulled_back)


def test_programs_at_other_shapes_differ():
    assert _digest(jnp.sin, np.ones(3)) != _digest(jnp.sin, np.ones(4))
    assert _digest(jnp.sin, np.ones(3)) != _digest(jnp.sin, np.ones(3, complex))


def test_a_rule_of_differentiation_is_seen_where_it_is_followed():
    def squared(factor: float) -> Callable:
        f = jax.custom_jvp(lambda x: x * x)
        f.defjvp(lambda x, t: (x[0] * x[0], factor * x[0] * t[0]))
        return lambda x: f(x)

    assert _digest(squared(2.0)) == _digest(squared(3.0))
    one, other = (lambda x, f=f: jax.jvp(f, (x,), (x,)) for f in map(squared, (2.0, 3.0)))
    assert _digest(one) != _digest(other)


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(
            lambda x: jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((3,), np.float64), x), id="a callback"
        ),
        pytest.param(
            lambda x: jax.jit(lambda y: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), np.float64), y))(x),
            id="a callback of an inner program",
        ),
        pytest.param(lambda x: jax.debug.print("{}", x) or x, id="an effect"),
        pytest.param(lambda x: x + jax.random.normal(jax.random.key(0), (3,)), id="random numbers"),
    ],
)
def test_what_cannot_be_seen_has_no_digest(f: Callable):
    with pytest.raises(NoDigest):
        _digest(f)
