"""What is sorted, selected or read by its place: of exactly equal keys each may be chosen, and no more than one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax
from torch.nn import functional

from parity_tests import OpSpec, Verdict
from parity_tests.harness.numbers.formats import FLOAT64, PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged

SLOW = pytest.mark.slow
FLOAT32 = PRECISIONS["float32"]


def _tied(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of which three of six entries are the largest. Single rows have no tie: the oracle is certified at these."""
    if shape[0] == 1:
        return rng.standard_normal(shape)
    return rng.permuted(np.broadcast_to([1.5] * 3 + [0.25, -1.0, -2.0], shape), axis=-1)


def _spec(name: str, primal: Callable) -> OpSpec:
    return OpSpec(name, primal, "(n,6)->(n,2)", domains={"x": _tied})


SPECS = {
    "top_k": _spec("top_k", lambda x: lax.top_k(x, 2)[0]),
    "sort": _spec("sort", lambda x: jnp.sort(x, -1)[..., :3:-1]),
    "gather": _spec("gather", lambda x: jnp.take_along_axis(x, lax.top_k(x, 2)[1], -1)),
    "one_hot": _spec("one_hot", lambda x: jnp.sum(jax.nn.one_hot(lax.top_k(x, 2)[1], 6) * x[:, None], -1)),
}


def _vjp(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).scatter(-1, x.topk(2).indices, w)


def _jvp(x: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    return x_dot.gather(-1, x.topk(2).indices)


def _largest(vjp: Callable, jvp: Callable) -> Callable:
    return function(lambda x: x.topk(2).values, vjp, jvp)


LAST = _largest(
    lambda x, w: _vjp(x.flip(-1), w).flip(-1),
    lambda x, x_dot: _jvp(x.flip(-1), x_dot.flip(-1)),
)


def _equal_ones(x: torch.Tensor) -> torch.Tensor:
    return (x[..., None, :] == x.topk(2).values[..., None]).to(x.dtype)


# Mistakes at a tie, each right where there is none.
WRONG = {
    "each of the equal ones has all": _largest(
        lambda x, w: (_equal_ones(x) * w[..., None]).sum(-2),
        lambda x, x_dot: (_equal_ones(x) * x_dot[..., None, :]).sum(-1),
    ),
    "a hundred times too large": _largest(
        lambda x, w: _vjp(x, w) * torch.where(_equal_ones(x).sum((-1, -2))[..., None] > 2, 100.0, 1.0).to(w.dtype),
        lambda x, x_dot: _jvp(x, x_dot) * torch.where(_equal_ones(x).sum(-1) > 1, 100.0, 1.0).to(x.dtype),
    ),
}

maps = pytest.mark.parametrize("name", ["vjp", pytest.param("jvp", marks=SLOW)])
specs = pytest.mark.parametrize("spec", ["top_k", *(pytest.param(s, marks=SLOW) for s in SPECS if s != "top_k")])


@pytest.mark.slow
@specs
@maps
def test_another_of_the_equal_ones_is_a_convention(spec, name):
    row = judged(LAST, SPECS[spec], name)
    assert row.verdict is Verdict.PASS, row.failure
    assert row.conventions


@pytest.mark.slow
@specs
@maps
@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_at_a_tie_is_seen(spec, name, wrong):
    assert judged(WRONG[wrong], SPECS[spec], name).verdict is Verdict.MISMATCH


POOLED = OpSpec(
    "pooled",
    lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3), (1, 3), "VALID"),
    "(n,6)->(n,2)",
    domains={"x": _tied},
)


def _every_largest(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    windows = x.unflatten(-1, (2, 3))
    return ((windows == windows.amax(-1, keepdim=True)) * w[..., None]).flatten(-2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", pytest.param("bfloat16", marks=SLOW)])
def test_every_largest_of_a_window_has_its_gradient(dtype):
    def pooled(x):
        return functional.max_pool1d(x, 3)

    assert judged(lambda x: pooled(1 * x), POOLED, "vjp", dtype).verdict is Verdict.PASS
    assert judged(function(pooled, _every_largest), POOLED, "vjp", dtype).verdict is Verdict.MISMATCH


# Scores that a relu makes zero stay equal nearby: what is read at the places of the largest is a choice, and no kink.
READ = OpSpec(
    "read",
    lambda s, v: jnp.take_along_axis(v, lax.top_k(jax.nn.relu(s), 2)[1], -1),
    "(n,6),(n,6)->(n,2)",
    domains={"s": lambda rng, shape: np.where(np.arange(6) == 3, 1.0, -np.abs(_tied(rng, shape)))},
)


def _read(s: torch.Tensor, v: torch.Tensor, beyond: float = 0.0) -> torch.Tensor:
    """At the last ones of the largest, where the oracle has the first ones."""
    places = 5 - torch.sort(s.relu().flip(-1), dim=-1, descending=True, stable=True).indices[..., :2]
    return v.gather(-1, places) + beyond


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forward", pytest.param("vjp", marks=SLOW)])
def test_keys_that_are_equal_nearby_too_are_told_apart_by_nobody(name):
    assert judged(_read, READ, name).verdict is Verdict.PASS


@pytest.mark.slow
def test_what_no_choice_gives_is_wrong_there():
    assert judged(lambda s, v: _read(s, v, beyond=100.0), READ, "forward").verdict is Verdict.MISMATCH


@pytest.fixture
def float64() -> Iterator[None]:
    with pinned():
        yield


@pytest.mark.usefixtures("float64")
def test_of_equal_keys_the_bound_covers_the_choice_that_is_asked_for():
    x, y = np.array([2.0, 1.0, 2.0, 3.0]), np.array([10.0, 20.0, 40.0, 70.0])
    jaxpr = jax.make_jaxpr(lambda x, y: y[lax.top_k(x, 2)[1]])(x, y)
    ((value, bound),) = bounded(jaxpr, x, y, precision=FLOAT64)
    assert value.tolist() == [70, 10]
    np.testing.assert_allclose(bound, 0, atol=1e-12)
    ((_, bound),) = bounded(jaxpr, x, y, precision=FLOAT64.with_any_choice)
    assert bound[0] < 1e-12
    assert 30 <= bound[1] < 150  # 40 in place of 10; the hull may have all of y, and the oracle's own choice, too


NEAR = np.array([1.0, 1.0 + 2.0**-23, 0.5, 4.0])  # the first two are equal but for float32's rounding


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize(
    ("write", "bound"),
    [
        (lambda i, w: jnp.zeros(4).at[i].add(w), [5, 5, 5, 0]),
        (lambda i, w: jnp.zeros(4).at[i].set(w), [5, 5, 5, 0]),
        (lambda i, w: (jax.nn.one_hot(i, 4) * w[:, None]).sum(0), [5, 5, 5, 0]),
    ],
    ids=["add", "set", "one_hot"],
)
def test_what_is_written_where_rounding_may_point(write, bound):
    """The second largest is the first or the second; that its place is off by one says no more than this."""
    w = np.array([3.0, 5.0])
    jaxpr = jax.make_jaxpr(lambda x, w: write(lax.top_k(x, 2)[1], w))(NEAR, w)
    ((value, e),) = bounded(jaxpr, NEAR, w, precision=FLOAT32)
    assert value.tolist() == [0, 5, 0, 3]
    np.testing.assert_allclose(e, bound, atol=1e-5)
    ((_, e),) = bounded(jaxpr, NEAR, w, precision=FLOAT64)
    np.testing.assert_allclose(e, 0, atol=1e-12)


@pytest.mark.usefixtures("float64")
def test_the_place_of_the_largest_that_rounding_may_change():
    near = np.array([1.0, 0.5, 1.0 + 2.0**-23])
    jaxpr = jax.make_jaxpr(lambda x: jnp.argmax(x))(near)
    ((_, bound),) = bounded(jaxpr, near, precision=FLOAT32)
    assert round(float(bound)) == 2
    ((_, bound),) = bounded(jaxpr, near, precision=FLOAT64)
    assert bound == 0
