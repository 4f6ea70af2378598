"""Dtypes: what goes in comes out, sums are kept in float32 at least, and errors stay in a bound that is derived."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

from jax_ref import attn, attn_ad, attn_jvp, attn_jvp_of_vjp, attn_primal, attn_vjp
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, FORMULAS, Sizes, draw, jvp, jvp_of_vjp, quick_jit, vjp

DTYPES = ("float64", "float32", "bfloat16", "float16", "complex128", "complex64")
LOW = ("float32", "bfloat16", "float16")


def rounded(arrays: tuple, dtype: str) -> tuple:
    return tuple(jnp.asarray(x).astype(dtype) for x in arrays)


# Every derivative of both faces, as a map of q, k, v, output_bar, attn_bar and three tangents.
DERIVATIVES: dict[str, Callable] = {
    "attn": lambda p, bars, dots: attn(*p),
    "attn_ad": lambda p, bars, dots: attn_ad(*p),
    "attn_primal": lambda p, bars, dots: attn_primal(*p),
    "vjp_of_attn": lambda p, bars, dots: jax.vjp(attn, *p)[1](bars),
    "vjp_of_attn_ad": lambda p, bars, dots: jax.vjp(attn_ad, *p)[1](bars),
    "jvp_of_attn_ad": lambda p, bars, dots: jax.jvp(attn_ad, p, dots),
    "jvp_of_vjp_of_attn": lambda p, bars, dots: jax.jvp(lambda *p: jax.vjp(attn, *p)[1](bars), p, dots),
    "vjp_of_vjp_of_attn": lambda p, bars, dots: jax.vjp(lambda *p: jax.vjp(attn, *p)[1](bars), *p)[1](dots),
    "jvp_of_jvp_of_attn_ad": lambda p, bars, dots: jax.jvp(lambda *p: jax.jvp(attn_ad, p, dots), p, dots),
    "vjp_of_jvp_of_attn_ad": lambda p, bars, dots: jax.vjp(lambda *p: jax.jvp(attn_ad, p, dots)[1], *p)[1](bars),
    "v_moves_alone": lambda p, bars, dots: jax.jvp(lambda v: attn_ad(*p[:2], v), p[2:], dots[2:]),
    "attn_bar_absent": lambda p, bars, dots: jax.vjp(lambda *p: attn(*p)[0], *p)[1](bars[0]),
}
DERIVATIVES |= {
    name: lambda p, bars, dots, formula=formula: formula.explicit(
        *p,
        *(
            {"q": dots[0], "k": dots[1], "v": dots[2], "output": bars[0], "attn": bars[1]}[x.split("_")[0]]
            for x in formula.directions
        ),
    )
    for name, formula in FORMULAS.items()
}
derivatives = pytest.mark.parametrize("derivative", [pytest.param(f, id=name) for name, f in DERIVATIVES.items()])


def arguments(dtype: str) -> tuple[tuple, tuple, tuple]:
    names = ("q k v", "output_bar attn_bar", "q_dot k_dot v_dot")
    return tuple(
        rounded(draw(ALL_DIFFER, x, seed=seed, complex=dtype[0] == "c"), dtype) for seed, x in enumerate(names, 40)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@derivatives
def test_the_dtype_that_goes_in_comes_out(derivative, dtype):
    results = jax.tree.leaves(jax.eval_shape(derivative, *arguments(dtype)))
    assert results
    assert {str(x.dtype) for x in results} == {dtype}


def products(jaxpr: Jaxpr) -> list:
    """All matrix products of a trace, nested ones too."""
    found = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "dot_general"]
    for eqn in jaxpr.eqns:
        for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda x: isinstance(x, ClosedJaxpr)):
            if isinstance(inner, ClosedJaxpr):
                found += products(inner.jaxpr)
    return found


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@derivatives
def test_low_precision_is_summed_in_float32(derivative, dtype):
    found = products(jax.make_jaxpr(derivative)(*arguments(dtype)).jaxpr)
    assert found
    assert {str(eqn.outvars[0].aval.dtype) for eqn in found} == {"float32"}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["attn", "vjp_of_attn", "jvp_of_attn_ad", *FORMULAS])
def test_explicit_products_have_low_precision_factors(name, dtype):
    """What a matrix unit takes: a factor left in float32 would be computed at a fraction of the speed."""
    found = products(jax.make_jaxpr(DERIVATIVES[name])(*arguments(dtype)).jaxpr)
    assert found
    assert {str(x.aval.dtype) for eqn in found for x in eqn.invars} == {dtype}


# The bound: the formulas once more, in float64, on pairs of a value and of how far off the rounded one may be.


class Bounded(NamedTuple):
    value: np.ndarray
    error: np.ndarray

    @property
    def largest(self) -> np.ndarray:
        return np.abs(self.value) + self.error


class Rounding:
    """What each operation adds to the error, from the standard model of rounding: fl(x op y) = (x op y)(1 + δ), |δ| ≤ u."""

    def __init__(self, dtype: str):
        self.u = float(jnp.finfo(dtype).eps) / 2  # of storage
        self.u_sum = float(jnp.finfo("float32").eps) / 2  # of arithmetic
        self.underflow = float(jnp.finfo(dtype).smallest_subnormal if dtype == "float16" else jnp.finfo("float32").tiny)

    def stored(self, x: Bounded) -> Bounded:
        extra = self.u * x.largest + self.underflow if self.u > self.u_sum else 0.0
        return Bounded(x.value, x.error + extra)

    def mm(self, subscripts: str, x: Bounded, y: Bounded) -> Bounded:
        terms = np.shape(x.value)[subscripts.index((set(subscripts[:2]) - set(subscripts[6:])).pop())]
        gamma = terms * self.u_sum / (1 - terms * self.u_sum)  # a sum of products, added in any order
        value = np.einsum(subscripts, x.value, y.value)
        largest = np.einsum(subscripts, x.largest, y.largest)
        factors = largest - np.einsum(subscripts, np.abs(x.value), np.abs(y.value))
        return Bounded(value, factors + gamma * largest)

    def add(self, *terms: Bounded) -> Bounded:
        total = terms[0]
        for x in terms[1:]:
            inherited = Bounded(total.value + x.value, total.error + x.error)
            total = Bounded(inherited.value, inherited.error + self.u_sum * inherited.largest)
        return total

    def mul(self, x: Bounded, y: Bounded) -> Bounded:
        largest = x.largest * y.largest
        return Bounded(x.value * y.value, largest - np.abs(x.value * y.value) + self.u_sum * largest)

    def tanh(self, x: Bounded) -> Bounded:
        value = np.tanh(x.value)
        # The slope is largest where the interval around x is nearest to 0.
        slope = 1 - np.tanh(np.maximum(np.abs(x.value) - x.error, 0)) ** 2
        inherited = Bounded(value, slope * x.error)
        return Bounded(value, inherited.error + tanh_error() * inherited.largest)

    # (1) to (18) of derivation/attn.md, as in jax_ref: where a factor or a result is stored, it is rounded.

    def D(self, A: Bounded) -> Bounded:
        one = Bounded(np.ones_like(A.value), np.zeros_like(A.value))
        return self.mul(self.add(one, Bounded(-A.value, A.error)), self.add(one, A))

    def primal(self, q, k, v):
        A = self.stored(self.tanh(self.mm("nd,md->nm", q, k)))
        return self.stored(self.mm("nm,me->ne", A, v)), A

    def jvp(self, q, k, v, q_dot, k_dot, v_dot):
        _, A = self.primal(q, k, v)
        T = self.add(self.mm("nd,md->nm", q_dot, k), self.mm("nd,md->nm", q, k_dot))
        A_dot = self.stored(self.mul(self.D(A), T))
        return self.stored(self.add(self.mm("nm,me->ne", A_dot, v), self.mm("nm,me->ne", A, v_dot))), A_dot

    def vjp(self, q, k, v, output_bar, attn_bar):
        _, A = self.primal(q, k, v)
        G = self.add(attn_bar, self.mm("ne,me->nm", output_bar, v))
        P = self.stored(self.mul(self.D(A), G))
        bars = self.mm("nm,md->nd", P, k), self.mm("nm,nd->md", P, q), self.mm("nm,ne->me", A, output_bar)
        return tuple(map(self.stored, bars))

    def jvp_of_vjp(self, q, k, v, output_bar, attn_bar, q_dot, k_dot, v_dot, output_bar_dot, attn_bar_dot):
        _, A = self.primal(q, k, v)
        _, A_dot = self.jvp(q, k, v, q_dot, k_dot, v_dot)
        D = self.D(A)
        G = self.add(attn_bar, self.mm("ne,me->nm", output_bar, v))
        P = self.stored(self.mul(D, G))
        G_dot = self.add(attn_bar_dot, self.mm("ne,me->nm", output_bar_dot, v), self.mm("ne,me->nm", output_bar, v_dot))
        AA_dot = self.mul(A, A_dot)
        D_dot = Bounded(-2 * AA_dot.value, 2 * AA_dot.error)
        P_dot = self.stored(self.add(self.mul(D_dot, G), self.mul(D, G_dot)))
        bars_dot = (
            self.add(self.mm("nm,md->nd", P_dot, k), self.mm("nm,md->nd", P, k_dot)),
            self.add(self.mm("nm,nd->md", P_dot, q), self.mm("nm,nd->md", P, q_dot)),
            self.add(self.mm("nm,ne->me", A_dot, output_bar), self.mm("nm,ne->me", A, output_bar_dot)),
        )
        return tuple(map(self.stored, bars_dot))


_tanh_errors: list[float] = []


def tanh_error() -> float:
    """The relative error of JAX's own float32 tanh, from tanh alone; doubled, for what lies between the points tried."""
    if not _tanh_errors:
        x = np.geomspace(2.0**-20, 16.0, 200_001).astype("float32")
        exact = np.tanh(x.astype("float64"))
        _tanh_errors.append(2 * float(np.max(np.abs(np.asarray(jnp.tanh(x), "float64") - exact) / exact)))
    return _tanh_errors[0]


def error_over_bound(results: tuple, truth: tuple, bounds: tuple[Bounded, ...]) -> float:
    """The largest ratio of an entry's error to its bound, over all results."""
    ratios = []
    for x, reference, bound in zip(results, truth, bounds, strict=True):
        reference = np.asarray(reference)
        assert np.any(reference)
        np.testing.assert_allclose(bound.value, reference, rtol=1e-10, atol=1e-10 * np.max(np.abs(reference)))
        ratios.append(np.max(np.abs(np.asarray(x).astype("float64") - reference) / bound.error))
    return float(max(ratios))


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


def judge(case: Judged, args: tuple, dtype: str, results: tuple | None = None) -> float:
    """Error over bound of a map at arguments that are rounded first, so that only its own roundings count."""
    args = rounded(args, dtype)
    exact = tuple(np.asarray(x).astype("float64") for x in args)
    bounds = case.bound(Rounding(dtype), *(Bounded(x, np.zeros_like(x)) for x in exact))
    results = quick_jit(case.run)(*args) if results is None else results
    return error_over_bound(results, quick_jit(case.truth)(*exact), bounds)


@pytest.mark.parametrize("dtype", LOW)
@judged
def test_errors_stay_in_the_running_bound(judged: Judged, dtype):
    """Entry by entry, against float64 autodiff of the primal."""
    assert judge(judged, draw(Sizes(n=24, m=40, d=16, e=8), judged.arguments, seed=43), dtype) <= 1
