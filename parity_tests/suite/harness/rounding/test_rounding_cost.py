"""What an error analysis costs: loops of many steps and long chains of equations are analysed in reasonable time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded

FLOAT32 = PRECISIONS["float32"]


def calls_of(f: Callable[[], object]) -> int:
    """The number of calls, of Python functions and of built-in ones, that a call makes."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        f()
    finally:
        sys.setprofile(before)
    return count


def layer(w: jax.Array, b: jax.Array) -> jax.Array:
    """An implicit layer by fixed-point steps."""
    return jax.lax.fori_loop(0, 20, lambda _, z: jnp.tanh(w @ z + b), b)


def jvp(w: jax.Array, b: jax.Array, w_dot: jax.Array, b_dot: jax.Array) -> list[jax.Array]:
    """The layer and its JVP, in one loop."""
    return list(jax.jvp(layer, (w, b), (w_dot, b_dot)))


def vjp(w: jax.Array, b: jax.Array, z_bar: jax.Array) -> tuple[jax.Array, ...]:
    """Its VJP: a loop, and back another one, whose steps only add and multiply."""
    return jax.vjp(layer, w, b)[1](z_bar)


@pytest.mark.parametrize("f", [jvp, vjp])
def test_an_equation_of_a_loop_takes_few_calls(f: Callable[..., Sequence[jax.Array]]) -> None:
    """A judged implicit layer has 300,000 equations, and arrays so small that calls are what takes the time."""
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape) for shape in ((4, 4), (4,), (4, 4), (4,))]
    args = args if f is jvp else args[:2] + args[3:]
    with pinned():
        closed = jax.make_jaxpr(f)(*args)
        bounded(closed, *args, precision=FLOAT32)  # what is found once, such as the layouts of products
        calls = calls_of(lambda: bounded(closed, *args, precision=FLOAT32))
    loops = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name == "scan"]
    equations = sum(loop.params["length"] * len(loop.params["jaxpr"].jaxpr.eqns) for loop in loops)
    assert loops
    assert calls < 86 * equations  # 83 now of the JVP, and less of the VJP


def scaled_sum(w: jax.Array, x: jax.Array) -> jax.Array:
    """A sum that is multiplied many times before it is added to something."""
    y = w @ x
    for _ in range(400):
        y = -(y * 1.001)
    return y + x


def product_added_to(w: jax.Array, x: jax.Array) -> jax.Array:
    """A product that many numbers are added to before it is multiplied."""
    y = x * x
    for _ in range(400):
        y = y + w[0]
    return y * x


@pytest.mark.parametrize("f", [scaled_sum, product_added_to])
def test_a_long_chain_of_equations_has_a_bound(f: Callable[..., jax.Array]) -> None:
    """What is carried from each equation to the next is not computed by as many calls within calls."""
    x = np.full(4, 0.3)
    with pinned():
        ((value, bound),) = bounded(jax.make_jaxpr(f)(np.eye(4), x), np.eye(4), x, precision=FLOAT32)
    assert (bound < 0.01 * np.abs(value)).all()
    assert (bound > FLOAT32.u * np.abs(value)).all()
