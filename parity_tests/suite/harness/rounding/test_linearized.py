"""Linearized bounds hold for right code, are used where the running ones have no power, and refuse the rest."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding import linearized
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.bounds import INPUT
from parity_tests.harness.rounding.linearized import bounded as bounded_by_derivatives
from parity_tests.harness.rounding.linearized import narrowed
from parity_tests.harness.rounding.simulation import StochasticRounding, simulated
from parity_tests.harness.rounding.tape import NotFollowed, Tape
from parity_tests.harness.rounding.unrolled import NotUnrolled, unrolled
from parity_tests.suite.marks import fast

FLOAT64, FLOAT32 = PRECISIONS["float64"], PRECISIONS["float32"]
RNG = np.random.default_rng(5)
X, W = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 3))


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def sinkhorn(x, steps=12):
    def step(r, _):
        r = r / r.sum(-1, keepdims=True)
        return r / r.sum(-2, keepdims=True), None

    return jax.lax.scan(step, jnp.exp(x), None, length=steps)[0]


def recurrence(x, w):
    for _ in range(10):
        x = jnp.tanh(x @ w)
        x = x / jnp.sqrt((x * x).sum(-1, keepdims=True))
    return x


def softmax(x):
    return jax.nn.softmax(9 * x, axis=-1)


def gradient_of(f: Callable) -> Callable:
    return lambda *args: jax.vjp(f, *args)[1](jnp.cos(f(*args)))


def linearized_bounds(f: Callable, *args: np.ndarray, precision: Precision = FLOAT64) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        tape = Tape.of(jax.make_jaxpr(f)(*args), args, precision, INPUT)
        values = [tape.value(x) for x in tape.results]
        found = bounded_by_derivatives(tape, [np.arange(y.size) for y in values], [False] * len(values))
    return [e.reshape(y.shape) for y, (_, e) in zip(values, found, strict=True)]


def of_both(f: Callable, *args: np.ndarray, precision: Precision) -> tuple[list, list]:
    program = jax.make_jaxpr(f)(*args)
    running = bounded(program, *args, precision=precision)
    return running, narrowed(program, args, running, precision, INPUT)


CHAINS = [(sinkhorn, (X,)), (recurrence, (X, W)), (softmax, (X,))]


@fast("softmax-forward, bfloat16")
@pytest.mark.parametrize(
    ("of", "precision"),
    [(lambda f: f, FLOAT32), (gradient_of, FLOAT32), (lambda f: f, PRECISIONS["bfloat16"])],
    ids=["forward, float32", "vjp, float32", "forward, bfloat16"],
)
@pytest.mark.parametrize(("f", "args"), CHAINS, ids=["sinkhorn", "recurrence", "softmax"])
def test_simulated_right_code_is_within(of, f, args, precision):
    args = [precision.rounded(x) for x in args]
    program = jax.make_jaxpr(of(f))(*args)
    bounds = linearized_bounds(of(f), *args, precision=precision)
    exact = jax.tree.leaves(of(f)(*args))
    for run in range(8):
        found = simulated(program, args, StochasticRounding(precision, np.random.default_rng(run)))
        for y, truth, bound in zip(found, exact, bounds, strict=True):
            assert (np.abs(y - truth) <= bound).all()


def test_it_is_the_sum_of_all_roundings_by_the_derivatives_of_what_follows():
    # y = x², z = y b: z's roundings are u|z|, y's (1 + 2) u|y| by b, x's 2u|x| by 2 x b; b is an input, too.
    x, b = np.array([3.1]), np.array([0.7])
    (bound,) = linearized_bounds(lambda x, b: (x * x) * b, x, b)
    u, z = FLOAT64.u, x * x * b
    assert np.allclose(bound, (4 + 2 + 3 + 3) * u * np.abs(z), rtol=1e-3)  # 3: z's own, and what it is again


def test_what_cancels_is_not_charged():
    (bound,) = linearized_bounds(lambda x: (lambda y: y / y.sum())(jnp.exp(x)).sum(), X[:, 0])
    assert bound < 40 * FLOAT64.u  # the running bound knows nothing of it


@pytest.mark.slow
@pytest.mark.parametrize("precision", [FLOAT64, FLOAT32], ids=lambda p: p.name)
def test_it_is_used_where_the_running_bound_has_no_power(precision):
    running, found = of_both(gradient_of(sinkhorn), X, precision=precision)
    ((y, e),), ((same, narrow, before),) = running, found
    assert before is e
    assert np.array_equal(y, same)
    half = np.sqrt(precision.u) * np.abs(y).max()
    assert (narrow == np.where(e > half, half, e)).all()  # first order alone says less


def test_in_16_bits_a_bound_that_has_some_power_stays():
    # Code by log Σ exp, whose exponent is rounded, is off by more than the roundings of this program are.
    x = PRECISIONS["float16"].rounded(np.random.default_rng(2).normal(size=(4, 3)))
    ((y, e),), ((_, same, before),) = of_both(gradient_of(softmax), x, precision=PRECISIONS["float16"])
    assert (e < np.abs(y)).any()
    assert (e > np.sqrt(PRECISIONS["float16"].u) * np.abs(y).max()).any()
    assert (same is e, before) == (True, None)


def test_a_result_of_zeros_keeps_its_running_bound():
    # Of one column each row is divided by itself: all gradients are 0, and what another algorithm loses is not.
    running, found = of_both(gradient_of(sinkhorn), X[:, :1], precision=FLOAT64)
    assert np.array_equal(running[0][0], np.zeros((4, 1)))
    assert np.array_equal(running[0][1], found[0][1])


def test_it_is_not_used_elsewhere():
    running, found = of_both(softmax, X, precision=FLOAT64)
    assert [(e, None) for _, e in running] == [(e, before) for _, e, before in found]


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: jnp.where(x * 3 > 1, x, 2 * x), (np.array([1 / 3 * (1 + 2e-16)]),)),
        (lambda x: jnp.abs(x * 3 - 1.1), (np.array([1.1 / 3]),)),
        (lambda x: jnp.floor(x * 3), (np.array([1.1]),)),
        (lambda x: jnp.sort(x), (np.array([1.1, 0.2]),)),
        (lambda x: (x * 1j).real, (np.array([1.1]),)),
        (lambda x: (x - 0.3) ** 2, (np.array([0.3]),)),
        (lambda x: jnp.sqrt(x * x - x), (np.array([1 + 1e-15]),)),
    ],
    ids=["comparison", "kink", "jump", "order", "complex", "second order alone", "singularity"],
)
def test_what_it_does_not_cover_has_none(f, args):
    try:
        (bound,) = linearized_bounds(f, *args)
    except NotFollowed:
        return
    assert np.isinf(bound).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jax.lax.while_loop(lambda y: y.sum() < 10, lambda y: 2 * y, x),
        lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
        lambda x: jax.lax.scan(lambda h, a: (0.5 * h + a, h), x[0], x)[0],
    ],
    ids=["while", "cond", "linear recurrence"],
)
def test_control_flow_that_is_not_unrolled(f):
    with pytest.raises(NotUnrolled):
        unrolled(jax.make_jaxpr(f)(np.ones((3, 2))))


def test_a_kink_that_rounding_may_cross_adds_what_it_may_lose():
    x = np.array([1.1, 0.2])
    (bound,) = linearized_bounds(lambda x: jnp.maximum(3 * x, x + 2.2), x)  # equal at 1.1
    (one,) = linearized_bounds(lambda x: 3 * x, x)
    (other,) = linearized_bounds(lambda x: x + 2.2, x)
    assert bound[0] >= max(one[0], other[0])
    assert bound[1] < 2 * other[1]


def test_of_a_large_result_without_power_some_entries_are_judged(monkeypatch):
    monkeypatch.setattr(linearized, "MOST_NUMBERS", 2**18)
    x = PRECISIONS["bfloat16"].rounded(0.2 * np.random.default_rng(3).normal(size=(16, 16)))
    ((y, e),), ((_, narrow, before),) = of_both(gradient_of(softmax), x, precision=PRECISIONS["bfloat16"])
    assert not (e < np.abs(y)).any()
    assert before is e
    assert 20 <= np.count_nonzero(narrow < e) < 100
    assert (narrow < np.abs(y)).any()


def test_a_number_of_the_program_keeps_its_error():
    (bound,) = linearized_bounds(lambda x: 0.1 * x, np.array([1.0]), precision=PRECISIONS["bfloat16"])
    error = abs(float(PRECISIONS["bfloat16"].rounded(np.array(0.1))) - 0.1)
    assert bound > error + 4 * PRECISIONS["bfloat16"].u * 0.1


def test_an_overflow_has_no_bound_whatever_follows():
    # Two squares overflow float32, and what follows no longer depends on them to first order.
    def f(x):
        y = x / jnp.sqrt((x * x).sum())
        for _ in range(12):
            y = 1.5 * y - 0.5 * y * y * y
        return y

    (bound,) = linearized_bounds(f, np.array([3.7e19]), precision=FLOAT32)
    assert np.isinf(bound).all()
    (bound,) = linearized_bounds(f, np.array([3.7e9]), precision=FLOAT32)
    assert (bound < 1e-4).all()


@pytest.mark.slow
def test_unrolling_changes_no_value():
    program = jax.make_jaxpr(gradient_of(sinkhorn))(X)
    flat = unrolled(program)
    assert "scan" not in {eqn.primitive.name for eqn in flat.jaxpr.eqns}
    for one, other in zip(*(core.jaxpr_as_fun(each)(X) for each in (program, flat)), strict=True):
        assert np.allclose(one, other, rtol=1e-14)


def test_an_empty_result_beside_another():
    def f(x, w):
        return sinkhorn(x), x[:, :0] @ w[:0], (x[:0] @ w).sum(0)

    _, found = of_both(f, X, W, precision=FLOAT32)
    assert [y.shape for y, _, _ in found] == [(4, 3), (4, 3), (3,)]
    assert [before is not None for _, _, before in found] == [True, False, False]
    ((_, narrow, before),) = of_both(lambda x: sinkhorn(x)[:, :0], X, precision=FLOAT32)[1]
    assert (narrow.size, before) == (0, None)


def test_where_the_choices_alone_take_too_many_numbers_there_is_none(monkeypatch):
    # The largest number of each row is a choice among its numbers, and the running bound has no power.
    monkeypatch.setattr(linearized, "MOST_NUMBERS", 2**8)
    x = PRECISIONS["bfloat16"].rounded(0.2 * np.random.default_rng(3).normal(size=(16, 16)))
    running, found = of_both(gradient_of(softmax), x, precision=PRECISIONS["bfloat16"])
    ((y, e),), ((_, same, before),) = running, found
    assert not (e < np.abs(y)).any()
    assert before is None
    assert np.array_equal(same, e)


def test_an_operand_that_has_no_derivative():
    """The order of a polygamma function is exact, or there is no bound by derivatives."""

    def in_terms_of(order):
        return jax.make_jaxpr(lambda x: jax.lax.polygamma(order(x), jnp.exp(x)))(np.abs(X[0]))

    tapes = [
        Tape.of(in_terms_of(order), [np.abs(X[0])], FLOAT32, 1)
        for order in (lambda x: jnp.full_like(x, 2.0), lambda x: 2 + x / 3)
    ]
    with np.errstate(all="ignore"):
        ((_, e),) = bounded_by_derivatives(tapes[0], [np.arange(3)], [False])
        assert (e > 0).all()
        with pytest.raises(NotFollowed):
            bounded_by_derivatives(tapes[1], [np.arange(3)], [False])
