"""Programs in extended precision: the same function as in float64, to all digits, without a trace in mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from parity_tests.harness.extended import problem as of_problem
from parity_tests.harness.extended.adaptive import context, exact
from parity_tests.harness.extended.evaluation import evaluate, missing, work
from parity_tests.harness.extended.problem import Problem
from parity_tests.harness.extended.remembered import _FUNCTIONS, Remembered
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.numbers.tolerances import to_tolerance
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.primitives.registry import records
from parity_tests.suite.harness._ops import normal

TINY = float(np.finfo(np.float64).tiny)
PROGRAMS: dict[str, Callable] = {
    "an intermediate with a name": lambda x: checkpoint_name(jnp.tanh(x), "y") * x,
    "an intermediate to a tolerance": lambda x: to_tolerance(jnp.tanh(x), atol=1e-8) * x,
    "put beside each other": lambda x: (
        jnp.stack([x, x + 1]),
        jnp.tile(x, (2, 1)),
        *jnp.unstack(x),
        jnp.split(x, 2, 1),
    ),
    "functions": lambda x: (
        jnp.exp(x),
        jnp.exp2(x),
        jnp.log2(jnp.abs(x) + 0.5),
        jnp.expm1(x),
        jax.nn.sigmoid(x),
        jnp.tanh(x),
        jnp.sinh(x),
        jnp.cosh(x),
        jnp.sin(x),
        jnp.cos(x),
        jnp.tan(x),
        jnp.arctan(x),
        jnp.arcsinh(x),
        lax.erf(x),
        lax.erfc(x),
        jnp.arctan2(x, x + 1),
    ),
    "functions_of_positive_numbers": lambda x: [
        f(jnp.abs(x) + 0.1)
        for f in (jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.cbrt, jax.scipy.special.gammaln, lax.digamma)
    ],
    "functions_of_fractions": lambda x: [
        f(jnp.tanh(x)) for f in (jnp.arcsin, jnp.arccos, jnp.arctanh, lax.erf_inv, lambda y: jnp.arccosh(1 + y * y))
    ],
    "bessel": lambda x: (lax.bessel_i0e(x), lax.bessel_i1e(x), jax.scipy.special.polygamma(2, jnp.abs(x) + 1)),
    "powers": lambda x: x**3 + x**-2 + jnp.square(x) + jnp.abs(x) ** 1.7,
    "rounded": lambda x: (
        jnp.floor(x),
        jnp.ceil(x),
        jnp.round(x),
        lax.round(x),
        jnp.sign(x),
        lax.rem(x, 0.3),
        (4 * x).astype(int),
        (x > 0).astype(float),
    ),
    "choices": lambda x: (
        jnp.where(x > 0, x, -x) + lax.clamp(-0.5, x, 0.5) + jnp.maximum(x, 0.1) + jnp.minimum(x, 0.2),
        (x > 0) & (x < 1) | ~(x >= -1),
        jnp.isfinite(x) & (x == x) & (x != 2 * x) & (x <= 3),
    ),
    "moved": lambda x: (
        jnp.concatenate([x, x], 1)[:, ::2].T.reshape(-1),
        lax.pad(x, 0.5, ((-1, 2, 1), (1, -1, 0))),
        jnp.expand_dims(x, 1)[::-1],
        *jnp.split(x, [1, 3], 1),
        x[jnp.array([1, 0, 1])],
        x.at[0, 1].set(7.0),
        lax.dynamic_slice(x, (1, 1), (1, 2)),
        jnp.take(x, jnp.array([1, 9]), 0),
    ),
    "added_at_places": lambda x: x.at[jnp.array([0, 2, 0])].add(x[:3, :2].sum(1, keepdims=True)),
    "reduced": lambda x: (
        x.sum(),
        x.sum(0),
        x.max(1),
        x.min(),
        jnp.prod(x, 1),
        jnp.var(x, 0),
        jnp.cumsum(x, 1),
        lax.cumprod(x, 0, reverse=True),
        lax.cummax(x, 1),
        lax.cummin(x, 0),
    ),
    "places": lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 1), jnp.sort(x), jnp.argsort(x, 0), lax.sort((x, -x), 1)),
    "convolved": lambda x: (
        lax.conv(x[None, :2], x[None, 1:3, :2], (1,), "SAME"),
        lax.conv_general_dilated(x[None], x[:, None, :3], (2,), [(1, 2)], (2,), (1,), feature_group_count=3),
    ),
    "contracted": lambda x: (x @ x.T, jnp.einsum("ij,ik->jk", x, x), x[0] @ x[1], x[:, :0] @ x[:0]),
    "composed": lambda x: (jax.nn.softmax(x), jax.nn.logsumexp(x, 0), jax.nn.gelu(x), jnp.logaddexp(x, 1.0)),
    "loops": lambda x: (
        lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(4), x),
        lax.scan(lambda c, y: (c * y, jnp.sin(c)), jnp.ones(4), x, reverse=True),
        lax.fori_loop(0, 3, lambda i, y: y * 0.5 + i, x),
        lax.while_loop(lambda y: y.sum() < 10, lambda y: y + 1, x),
        lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
    ),
}


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def traced(f: Callable, *args: Any):
    return jax.make_jaxpr(lambda *args: jax.tree.leaves(f(*args)))(*args)


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_same_function_as_in_float64(f, seed):
    x = normal(3, 4, seed=seed)
    program = traced(f, x)
    assert missing(program) is None
    mp = context()
    with mp.workprec(100):
        values = evaluate(mp, program, [x])
    for ours, theirs in zip(values, map(np.asarray, jax.tree.leaves(f(jnp.asarray(x)))), strict=True):
        assert ours.shape == theirs.shape
        if theirs.dtype.kind == "f":
            assert ours.dtype == object
            np.testing.assert_allclose(ours.astype(float), theirs, rtol=1e-11, atol=1e-11)
        else:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_every_record_is_used_above():
    names: set[str] = set()

    def collect(jaxpr) -> None:
        for eqn in jaxpr.eqns:
            names.add(eqn.primitive.name)
            for inner in jax.extend.core.jaxprs_in_params(eqn.params):
                collect(inner)

    for f in PROGRAMS.values():
        collect(traced(f, normal(3, 4)).jaxpr)
        collect(traced(lambda x, f=f: jax.vjp(lambda y: [a for a in jax.tree.leaves(f(y))], x)[0], normal(3, 4)).jaxpr)
    unused = {name for name, record in records().items() if record.exact is not None} - names
    # JAX 0.10 makes them in other programs: copies under vmap, what the harness writes itself, ends of intervals.
    newer = set() if hasattr(lax, "log2") else {"log2"}
    assert unused <= {"copy", "copy_p", "add_any", "one_minus_square", "erfcx"} | newer


def test_what_cancels_is_known_to_all_digits():
    x = np.array([-90.0, -17.0, 1e-9, 40.0, 300.0])
    program = traced(lambda x: 1 - jnp.tanh(x) ** 2, x)
    (y,) = exact(program, [x], TINY).values
    with mpmath.workdps(50):
        want = [float(mpmath.sech(mpmath.mpf(a)) ** 2) for a in x]
    np.testing.assert_allclose(y.astype(float), want, rtol=1e-15)
    assert want[0] > 0
    assert (np.asarray(evaluate_in_float64(program, x)) == 0)[[0, 3, 4]].all()


def evaluate_in_float64(program, x):
    return jax.core.eval_jaxpr(program.jaxpr, program.consts, x)[0]


def test_a_zero_is_not_believed_too_early():
    """With 512 bits as with 256 this is 0; its value is 4 exp(-1000), a number of float64's subnormal range's edge."""
    x = np.array([354.0])
    (y,) = exact(traced(lambda x: 1 - jnp.tanh(x) ** 2, x), [x], TINY).values
    np.testing.assert_allclose(float(y[0]), 4 * np.exp(-708.0), rtol=1e-12)
    (zero,) = exact(traced(lambda x: x - x, x), [x], TINY).values
    assert zero[0] == 0


def test_a_pole_and_what_is_not_real_have_no_number():
    x = np.array([0.0, -1.0])
    for f in (lambda x: 1 / (x * (x + 1)), jax.scipy.special.digamma, lambda x: jnp.log(x) * jnp.log(x + 1)):
        (y,) = exact(traced(f, x), [x], TINY).values
        assert not any(map(math.isfinite, y))


def test_what_has_no_number_is_a_nan_without_a_warning():
    """NumPy 2.0 has one, which is an error here."""
    program, x = traced(lambda x: 1 / x, np.array([0.0, 2.0])), np.array([0.0, 2.0])
    (y,) = Problem.of(program, [x], PRECISIONS["float64"]).values
    np.testing.assert_array_equal(y, [np.nan, 0.5])


def test_the_derivative_of_a_formula_is_that_of_its_function():
    """Of softplus as log(1 + exp(x)), whose own gradient overflows and cancels in float64."""
    x = np.array([-800.0, -17.0, 0.3, 40.0, 900.0])
    program = traced(jax.vmap(jax.grad(lambda x: jnp.log(1 + jnp.exp(x)))), x)
    (y,) = exact(program, [x], TINY).values
    with mpmath.workdps(50):
        want = [float(1 / (1 + mpmath.exp(-mpmath.mpf(a)))) for a in x]
    np.testing.assert_allclose(y.astype(float), want, rtol=1e-15)


def test_what_the_problem_forces_is_its_condition():
    x = np.array([-17.0, -0.5, 3.0])
    precision = PRECISIONS["float32"]
    problem = Problem.of(traced(jnp.exp, x), [x], precision)
    np.testing.assert_allclose(problem.values[0], np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(problem.forced()[0], precision.u * (np.abs(x) + 1) * np.exp(x), rtol=1e-4)
    (error,) = problem.errors([np.exp(x) * (1 + 1e-6)])
    np.testing.assert_allclose(error, 1e-6 * np.exp(x), rtol=1e-6)


def test_what_is_forced_is_found_once_and_no_further_than_asked():
    """By the sum as far as it is known; the next one to ask goes on from there."""
    x = np.array([-17.0, -0.5, 3.0])
    program, precision = traced(jnp.exp, x), PRECISIONS["float32"]
    whole = Problem.of(program, [x], precision).forced()[0]
    problem = Problem.of(program, [x], precision)
    with mock.patch.object(of_problem, "evaluate", side_effect=of_problem.evaluate) as evaluated:
        first = problem.forced(lambda so_far: bool(so_far[0][0] > precision.u * np.exp(-17.0) * 2))[0]
        assert evaluated.call_count == 1
        assert first[0] == whole[0]
        assert first[1] < whole[1]
        np.testing.assert_array_equal(problem.forced()[0], whole)
        np.testing.assert_array_equal(problem.forced()[0], whole)
        assert evaluated.call_count == x.size + 1  # its numbers, and its constants


def test_a_difference_is_as_badly_conditioned_as_its_terms_are_large():
    x, y = np.array([1.0]), np.array([1.0 + 2.0**-20])
    problem = Problem.of(traced(jnp.subtract, x, y), [x, y], PRECISIONS["float32"])
    np.testing.assert_allclose(problem.forced()[0], 2 * 2.0**-24, rtol=1e-5)


def test_a_constant_that_the_format_must_round_counts():
    x, u = np.array([2.0]), PRECISIONS["bfloat16"]
    problem = Problem.of(traced(lambda x: (x * 0 + 0.1) * 3, x), [x], u)
    rounded = 3 * abs(float(u.rounded(np.array(0.1))) - 0.1)
    np.testing.assert_allclose(problem.forced()[0], rounded + u.u * 0.3, rtol=1e-6)


def test_neighbours_have_the_values_of_an_evaluation_by_itself():
    """Each program is evaluated at arguments of which one number after another is moved."""
    x, mp = normal(3, 2), context()
    for f in (lambda x: jnp.tanh(x) @ x.T, PROGRAMS["functions"], PROGRAMS["functions_of_positive_numbers"]):
        with pinned():
            program = jax.make_jaxpr(f)(x)
        with mp.workprec(100):
            near = Remembered(mp)
            for place in np.ndindex(*x.shape):
                moved = x.copy()
                moved[place] *= 1 + 2.0**-30
                for ours, theirs in zip(evaluate(near, program, [moved]), evaluate(mp, program, [moved]), strict=True):
                    assert (ours == theirs).all()


def test_a_value_of_a_function_is_computed_once():
    calls: list[Any] = []

    class Counted:
        """A context with one function."""

        @staticmethod
        def tanh(x):
            calls.append(x)
            return mpmath.tanh(x)

    near = Remembered(Counted())
    assert [near.tanh(mpmath.mpf(x)) for x in (1, 2, 1, 2)] == [mpmath.tanh(x) for x in (1, 2, 1, 2)]
    assert calls == [1, 2]
    assert all(callable(getattr(context(), name)) for name in _FUNCTIONS)


def test_the_context_of_everybody_is_left_alone():
    before = mpmath.mp.prec
    x = normal(3)
    exact(traced(jnp.tanh, x), [x], TINY)
    assert (mpmath.mp.prec, context().prec) == (before, 53)


def test_a_primitive_without_a_record_is_named():
    x = normal(3, 3)
    program = traced(jax.jit(jnp.linalg.cholesky), x)
    assert missing(program) == "cholesky"
    with pytest.raises(NoRule, match=r"^no exact value for the JAX primitive 'cholesky'; add 'exact' to its record in"):
        evaluate(context(), program, [x])
    assert missing(traced(lambda x: lax.scan(lambda c, y: (c, jnp.linalg.cholesky(y)), 0.0, x), x[None])) == "cholesky"


def test_complex_numbers_have_no_record():
    assert missing(traced(lambda x: jnp.abs(x * 1j), normal(2))) is not None


def test_the_work_of_a_loop_is_that_of_its_steps():
    x = normal(5, 2)
    once = work(traced(lambda x: jnp.sin(x[0]), x))
    assert work(traced(lambda x: lax.scan(lambda c, y: (c + jnp.sin(y), c), x[0], x), x)) >= 5 * 2 > once - 5
