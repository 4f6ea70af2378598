"""Indexing and sorting in NumPy against JAX: the same values, wherever an index points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.suite.harness._ops import normal
from parity_tests.suite.harness.primitives.test_values import compare
from parity_tests.suite.rotation import rotating

INDICES = np.array([[3, -9], [0, 3], [1, 1], [7, 2], [-1, 0]])


def _combinations(mode: str) -> dict[str, Callable]:
    def at(x: jax.Array) -> Any:
        return x.at[INDICES[:, 0], :, INDICES[:, 1] % 7]

    return {
        "get": lambda x: at(x).get(mode=mode, wrap_negative_indices=False),
        "get_filled": lambda x: at(x).get(mode=mode, fill_value=-7.0, wrap_negative_indices=False),
        "add": lambda x: at(x).add(2 * x[0, :, 0], mode=mode, wrap_negative_indices=False),
        "multiply": lambda x: at(x).multiply(2 * x[0, :, 0], mode=mode, wrap_negative_indices=False),
        "max": lambda x: at(x).max(x[0, :, 0], mode=mode, wrap_negative_indices=False),
        "min": lambda x: at(x).min(x[0, :, 0], mode=mode, wrap_negative_indices=False),
        "set": lambda x: at(x).set(x[0, :, 0], mode=mode, wrap_negative_indices=False),
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", _combinations("clip"))
@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_places_inside_and_outside(how, mode):
    assert any("gather" in name or "scatter" in name for name in compare(_combinations(mode)[how], normal(4, 2, 5)))


PROGRAMS: dict[str, Callable] = {
    "along_an_axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
    "diagonals": lambda x: (jnp.diagonal(x), jnp.diag(x[0, :3]), jnp.trace(x, axis1=1, axis2=2)),
    "row_of_each": lambda x: jax.vmap(lambda a, i: a[i])(x, jnp.array([1, 0, 2, 1])),
    "row_of_each_added_to": lambda x: jax.vmap(lambda a, i: a.at[i].add(1.5))(x, jnp.array([1, 0, 2, 1])),
    "columns_of_each": lambda x: jax.vmap(lambda a: a[jnp.array([0, 0, 2])], 2, 1)(x),
    "unsigned": lambda x: x[jnp.array([[0, 1], [1, 3]], jnp.uint32), 1:, jnp.array([2, 2])],
    "one_place": lambda x: jnp.take(x, jnp.array(2)),
    "slice_outside": lambda x: lax.dynamic_slice(x, (3, -9, jnp.array(1)), (2, 2, 3)),
    "slice_written_outside": lambda x: lax.dynamic_update_slice(x, 2 * x[:2, :2, :3], (3, -9, jnp.array(1))),
    "sorts": lambda x: (jnp.sort(x, 0), jnp.argsort(-x, 2), lax.sort((x, 2 * x, jnp.cos(x)), dimension=1)),
    "integers": lambda x: (
        jnp.arange(5) + x.astype(int),
        jnp.eye(3),
        (x > 0).astype(int),
        jnp.zeros((), int).astype(bool),
    ),
    "counts": lambda x: jnp.bincount(jnp.array([0, 2, 2, 9]), length=4) + x[:, 0, :1],
    "booleans": lambda x: jnp.array([True, False, False]).at[jnp.array([1, 5])].set(True) * x[0, :, 0],
    "no_place": lambda x: x[:, jnp.zeros(0, int)],
    "no_place_added_to": lambda x: x.at[:, jnp.zeros(0, int)].add(1.0),
    "empty_array": lambda x: jnp.zeros((0, 3)).at[jnp.array([0, 1])].add(lax.stop_gradient(x[0, 0, :3])),
}


@pytest.mark.slow
@rotating(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_their_gradients(name):
    f, x = PROGRAMS[name], normal(4, 3, 5)
    compare(f, x)
    compare(jax.grad(lambda x: sum(jnp.sum(jnp.sin(y * 1.0)) for y in jax.tree.leaves(f(x)))), x)


@pytest.mark.slow
def test_places_that_are_promised_to_be_inside():
    compare(lambda x: x.at[1].get(mode="promise_in_bounds") + x.at[2].add(x[0], mode="promise_in_bounds"), normal(4, 2))


@pytest.mark.slow
def test_sorting_of_ties_zeros_infinities_and_nan():
    x = np.array([[1.0, -0.0, np.nan, 0.0, np.inf, -np.inf, 1.0, 0.0], [-np.nan, 2.0, 2.0, 2.0, 0.0, -0.0, 1.0, 2.0]])
    compare(lambda x: (jnp.sort(x, 1), jnp.argsort(x, 1), jnp.argsort(x, 0)), x)


@st.composite
def windows(draw: st.DrawFn) -> tuple[tuple[int, ...], lax.GatherDimensionNumbers, tuple[int, ...], np.ndarray]:
    """Of any sizes, at any places inside and outside, along any axes, with axes that go together."""
    d = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(d))
    kinds = [draw(st.sampled_from(["kept", "collapsed", "batched"])) for _ in range(d)]
    sizes = tuple(draw(st.integers(1, n)) if kind == "kept" else 1 for n, kind in zip(shape, kinds, strict=True))
    batched = [axis for axis in range(d) if kinds[axis] == "batched"]
    named = [axis for axis in draw(st.permutations(range(d))) if axis not in batched and draw(st.booleans())]
    batch = [shape[axis] for axis in batched] + [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))]
    order = draw(st.permutations(range(len(batch))))
    indices = np.array(draw(st.lists(st.integers(-3, 6), min_size=(n := int(np.prod(batch)) * len(named)), max_size=n)))
    indices = indices.astype(int).reshape(*(batch[i] for i in order), len(named))
    kept = kinds.count("kept")
    offset = sorted(draw(st.permutations(range(kept + len(batch))))[:kept])
    numbers = lax.GatherDimensionNumbers(
        tuple(offset),
        tuple(axis for axis in range(d) if kinds[axis] == "collapsed"),
        tuple(named),
        tuple(batched),
        tuple(order.index(i) for i in range(len(batched))),
    )
    return shape, numbers, sizes, indices


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(windows(), st.sampled_from(["clip", "fill"]))
def test_windows(drawn, mode):
    shape, numbers, sizes, indices = drawn
    scatter = lax.ScatterDimensionNumbers(
        numbers.offset_dims,
        numbers.collapsed_slice_dims,
        numbers.start_index_map,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
    )

    def f(x: jax.Array) -> tuple[jax.Array, ...]:
        y = lax.gather(x, indices, numbers, sizes, mode=mode)
        z = jnp.nan_to_num(y)
        return y, lax.scatter_add(x, indices, z, scatter, mode=mode), lax.scatter_max(x, indices, z, scatter, mode=mode)

    assert {"gather", "scatter-add", "scatter-max"} <= compare(f, normal(*shape))


def test_nothing_is_compiled_for_a_new_shape(monkeypatch):
    """What JAX itself evaluates goes through `apply_primitive`."""
    from jax._src import dispatch  # the only place where a compilation can be seen

    def f(x: jax.Array) -> Any:
        return jnp.sort(x)[::-1][jnp.array([0, 2])], jnp.diag(x), x.at[jnp.array([0, 9])].add(1.0), jnp.median(x)

    with pinned():
        programs = [(jax.make_jaxpr(lambda x: jax.vjp(f, x)[1](f(x)))(normal(n)), n) for n in (3, 11)]

        def refused(primitive, *args, **params):
            raise AssertionError(f"JAX evaluates {primitive}")

        monkeypatch.setattr(dispatch, "apply_primitive", refused)
        for program, n in programs:
            assert all(np.isfinite(y).all() for y in evaluate(program, normal(n)))
