"""What runs operation by operation has JAX's own bits, and is compiled once."""

from __future__ import annotations

import itertools
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests import JaxCandidate, OpSpec, crosscheck
from parity_tests.harness.candidates import jax_programs
from parity_tests.harness.candidates.jax_programs import Programs
from parity_tests.harness.numbers.numerics import pinned_jax


@pytest.fixture(autouse=True)
def _pinned():
    with pinned_jax("cpu"):
        yield


def array(*shape: int, dtype=np.float64, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def _rounded_in_between(x):
    return (x + 256) - 256  # nothing is left of it in bfloat16; XLA would keep more of it in one program


def _many(x):
    y = jnp.where(x > 0, jnp.tanh(x) * 3 - x, x / 7)
    return y @ y.T, jax.nn.softmax(y), jnp.exp(x) * jnp.exp(x), jax.nn.relu(x).sum(1), x[:, ::2]


def _loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, y: jnp.sin(y) * x + i, x)


FUNCTIONS = {
    "rounded in between": _rounded_in_between,
    "many operations": _many,
    "a loop": _loop,
    "under jit": jax.jit(_rounded_in_between),
    "a gradient": jax.grad(lambda x: jnp.sum(jax.nn.relu(x) * jnp.tanh(x))),
}


@pytest.mark.parametrize("dtype", [np.float64, jnp.bfloat16], ids=["float64", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_jax_by_itself(name, dtype):
    x, f = array(3, 4, dtype=dtype), FUNCTIONS[name]
    expected, got = f(x), Programs().run(f, x)
    assert jax.tree.structure(expected) == jax.tree.structure(got)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_pullback_may_leave():
    x, w = array(3), array(3, seed=1)
    programs = Programs()
    y, pullback = programs.run(lambda x: jax.vjp(jnp.sin, x), x)
    np.testing.assert_array_equal(y, jnp.sin(x))
    np.testing.assert_array_equal(programs.run(pullback, w)[0], w * jnp.cos(x))


def test_one_program_for_what_computes_the_same():
    """JAX compiles an einsum for each way of writing it."""
    x, programs = array(3, 3), Programs()
    for subscripts in ("ij,jk->ik", "ab,bc->ac"):
        programs.run(lambda x, s=subscripts: jnp.einsum(s, x, x), x)
    assert len(programs._compiled) == 1


@pytest.mark.parametrize(
    ("f", "g"),
    [
        (lambda x: jax.lax.integer_pow(x, 2), lambda x: jax.lax.integer_pow(x, 3)),
        (lambda x: jax.jit(lambda x: x * 0.0)(x), lambda x: jax.jit(lambda x: x * -0.0)(x)),
        (lambda x: jax.jit(lambda x: x - x[0])(x), lambda x: jax.jit(lambda x: x[0] - x)(x)),
        (lambda x: jax.jit(lambda x: jnp.sin(x) + x)(x), lambda x: jax.jit(lambda x: jnp.sin(x) + jnp.sin(x))(x)),
        (jnp.cumsum, lambda x: jax.lax.cumsum(x, reverse=True)),
    ],
    ids=["powers", "signs of zero", "operands", "wiring", "directions"],
)
def test_what_differs_in_little_is_another_program(f, g):
    x, programs = array(3), Programs()
    for h in (f, g, f):
        assert np.asarray(programs.run(h, x)).tobytes() == np.asarray(h(x)).tobytes()


def test_only_the_last_programs_are_kept():
    programs = Programs()
    with mock.patch.object(jax_programs, "MOST", 2):
        for n in (1, 2, 3, 1):
            np.testing.assert_array_equal(programs.run(jnp.sin, array(n)), jnp.sin(array(n)))
        assert len(programs._compiled) == 2


def test_values_may_decide_and_python_may_change_its_mind():
    programs, calls = Programs(), itertools.count()
    branching = lambda x: -x if x.sum() > 0 else x  # noqa: E731
    for x in (jnp.ones(2), -jnp.ones(2)):
        np.testing.assert_array_equal(programs.run(branching, x), -jnp.ones(2))
    assert [float(programs.run(lambda x: x + next(calls), jnp.zeros(()))) for _ in range(2)] == [0, 1]


def test_an_error_is_the_function_s_own():
    f, x = jax.custom_vjp(jnp.sin), array(3)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, w: (w * jnp.cos(x),))
    with pytest.raises(TypeError, match="custom_vjp"):
        Programs().run(lambda x: jax.jvp(f, (x,), (x,))[1], x)


def test_random_keys_and_integers():
    key, x, counts = jax.random.key(0), array(3), jnp.arange(3)

    def noisy(x):
        return x * jax.random.normal(key, x.shape), x * counts, counts + 1

    def gradient(x):
        first, second, _ = noisy(x)
        return jax.vjp(noisy, x)[1]((first, second, np.zeros(3, jax.dtypes.float0)))

    for f in (noisy, gradient):
        for a, b in zip(jax.tree.leaves(f(x)), jax.tree.leaves(Programs().run(f, x)), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_programs_are_shared_by_the_checks():
    """Not so, each check compiled its own, and all of them were kept: gigabytes."""
    spec = OpSpec("scale", lambda x: jnp.sin(x) * 3, inputs=(np.linspace(0.1, 1, 3),))
    compiled, options = [], jax_programs._options
    with mock.patch.object(jax_programs, "_options", lambda eqns: compiled.append(eqns) or options(eqns)):
        for checks in (["forward"], ["forward", "vjp", "vjp_partial", "linearity", "determinism"]):
            candidate = JaxCandidate(lambda x: jnp.sin(x) * 3)
            report = crosscheck(candidate, spec, checks=checks, dtypes=["float64"])
            assert report.passed, str(report)
    kinds = [tuple((eqn.primitive.name, str([x.aval for x in eqn.invars])) for eqn in eqns) for eqns in compiled]
    assert all(kinds.count(kind) <= 2 for kind in kinds)  # once for each candidate
