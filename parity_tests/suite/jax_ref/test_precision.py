"""Errors in float32, bfloat16 and float16 against float64 truth and a derived bound; long sums; saturation."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref import attn, attn_ad, attn_jvp, attn_jvp_of_vjp, attn_primal, attn_vjp
from parity_tests.suite.jax_ref._cases import FORMULAS, Sizes, draw, jvp, jvp_of_vjp, quick_jit, vjp
from parity_tests.suite.jax_ref._rounding import Bounded, Rounding, error_over_bound
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

DTYPES = ("float32", "bfloat16", "float16")
SIZES = Sizes(n=24, m=40, d=16, e=8)


class Judged(NamedTuple):
    """A map in low precision, what it is in truth, and the method of `Rounding` that bounds it."""

    run: Callable
    truth: Callable
    bound: Callable
    arguments: str


VALUES = Judged(attn, attn_primal, Rounding.primal, "q k v")
JVP = Judged(attn_jvp, jvp, Rounding.jvp, "q k v q_dot k_dot v_dot")
VJP = Judged(attn_vjp, vjp, Rounding.vjp, "q k v output_bar attn_bar")
JVP_OF_VJP = Judged(
    attn_jvp_of_vjp,
    jvp_of_vjp,
    Rounding.jvp_of_vjp,
    "q k v output_bar attn_bar q_dot k_dot v_dot output_bar_dot attn_bar_dot",
)
judged = pytest.mark.parametrize(
    "judged",
    [
        pytest.param(VALUES, id="values"),
        pytest.param(JVP, id="jvp"),
        pytest.param(VJP, id="vjp"),
        pytest.param(JVP_OF_VJP, id="jvp_of_vjp"),
        pytest.param(JVP._replace(run=lambda *x: jax.jvp(attn_ad, x[:3], x[3:])[1]), id="jvp_of_attn_ad"),
        pytest.param(VJP._replace(run=lambda *x: jax.vjp(attn, *x[:3])[1](x[3:])), id="vjp_of_attn"),
    ],
)


def rounded(args: tuple, dtype: str) -> tuple:
    return tuple(jnp.asarray(x).astype(dtype) for x in args)


def judge(case: Judged, args: tuple, results: tuple | None = None) -> float:
    """Error over bound of a map (or of given results) at arguments of low precision."""
    exact = tuple(np.asarray(x).astype("float64") for x in args)
    bounds = case.bound(Rounding(str(args[0].dtype)), *(Bounded(x, np.zeros_like(x)) for x in exact))
    return error_over_bound(
        jax.jit(case.run)(*args) if results is None else results, quick_jit(case.truth)(*exact), bounds
    )


@rotating(3)
@fast("vjp-float32")
@pytest.mark.parametrize("dtype", DTYPES)
@judged
def test_errors_stay_in_the_bound(judged: Judged, dtype):
    """A rounding too many, such as a sum rounded before the next one is added to it, goes past it."""
    assert judge(judged, rounded(draw(SIZES, judged.arguments, seed=43), dtype)) <= 1


@fast("vjp")
@pytest.mark.parametrize(
    "case", [pytest.param(VALUES, id="values"), pytest.param(VJP, id="vjp"), pytest.param(JVP_OF_VJP, id="jvp_of_vjp")]
)
def test_the_bound_rejects_tf32(case: Judged):
    """A bound that all things pass would be no bound: factors with 10 bits after the point, as TF32 has, do not."""
    args = rounded(draw(SIZES, case.arguments, seed=43), "float32")
    tf32 = rounded(rounded(args, "float16"), "float32")  # float16 has 10 bits, too, and range enough for these
    assert judge(case, args, jax.jit(case.run)(*tf32)) > 1


# Sums of 1024 terms of one sign: kept in bfloat16 or float16 they would stop to grow long before the end.


def positive(sizes: Sizes, names: str, dtype: str) -> tuple:
    """Uniform numbers in [1/2, 1); those of q and k are smaller where d is large, so that tanh is not saturated."""
    args = draw(sizes, names, seed=44)
    rng = np.random.default_rng(44)
    scale = {"q": sizes.d**-0.5, "k": sizes.d**-0.5}
    return rounded(
        tuple(scale.get(name, 1.0) * rng.uniform(0.5, 1, x.shape) for name, x in zip(names.split(), args, strict=True)),
        dtype,
    )


def narrow_vjp(q, k, v, output_bar, attn_bar):
    """The VJP in NumPy with sums kept in the dtype of the arguments."""

    def mm(x, y):
        terms = x[:, :, None] * y[None, :, :]
        return np.add.accumulate(terms, axis=1)[:, -1]

    A = np.tanh(mm(q, k.T))
    P = (1 - A) * (1 + A) * (attn_bar + mm(output_bar, v.T))
    return mm(P, k), mm(P.T, q), mm(A.T, output_bar)


@pytest.mark.slow
@rotating(3)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("axis", "nmde")
def test_long_sums_lose_nothing(axis, dtype):
    sizes = Sizes(2, 2, 2, 2)._replace(**{axis: 1024})
    for case in (VALUES, JVP, VJP):
        assert judge(case, positive(sizes, case.arguments, dtype)) <= 1
    args = positive(sizes, VJP.arguments, dtype)
    assert judge(VJP, args, narrow_vjp(*map(np.asarray, args))) > 1, "sums kept in low precision must not pass"


# Saturation.


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_slope_of_tanh_keeps_its_digits(dtype):
    """(1 - A)(1 + A), given A, is right to three roundings however near A is to 1; 1 - A² is not."""
    eps = float(jnp.finfo(dtype).eps)
    q = jnp.linspace(0.01, -0.5 * np.log(eps), 200, dtype=dtype)[:, None]  # up to where 1 - A is about eps
    k, v = jnp.ones((1, 1), dtype), jnp.ones((1, 1), dtype)
    (_, A), pull = jax.vjp(lambda q: attn(q, k, v), q)
    (slope,) = pull((jnp.zeros_like(A), jnp.ones_like(A)))  # P of (9), with k = 1

    exact = [(1 - a) * (1 + a) for a in map(Fraction, np.asarray(A, "float64")[:, 0].tolist())]
    u = Fraction(eps) / 2
    allowed = (1 + u) ** 3 - 1

    def wrong(slopes) -> int:
        slopes = map(Fraction, np.asarray(slopes, "float64")[:, 0].tolist())
        return sum(abs(x - y) > allowed * y for x, y in zip(slopes, exact, strict=True))

    assert sum(0 < y < u * 100 for y in exact) > 5, "some points must be near saturation"
    assert wrong(slope) == 0
    assert wrong(1 - A * A) > 0, "the other form must not pass"


@fast("*-float64")
@pytest.mark.parametrize("dtype", ["float64", *DTYPES])
@pytest.mark.parametrize("kind", ["saturated", "overflowing", "vanishing"])
def test_extreme_inputs_have_finite_derivatives(kind, dtype):
    """tanh is 1 exactly, or of ∞, or linear: nothing is divided, subtracted or multiplied into an inf or a NaN."""
    info = jnp.finfo(dtype)
    size = {"saturated": 100.0, "overflowing": 2 * float(info.max) ** 0.5, "vanishing": float(info.tiny)}[kind]
    sizes = Sizes(3, 5, 4, 2)
    for formula in FORMULAS.values():
        args = draw(sizes, formula.arguments, seed=45)
        args = (np.full_like(args[0], size), np.full_like(args[1], size), *args[2:])
        results = quick_jit(formula.explicit)(*rounded(args, dtype))
        assert all(np.all(np.isfinite(np.asarray(x, "float64"))) for x in results)
    _, A = attn(*rounded(args[:3], dtype))
    assert np.all(np.abs(A) < 1e-6) if kind == "vanishing" else np.all(A == 1)
