"""Primitives in NumPy against JAX: the same values, shapes and dtypes, for every way that they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.extend import core

from parity_tests.harness.language.calls import called
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.movements import broadcaster
from parity_tests.suite.harness._ops import normal
from parity_tests.suite.marks import fast


def compare(f: Callable, *args: Any, rtol: float = 1e-13) -> set[str]:
    """Hold every equation of a function against JAX's own evaluation of it; returns the names of the primitives."""
    with pinned():
        program = jax.make_jaxpr(f)(*args)
        names = set(_compare(program, [np.asarray(x) for x in args], rtol))
        want = jax.tree.leaves(f(*map(jnp.asarray, args)))
        for ours, theirs in zip(evaluate(program, *map(np.asarray, args)), want, strict=True):
            np.testing.assert_allclose(ours, np.asarray(theirs), rtol=100 * rtol, atol=100 * rtol)
    return names


def _compare(program: core.ClosedJaxpr, args: list[np.ndarray], rtol: float) -> list[str]:
    known = dict(zip(program.jaxpr.constvars, map(np.asarray, program.consts), strict=True))
    known |= zip(program.jaxpr.invars, args, strict=True)
    names = []
    for eqn in program.jaxpr.eqns:
        x = [np.asarray(a.val) if isinstance(a, core.Literal) else known[a] for a in eqn.invars]
        inner = called(eqn)
        if inner is not None:
            names += _compare(inner, x, rtol)
        with np.errstate(all="ignore"):
            ours = evaluate(inner, *x) if inner is not None else evaluated(eqn, *x)
        theirs = eqn.primitive.bind(*x, **eqn.params) if inner is None else core.jaxpr_as_fun(inner)(*x)
        several = inner is not None or eqn.primitive.multiple_results
        for a, b in zip(ours if several else [ours], theirs if several else [theirs], strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert (a.shape, a.dtype) == (b.shape, b.dtype), eqn
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=eqn.primitive.name)
        known |= zip(eqn.outvars, map(np.asarray, ours if several else [ours]), strict=True)
        names.append(eqn.primitive.name)
    return names


def _programs() -> dict[str, Callable]:
    return {
        "softmax": lambda x: jax.nn.softmax(x, 1) + jax.nn.logsumexp(x),
        "scans": lambda x: jnp.cumsum(x, 1) + jnp.cumprod(x, 2)[:, ::-1] + lax.cummax(x, 0, reverse=True),
        "scans_from_the_end": lambda x: (
            lax.cumsum(x, 1, reverse=True) + lax.cumprod(x, 0, reverse=True) + lax.cummin(x, 2)
        ),
        "powers": lambda x: x**3 + x**-2 + jnp.square(x) + jnp.abs(x) ** 1.7 + lax.rsqrt(jnp.abs(x)) + jnp.cbrt(x),
        "pads": lambda x: (
            jnp.pad(x, ((1, 0), (0, 1), (2, 2)), constant_values=3.0),
            lax.pad(x, 0.5, ((-1, 2, 1), (1, -1, 0), (0, 0, 2))),
        ),
        "pieces": lambda x: (*jnp.split(x, [1, 3], 2), jnp.concatenate([x, x], 1), x[1:, ::2], jnp.expand_dims(x, 1)),
        "choices": lambda x: (
            jnp.where(x > 0, x, -x) + jnp.clip(x, -0.5, 0.5) + jnp.maximum(x, 0.1) + jnp.minimum(x, 0.2)
        ),
        "logic": lambda x: ((x > 0) & (x < 1) | ~(x >= -1), jnp.isfinite(x), x == x, x != x, jnp.sum(x <= 0)),
        "reductions": lambda x: (x.max((0, 2)), x.min(), jnp.prod(x, 1), x.mean((1, 2)), jnp.var(x, 0)),
        "functions": lambda x: (
            jnp.arctan2(x, x + 1),
            lax.erf(x),
            lax.erfc(x),
            lax.logistic(x),
            jnp.floor(x),
            jnp.ceil(x),
        ),
        "more_functions": lambda x: (
            jnp.sinh(x),
            jnp.cosh(x),
            jnp.tan(x),
            jnp.arctan(x),
            jnp.expm1(x),
            jnp.exp2(x),
            jnp.arcsinh(x),
        ),
        "transposed": lambda x: jnp.transpose(x, (2, 0, 1)).reshape(-1, 3),
        "loop": lambda x: lax.scan(lambda c, a: (jnp.sin(c) + a, c), x[0], x)[0],
    }


@fast("scans_from_the_end", "pieces", "loop")
@pytest.mark.parametrize("name", _programs())
def test_programs(name):
    assert compare(_programs()[name], normal(4, 3, 5), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0, -0.0])
def test_infinities_and_nan_go_where_they_go_in_jax(special):
    x = normal(3, 4)
    x[1] = special
    compare(lambda x: (x.max(1), x.min(0), jnp.maximum(x, 0.5), jnp.clip(x, -1, 1), x / x, jnp.exp(x), jnp.sum(x)), x)


@fast("ijk,kil->iljk")
@pytest.mark.parametrize("contraction", ["ijk,kil->lj", "ijk,kil->iljk", "ijk,kij->", "ijk,lim->jklm"])
def test_contractions(contraction):
    sizes = {"i": 4, "j": 3, "k": 5, "l": 2, "m": 3}
    left, right = contraction.split("->")[0].split(",")
    x, y = (normal(*(sizes[axis] for axis in axes), seed=seed) for seed, axes in enumerate((left, right)))
    for a, b in ((x, y), (x + 1j * x[::-1], y), (x * 0, y)):
        assert "dot_general" in compare(
            lambda x, y: jnp.einsum(contraction, x, y), a, b * (1 + 0j) if np.iscomplexobj(a) else b
        )


def test_an_empty_contraction():
    compare(lambda x, y: x @ y, np.zeros((3, 0)), np.zeros((0, 2)))
    compare(lambda x, y: x @ y, np.zeros((0, 3)), np.ones((3, 2)))


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    d = draw(st.integers(1, 3))
    numbers = st.integers(1, 2)
    by_features, by_batch = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (1, 2)]))
    batch, features = draw(st.integers(0, 2)) * by_batch, draw(numbers) * by_features
    out = draw(numbers) * by_features * by_batch
    shape = [draw(st.integers(0, 6)) for _ in range(d)]
    kernel = [draw(st.integers(1, 3)) for _ in range(d)]
    of_x, of_w, of_y = (tuple(draw(st.permutations(range(d + 2)))) for _ in range(3))
    x = np.transpose(normal(batch, features, *shape), np.argsort(of_x))
    w = np.transpose(normal(out, features // by_features, *kernel, seed=1), np.argsort(of_w))
    params = {
        "window_strides": tuple(draw(numbers) for _ in range(d)),
        "padding": [(draw(st.integers(-1, 2)), draw(st.integers(-1, 2))) for _ in range(d)],
        "lhs_dilation": tuple(draw(numbers) for _ in range(d)),
        "rhs_dilation": tuple(draw(numbers) for _ in range(d)),
        "dimension_numbers": lax.ConvDimensionNumbers(of_x, of_w, of_y),
        "feature_group_count": by_features,
        "batch_group_count": by_batch,
    }
    return x, w, params


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(convolutions())
def test_convolutions(convolution):
    x, w, params = convolution
    try:
        with pinned():
            lax.conv_general_dilated(x, w, **params)
    except (TypeError, ValueError):  # JAX refuses it: the padding takes more away than there is
        return
    compare(lambda x, w: lax.conv_general_dilated(x, w, **params), x, w)


@pytest.mark.slow
def test_a_depthwise_convolution_and_its_derivatives():
    def f(x, w):
        return lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)], feature_group_count=3)

    x, w = normal(2, 3, 7, 6), normal(6, 1, 3, 3, seed=1)
    compare(lambda x, w: (f(x, w), *jax.grad(lambda *a: jnp.sum(f(*a) ** 2), (0, 1))(x, w)), x, w)


def test_nothing_is_compiled_for_a_new_shape(monkeypatch):
    """The point of it all. What JAX itself evaluates goes through `apply_primitive`."""
    from jax._src import dispatch  # the only place where a compilation can be seen

    with pinned():
        programs = [jax.make_jaxpr(_programs()["softmax"])(normal(n, 3, 5)) for n in (3, 11)]

        def refused(primitive, *args, **params):
            raise AssertionError(f"JAX evaluates {primitive}")

        monkeypatch.setattr(dispatch, "apply_primitive", refused)
        for program, n in zip(programs, (3, 11), strict=True):
            assert np.isfinite(evaluate(program, normal(n, 3, 5))[0]).all()


@pytest.mark.slow
def test_the_real_part_of_a_complex_number():
    """The transpose of a conversion to complex numbers, which NumPy would warn of."""
    with pinned():
        program = jax.make_jaxpr(jax.grad(lambda x: jnp.abs(jnp.sum(x.astype(complex) * (1 + 2j)))))(normal(3))
        assert "convert_element_type" in _compare(program, [normal(3)], 1e-13)


def test_infinity_less_infinity_warns_of_nothing():
    with pinned():
        program = jax.make_jaxpr(lambda x, y: x + y)(jnp.ones(1), jnp.ones(1))
        (total,) = evaluate(program, np.array([np.inf]), np.array([-np.inf]))
    assert np.isnan(total).all()


@pytest.mark.parametrize("x", [normal(4, 3), normal(4, 3) > 0, normal(3, 4).T, normal(4, 3)[:, ::-1], normal(1, 3)])
@pytest.mark.parametrize(("shape", "axes"), [((4, 3), (0, 1)), ((2, 4, 3), (1, 2)), ((4, 5, 3), (0, 2))])
def test_an_array_is_broadcast_as_by_numpy(x, shape, axes):
    """Its strides, too: they decide in which order a sum of it is added up."""
    ours = broadcaster(x.shape, shape, axes)(x)
    aligned = [x.shape[axes.index(axis)] if axis in axes else 1 for axis in range(len(shape))]
    theirs = np.broadcast_to(x.reshape(aligned), shape)
    assert np.array_equal(ours, theirs)
    assert (ours.dtype, ours.strides, ours.flags.writeable) == (theirs.dtype, theirs.strides, False)
