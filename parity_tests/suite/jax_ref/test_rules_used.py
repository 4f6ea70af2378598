"""That JAX really runs the explicit rules, with `None` for what is absent, and at no more than autodiff's cost."""

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_ref import _attn, attn, attn_ad, attn_primal
from parity_tests.suite.jax_ref._cases import ALL_DIFFER, draw, quick_jit
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

Q, K, V = PRIMALS = draw(ALL_DIFFER, "q k v", seed=20)
DOTS = draw(ALL_DIFFER, "q_dot k_dot v_dot", seed=21)
PRIMES = draw(ALL_DIFFER, "q_prime k_prime v_prime", seed=22)
BARS = draw(ALL_DIFFER, "output_bar attn_bar", seed=23)


# Maps that are linear in the rule under test, so that three times the rule is three times the map.


def vjp_of(op: Callable, bars=BARS) -> Callable:
    return lambda *primals: jax.vjp(op, *primals)[1](bars)


def along(f: Callable, tangents: tuple) -> Callable:
    return lambda *primals: jax.jvp(f, primals, tangents)[1]


def transposed(f: Callable, weights: tuple) -> Callable:
    return lambda *primals: jax.vjp(f, *primals)[1](weights)


@fast("jit-vjp", "jit-jvp", "jit-vjp_of_attn_ad", "jit-jvp_of_vjp")
@pytest.mark.parametrize(
    ("rule", "derivative"),
    [
        pytest.param("_vjp_rule", vjp_of(attn), id="vjp"),
        pytest.param("_jvp_rule", along(attn_ad, DOTS), id="jvp"),
        pytest.param("_jvp_rule", vjp_of(attn_ad), id="vjp_of_attn_ad"),
        pytest.param("_jvp_of_vjp", along(vjp_of(attn), DOTS), id="jvp_of_vjp"),
        pytest.param("_jvp_of_vjp", transposed(vjp_of(attn), DOTS), id="vjp_of_vjp"),
        pytest.param("_jvp_of_jvp", along(along(attn_ad, DOTS), PRIMES), id="jvp_of_jvp"),
        pytest.param("_jvp_of_jvp", transposed(along(attn_ad, DOTS), BARS), id="vjp_of_jvp"),
    ],
)
@pytest.mark.parametrize("around", [pytest.param(lambda f: f, id="eager"), pytest.param(quick_jit, id="jit")])
def test_a_rule_times_three_is_the_derivative_times_three(monkeypatch, rule, derivative, around):
    """A rule that JAX does not run cannot change what it returns."""
    # A new function each time: jit would remember the trace of the old one.
    before = around(lambda *primals: derivative(*primals))(*PRIMALS)
    original = getattr(_attn, rule)
    monkeypatch.setattr(_attn, rule, lambda *args: jax.tree.map(lambda x: 3 * x, original(*args)))
    after = around(lambda *primals: derivative(*primals))(*PRIMALS)
    for x, y in zip(after, before, strict=True):
        assert np.any(y)
        np.testing.assert_allclose(x, 3 * y, rtol=1e-13)


def custom_calls(f: Callable) -> list[str]:
    """Names of the custom_jvp functions that a map calls, as JAX prints them."""
    return re.findall(r"custom_jvp_call\[\s*name=(\w+)", str(jax.make_jaxpr(f)(*PRIMALS)))


def test_what_jax_records():
    """The first-order formulas are in the trace under their own names, next to the primal, once each."""
    assert custom_calls(vjp_of(attn)) == ["attn_ad", "_vjp"]
    assert custom_calls(along(attn_ad, DOTS)) == ["attn_ad", "_jvp"]
    assert custom_calls(vjp_of(attn_primal)) == []


# What is absent. Each setting: what stands between JAX and the op, and what stands around the derivative.


def mapped_inside(op: Callable) -> Callable:
    def summed(q, k, v):
        return jax.tree.map(lambda x: x.sum(0), jax.vmap(op, (0, None, None))(jnp.stack([q, 2 * q]), k, v))

    return summed


def mapped_outside(f: Callable) -> Callable:
    return lambda q, k, v: jax.vmap(f, (None, -1, 0))(q, jnp.stack([k, 2 * k], -1), jnp.stack([v, -v]))


def scanned(op: Callable) -> Callable:
    def summed(q, k, v):
        _, results = jax.lax.scan(lambda carry, scale: (carry, op(scale * q, k, v)), 0.0, np.array([1.0, 2.0]))
        return jax.tree.map(lambda x: x.sum(0), results)

    return summed


def plain(f: Callable) -> Callable:
    return f


def traced(f: Callable) -> Callable:
    """Everything but the arithmetic: what a rule receives is decided before."""
    return lambda *primals: jax.eval_shape(f, *primals)


SETTINGS = {
    "eager": (plain, plain),
    "jit": (plain, lambda f: traced(jax.jit(f))),
    "jit_inside": (jax.jit, traced),
    "vmap": (plain, lambda f: traced(mapped_outside(f))),
    "vmap_inside": (mapped_inside, traced),
    "remat": (jax.checkpoint, traced),
    "scan": (scanned, traced),
}
settings = pytest.mark.parametrize(
    ("inside", "around"), [pytest.param(inside, around, id=name) for name, (inside, around) in SETTINGS.items()]
)


@pytest.fixture
def present(monkeypatch) -> dict[str, list[str]]:
    """For each rule that ran: its arguments after q, k, v and attn, `x` for one that is there and `-` for `None`."""
    seen: dict[str, list[str]] = {}

    def watch(rule: str) -> Callable:
        original = getattr(_attn, rule)

        def watched(*args):
            seen.setdefault(rule, []).append("".join("-" if x is None else "x" for x in args[4:]))
            return original(*args)

        return watched

    for rule in ("_jvp_rule", "_vjp_rule", "_jvp_of_jvp", "_jvp_of_vjp"):
        monkeypatch.setattr(_attn, rule, watch(rule))
    return seen


def some(op: Callable, which: str) -> Callable:
    """op with the results of which the letters are given: o for output, a for attn."""

    # Its own function every time, so that no trace is remembered.
    def chosen(q, k, v):
        output, A = op(q, k, v)
        return {"o": (output,), "a": (A,), "oa": (output, A)}[which]

    return chosen


def moving(f: Callable, which: str, tangents: tuple) -> Callable:
    """The derivative of f along some of its arguments, by their letters; the others are constants."""
    at = ["qkv".index(letter) for letter in which]

    def derivative(*primals):
        def of_these(*some):
            return f(*(some[at.index(i)] if i in at else x for i, x in enumerate(primals)))

        return jax.jvp(of_these, [primals[i] for i in at], [tangents[i] for i in at])[1]

    return derivative


def gradient(op: Callable, which: str) -> Callable:
    """The gradient of the sum of some results."""
    return jax.grad(lambda *primals: sum(x.sum() for x in some(op, which)(*primals)), (0, 1, 2))


@rotating(5)
@fast("*-eager", "*-jit")
@settings
@pytest.mark.parametrize(("results", "pattern"), [("o", "x-"), ("a", "-x"), ("oa", "xx")])
def test_an_absent_cotangent_is_none(present, inside, around, results, pattern):
    """Dense zeros here would cost GEMMs that nobody asked for."""
    around(gradient(inside(lambda *primals: attn(*primals)), results))(*PRIMALS)
    assert present["_vjp_rule"] == [pattern]


@rotating(5)
@fast("*-eager", "*-scan")
@settings
@pytest.mark.parametrize(
    ("args", "pattern"), [("q", "x--"), ("k", "-x-"), ("v", "--x"), ("qk", "xx-"), ("qv", "x-x"), ("kv", "-xx")]
)
def test_an_absent_tangent_is_none(present, inside, around, args, pattern):
    around(moving(inside(lambda *primals: attn_ad(*primals)), args, DOTS))(*PRIMALS)
    assert present["_jvp_rule"] == [pattern]


@rotating(5)
@fast("*-eager", "*-vmap")
@settings
@pytest.mark.parametrize(
    ("results", "args", "pattern"),
    [  # output_bar, attn_bar; q_dot, k_dot, v_dot; A_dot; output_bar_dot, attn_bar_dot
        ("o", "q", "x-x--x--"),
        ("o", "v", "x---x---"),
        ("a", "k", "-x-x-x--"),
        ("oa", "qkv", "xxxxxx--"),
    ],
)
def test_absent_second_order_directions_of_the_vjp_are_none(present, inside, around, results, args, pattern):
    around(moving(gradient(inside(lambda *primals: attn(*primals)), results), args, DOTS))(*PRIMALS)
    assert present["_jvp_of_vjp"] == [pattern.replace(" ", "")]


@rotating(5)
@fast("*-eager", "*-vmap")
@settings
@pytest.mark.parametrize(
    ("first", "second", "pattern"),
    [  # q_dot, k_dot, v_dot; q_prime, k_prime, v_prime; A_prime; q_dot_prime, k_dot_prime, v_dot_prime
        ("q", "q", "x--x--x---"),
        ("q", "v", "x----x----"),
        ("kv", "k", "-xx-x-x---"),
        ("qkv", "qkv", "xxxxxxx---"),
    ],
)
def test_absent_second_order_directions_of_the_jvp_are_none(present, inside, around, first, second, pattern):
    f = moving(inside(lambda *primals: attn_ad(*primals)), first, DOTS)
    around(moving(f, second, PRIMES))(*PRIMALS)
    assert present["_jvp_of_jvp"] == [pattern.replace(" ", "")]
