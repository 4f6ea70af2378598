"""What the error analysis leaves out of a program changes neither its results nor their bounds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from parity_tests.harness.language.live import live
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding import analysis

FLOAT32 = PRECISIONS["float32"]
X = np.linspace(0.1, 0.9, 5)


def names(jaxpr: core.Jaxpr) -> list[str]:
    """The primitives of the equations of a jaxpr."""
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def step_of(program: core.ClosedJaxpr) -> core.Jaxpr:
    """The step of the only loop of a program."""
    (loop,) = (eqn for eqn in program.jaxpr.eqns if eqn.primitive.name == "scan")
    return loop.params["jaxpr"].jaxpr


def counted(x: jax.Array) -> jax.Array:
    """A loop that counts its steps, and has no use for the number."""
    return jax.lax.fori_loop(0, 6, lambda _, z: jnp.tanh(z) * x, x)


def delayed(x: jax.Array) -> jax.Array:
    """A loop whose result is read from what was carried three steps before."""

    def step(carry: tuple, _: Any) -> tuple:
        _, b, c, unread = carry
        return (b, c, jnp.sin(c), jnp.exp(unread)), None

    return jax.lax.scan(step, (x, x + 1, x + 2, x + 3), None, length=6)[0][0]


def listed(x: jax.Array) -> jax.Array:
    """A loop of which all steps are the result, and not what it carries last."""

    def step(carry: jax.Array, _: Any) -> tuple:
        return jnp.cos(carry), carry * 2

    return jax.lax.scan(step, x, None, length=4)[1]


def in_turn(x: jax.Array) -> jax.Array:
    """A loop whose result another loop reads."""
    return counted(delayed(x))


@pytest.mark.parametrize("f", [counted, delayed, listed, in_turn])
def test_results_and_bounds_are_the_same(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit."""
    with pinned():
        program = jax.make_jaxpr(f)(X)
        found = analysis.bounded(program, X, precision=FLOAT32)
        monkeypatch.setattr(analysis, "live", lambda program: program)
        expected = analysis.bounded(program, X, precision=FLOAT32)
        np.testing.assert_allclose(found[0][0], f(X), rtol=1e-14)
    np.testing.assert_array_equal(found, expected)


def test_what_nobody_reads_is_left_out_of_the_steps_of_a_loop() -> None:
    """The number of the step, and what it carries by itself."""
    with pinned():
        programs = [jax.make_jaxpr(f)(X) for f in (counted, delayed)]
    assert [sorted(names(step_of(program))) for program in programs] == [["add", "mul", "tanh"], ["exp", "sin"]]
    assert [sorted(names(step_of(live(program)))) for program in programs] == [["mul", "tanh"], ["sin"]]


def test_a_logarithm_stays() -> None:
    """By which a right version of the gradient of a logarithm of a sum may go, in a loop, too."""

    def gradient(x: jax.Array) -> jax.Array:
        s = jnp.sum(jnp.exp(x))
        jnp.log(s)
        jnp.sin(s)
        return jnp.exp(x) / s

    def repeated(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 2, lambda _, z: gradient(z), x)

    with pinned():
        once, twice = live(jax.make_jaxpr(gradient)(X)).jaxpr, step_of(live(jax.make_jaxpr(repeated)(X)))
    for jaxpr in (once, twice):
        assert "log" in names(jaxpr)
        assert "sin" not in names(jaxpr)
