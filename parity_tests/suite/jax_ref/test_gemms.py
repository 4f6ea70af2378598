"""The cost of the rules in matrix products: none for what is absent, and never more than plain autodiff's."""

import re
from collections.abc import Callable

import jax
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

from jax_ref import attn, attn_ad, attn_jvp, attn_primal, attn_vjp
from jax_ref._products import mm
from parity_tests.suite.jax_ref._cases import FORMULAS, Formula, Sizes, draw
from parity_tests.suite.marks import fast

# All axes differ and none is so small that XLA would write a product as a sum.
SIZES = Sizes(n=12, m=10, d=8, e=6)
PRIMALS = draw(SIZES, "q k v", seed=30)
DOTS = draw(SIZES, "q_dot k_dot v_dot", seed=31)
BARS = draw(SIZES, "output_bar attn_bar", seed=32)
BARS_DOT = draw(SIZES, "output_bar_dot attn_bar_dot", seed=33)

formulas = pytest.mark.parametrize("formula", [pytest.param(formula, id=name) for name, formula in FORMULAS.items()])


def gemms(f: Callable, *args) -> int:
    """Matrix products in the trace of f, wherever they are nested, before any optimisation."""

    def count(jaxpr: Jaxpr) -> int:
        total = 0
        for eqn in jaxpr.eqns:
            total += eqn.primitive.name == "dot_general"
            for inner in jax.tree.leaves(
                list(eqn.params.values()), is_leaf=lambda x: isinstance(x, ClosedJaxpr | Jaxpr)
            ):
                if isinstance(inner, ClosedJaxpr | Jaxpr):
                    total += count(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
        return total

    return count(jax.make_jaxpr(f)(*args).jaxpr)


def compiled_gemms(f: Callable, *args) -> int:
    """Matrix products that are left when XLA has optimised f for the CPU."""
    with jax.default_device(jax.devices("cpu")[0]):
        text = jax.jit(f).lower(*args).compile().as_text()
    return len(re.findall(r"= \S+ dot\(", text))


def vjp(op: Callable) -> Callable:
    return lambda primals, bars: jax.vjp(op, *primals)[1](bars)


def vjp_of_vjp(op: Callable) -> Callable:
    return lambda primals, bars, weights: jax.vjp(vjp(op), primals, bars)[1](weights)


def jvp_of_vjp(op: Callable) -> Callable:
    return lambda primals, bars, *tangents: jax.jvp(vjp(op), (primals, bars), tangents)[1]


def jvp(op: Callable) -> Callable:
    return lambda primals, dots: jax.jvp(op, primals, dots)[1]


def jvp_of_jvp(op: Callable) -> Callable:
    return lambda primals, dots: jax.jvp(jvp(op), (primals, dots), (dots, dots))[1]


DERIVATIVES = {
    "vjp": (vjp, (PRIMALS, BARS)),
    "vjp_of_vjp": (vjp_of_vjp, (PRIMALS, BARS, DOTS)),
    "jvp_of_vjp": (jvp_of_vjp, (PRIMALS, BARS, DOTS, BARS_DOT)),
    "jvp": (jvp, (PRIMALS, DOTS)),
    "jvp_of_jvp": (jvp_of_jvp, (PRIMALS, DOTS)),
}


@fast("*-vjp")
@pytest.mark.parametrize(
    ("op", "name"),
    [
        pytest.param(op, name, id=f"{op_name}-{name}")
        for op_name, op in (("attn", attn), ("attn_ad", attn_ad))
        for name in DERIVATIVES
        if op is attn_ad or name not in ("jvp", "jvp_of_jvp")
    ],
)
def test_derivatives_cost_no_more_than_autodiff(op, name):
    """A formula that computes S again, or a result nobody asked for, is slower than no formula."""
    derivative, args = DERIVATIVES[name]
    assert 0 < compiled_gemms(derivative(op), *args) <= compiled_gemms(derivative(attn_primal), *args)


@fast("attn_jvp", "attn_vjp")
@formulas
def test_formulas_cost_no_more_than_autodiff(formula: Formula):
    args = draw(SIZES, formula.arguments, seed=34)
    assert 0 < compiled_gemms(formula.explicit, *args) <= compiled_gemms(formula.autodiff, *args)


@pytest.mark.parametrize(
    ("results", "count"),
    [pytest.param((0, 1), 6, id="both"), pytest.param((0,), 6, id="output"), pytest.param((1,), 4, id="attn")],
)
def test_gemms_of_a_gradient(results, count):
    """Two products forward; backward (8), (10), (11), (12), of which (8) and (12) need output_bar."""

    def loss(*primals):
        return sum(x.sum() for i, x in enumerate(attn(*primals)) if i in results)

    assert gemms(jax.grad(loss, (0, 1, 2)), *PRIMALS) == count


@pytest.mark.parametrize(
    ("moving", "count"),
    [
        pytest.param(("q", "k", "v"), 6, id="all"),
        pytest.param(("q",), 4, id="q"),
        pytest.param(("k",), 4, id="k"),
        pytest.param(("v",), 3, id="v"),
    ],
)
def test_gemms_of_a_tangent(moving, count):
    """Two products for the values; two in (5) and two in (7), one for each argument that moves and one for A_dot."""
    primals, tangents = dict(zip("qkv", PRIMALS, strict=True)), dict(zip("qkv", DOTS, strict=True))

    def derivative(*some):
        def of_these(*some):
            return attn_ad(**(primals | dict(zip(moving, some, strict=True))))

        return jax.jvp(of_these, some, tuple(tangents[x] for x in moving))

    assert gemms(derivative, *(primals[x] for x in moving)) == count


@formulas
def test_an_absent_direction_saves_its_products(formula: Formula):
    """Each direction that is multiplied with a matrix; attn's cotangents are only multiplied entry by entry."""
    primals, directions = (draw(SIZES, names, seed=35) for names in (formula.arguments[:3], formula.directions))
    all_there = gemms(formula.explicit, *primals, *directions)
    for i, name in enumerate(formula.directions):
        count = gemms(formula.explicit, *primals, *directions[:i], None, *directions[i + 1 :])
        assert count == all_there if name.startswith("attn") else count < all_there, name


@pytest.mark.parametrize("formula", [attn_jvp, attn_vjp])
def test_nothing_there_costs_only_attn(formula):
    directions = len(FORMULAS[formula.__name__].directions)
    assert gemms(lambda *primals: formula(*primals, *[None] * directions), *PRIMALS) == 1


def test_the_counter_finds_nested_products():
    """What it counts is inside jit, cond and scan as well."""

    def nested(q, k):
        S = jax.jit(lambda q: q @ k.T)(q)
        return jax.lax.cond(S[0, 0] > 0, lambda: jax.lax.scan(lambda c, _: (c, q @ k.T), 0.0, None, 2)[1][0], lambda: S)

    assert gemms(nested, *PRIMALS[:2]) == 2


def test_a_product_is_one_operation():
    """Nothing is transposed, and nothing is a function under jit of its own, which JAX would trace at every call."""
    names = [eqn.primitive.name for eqn in jax.make_jaxpr(attn_primal)(*PRIMALS).eqns]
    assert names == ["dot_general", "tanh", "dot_general"]


def test_no_product_needs_a_transposition():
    q, k, _ = PRIMALS
    with pytest.raises(ValueError, match="without a transposition"):
        mm("nd,md->mn", q, k)
