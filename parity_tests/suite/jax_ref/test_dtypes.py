"""Dtypes: the one that goes in comes out, and sums of bfloat16 and float16 are kept in float32."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

from jax_ref import attn, attn_ad, attn_primal
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, FORMULAS, draw
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

DTYPES = ("float64", "float32", "bfloat16", "float16", "complex128", "complex64")
LOW = ("bfloat16", "float16")


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


def arguments(dtype: str) -> tuple[tuple, ...]:
    names = ("q k v", "output_bar attn_bar", "q_dot k_dot v_dot")
    return tuple(
        rounded(draw(ALL_DIFFER, x, seed=seed, complex=dtype[0] == "c"), dtype) for seed, x in enumerate(names, 40)
    )


@rotating(5)
@fast("*-float64", "*-bfloat16")
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


@rotating(3)
@fast("*-bfloat16")
@pytest.mark.parametrize("dtype", LOW)
@derivatives
def test_low_precision_is_summed_in_float32(derivative, dtype):
    found = products(jax.make_jaxpr(derivative)(*arguments(dtype)).jaxpr)
    assert found
    assert {str(eqn.outvars[0].aval.dtype) for eqn in found} == {"float32"}


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("name", ["attn", "vjp_of_attn", "jvp_of_attn_ad", *FORMULAS])
def test_explicit_products_have_low_precision_factors(name, dtype):
    """What a matrix unit takes: a factor left in float32 would be computed at a fraction of the speed."""
    found = products(jax.make_jaxpr(DERIVATIVES[name])(*arguments(dtype)).jaxpr)
    assert found
    assert {str(x.aval.dtype) for eqn in found for x in eqn.invars} == {dtype}


def test_float32_without_x64():
    """JAX as it comes, where float64 does not exist: a formula that asked for it would warn, and so fail here."""
    args = arguments("float32")
    with jax.enable_x64(False):
        for derivative in DERIVATIVES.values():
            assert {str(x.dtype) for x in jax.tree.leaves(jax.eval_shape(derivative, *args))} == {"float32"}
