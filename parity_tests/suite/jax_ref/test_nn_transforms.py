"""The layers under what a real training run does to them: jit, remat, scan, export, checkpoints, low precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.slow
for _package in ("flax", "equinox"):
    pytest.importorskip(_package, reason=f"{_package} is not installed: pip install 'gradparity[{_package}]'")

import equinox as eqx  # noqa: E402
from flax import nnx  # noqa: E402

from jax_ref.nn import equinox as of_equinox  # noqa: E402
from jax_ref.nn import flax as of_flax  # noqa: E402
from parity_tests.suite.jax_ref._cases import quick_jit  # noqa: E402

X = np.random.default_rng(0).standard_normal((2, 5, 8))
CLOSE = {"rtol": 1e-12, "atol": 1e-13}


@pytest.fixture(autouse=True)
def _as_flax_needs_it():
    """Flax promotes ranks and dtypes in its own layers."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def _in_flax(dtype=jnp.float64) -> tuple[Callable, object]:
    """A loss of parameters and inputs, and the parameters."""
    layer = of_flax.TanhAttention(2, 8, param_dtype=dtype, rngs=nnx.Rngs(0))
    graph, parameters = nnx.split(layer)
    return lambda p, x: jnp.sum(nnx.merge(graph, p)(x, is_causal=True) ** 2), parameters


def _in_equinox(dtype=jnp.float64) -> tuple[Callable, object]:
    layer = of_equinox.TanhAttention(2, 8, dtype=dtype, key=jax.random.key(0))
    parameters, rest = eqx.partition(layer, eqx.is_array)

    def loss(p, x):
        return jnp.sum(jax.vmap(lambda one: eqx.combine(p, rest)(one, one, one, is_causal=True))(x) ** 2)

    return loss, parameters


BOTH = pytest.mark.parametrize("made", [_in_flax, _in_equinox])


def _same(a: object, b: object) -> None:
    pairs = [*zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)]
    assert pairs
    assert any(np.any(np.asarray(y)) for _, y in pairs)
    for x, y in pairs:
        np.testing.assert_allclose(x, y, **CLOSE)


@BOTH
def test_jit_and_grad(made):
    loss, parameters = made()
    x = jnp.asarray(X)
    gradients = jax.grad(loss)(parameters, x)
    _same(jax.jit(jax.grad(loss))(parameters, x), gradients)
    direction = jax.tree.map(jnp.ones_like, parameters)
    both = [loss(jax.tree.map(lambda p, d, h=h: p + h * d, parameters, direction), x) for h in (1e-5, -1e-5)]
    along = sum(jnp.sum(g) for g in jax.tree.leaves(gradients))
    np.testing.assert_allclose(along, (both[0] - both[1]) / 2e-5, rtol=1e-6)


@BOTH
def test_vmap(made):
    """Over examples, and over models with an axis of parameters."""
    loss, parameters = made()
    x = jnp.asarray(X)
    gradient = quick_jit(jax.grad(loss))
    each = quick_jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(parameters, x[:, None])
    _same(jax.tree.map(lambda g: g.sum(0), each), gradient(parameters, x))
    models = jax.tree.map(lambda p: jnp.stack([p, 2 * p]), parameters)
    second = jax.tree.map(lambda g: g[1], quick_jit(jax.vmap(jax.grad(loss), in_axes=(0, None)))(models, x))
    _same(second, gradient(jax.tree.map(lambda p: 2 * p, parameters), x))


@BOTH
@pytest.mark.parametrize(
    "policy",
    [
        "nothing_saveable",
        *(pytest.param(x, marks=pytest.mark.soak) for x in ("everything_saveable", "dots_with_no_batch_dims_saveable")),
    ],
)
def test_remat(made, policy):
    loss, parameters = made()
    again = jax.checkpoint(loss, policy=getattr(jax.checkpoint_policies, policy))
    x = jnp.asarray(X)
    _same(quick_jit(jax.grad(again))(parameters, x), quick_jit(jax.grad(loss))(parameters, x))


def test_scan_over_layers_of_flax():
    x = jnp.asarray(X)

    @nnx.vmap(in_axes=0, out_axes=0)
    def make(key):
        return of_flax.TanhAttention(2, 8, param_dtype=jnp.float64, rngs=nnx.Rngs(key))

    graph, stacked = nnx.split(make(jax.random.split(jax.random.key(0), 3)))

    def scanned(parameters):
        def body(x, one):
            return x + jax.checkpoint(lambda p, x: nnx.merge(graph, p)(x))(one, x), None

        return jnp.sum(jax.lax.scan(body, x, parameters)[0] ** 2)

    def unrolled(parameters):
        y = x
        for i in range(3):
            y = y + nnx.merge(graph, jax.tree.map(lambda p, i=i: p[i], parameters))(y)
        return jnp.sum(y**2)

    _same(quick_jit(jax.grad(scanned))(stacked), quick_jit(jax.grad(unrolled))(stacked))


def test_scan_over_layers_of_equinox():
    x = jnp.asarray(X[0])
    stacked = eqx.filter_vmap(lambda key: of_equinox.TanhAttention(2, 8, key=key))(
        jax.random.split(jax.random.key(0), 3)
    )
    parameters, rest = eqx.partition(stacked, eqx.is_array)

    def scanned(parameters):
        def body(x, one):
            return x + eqx.combine(one, rest)(x, x, x), None

        return jnp.sum(jax.lax.scan(body, x, parameters)[0] ** 2)

    def unrolled(parameters):
        y = x
        for i in range(3):
            y = y + eqx.combine(jax.tree.map(lambda p, i=i: p[i], parameters), rest)(y, y, y)
        return jnp.sum(y**2)

    _same(quick_jit(jax.grad(scanned))(parameters), quick_jit(jax.grad(unrolled))(parameters))


@BOTH
def test_export(made):
    """Serialized with its VJP, and called after it was read back."""
    pytest.importorskip("flatbuffers", reason="jax.export cannot serialize: flatbuffers is not installed")
    loss, parameters = made()
    leaves, tree = jax.tree.flatten(parameters)

    def flat(leaves, x):
        return loss(jax.tree.unflatten(tree, leaves), x)

    x = jnp.asarray(X)
    data = jax.export.export(jax.jit(flat))(leaves, x).serialize(vjp_order=1)
    back = jax.export.deserialize(data)
    np.testing.assert_allclose(back.call(leaves, x), flat(leaves, x), **CLOSE)
    _same(jax.grad(back.call)(leaves, x), jax.grad(flat)(leaves, x))


@BOTH
def test_a_checkpoint_of_orbax(made, tmp_path: Path):
    checkpoint = pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")
    loss, parameters = made()
    leaves, tree = jax.tree.flatten(parameters)
    with checkpoint.StandardCheckpointer() as saver:
        saver.save(tmp_path / "step", leaves)
        saver.wait_until_finished()
        back = saver.restore(tmp_path / "step", leaves)
    for a, b in zip(back, leaves, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(
        loss(jax.tree.unflatten(tree, back), jnp.asarray(X)), loss(parameters, jnp.asarray(X))
    )


@BOTH
def test_bfloat16_parameters(made):
    """Gradients in bfloat16 that point where those of float64 do."""
    loss, parameters = made(jnp.bfloat16)
    low = jax.grad(loss)(parameters, jnp.asarray(X, jnp.bfloat16))
    assert {g.dtype for g in jax.tree.leaves(low)} == {jnp.dtype(jnp.bfloat16)}
    high, wide = jax.tree.map(lambda p: p.astype(jnp.float64), (parameters, low))
    exact = quick_jit(jax.grad(made()[0]))(high, jnp.asarray(X, jnp.bfloat16).astype(jnp.float64))
    for a, b in zip(jax.tree.leaves(wide), jax.tree.leaves(exact), strict=True):
        # Of three products in a row, each with a rounding of 2^-9 to its result and to what it is given.
        assert jnp.linalg.norm(a - b) <= 16 * 2**-9 * jnp.linalg.norm(b)


@BOTH
def test_debug_nans(made):
    """Silent where all is finite, and an error where an input is not."""
    loss, parameters = made()
    with jax.debug_nans(True):
        jax.block_until_ready(jax.jit(jax.grad(loss))(parameters, jnp.asarray(1e3 * X)))  # saturated
        with pytest.raises(FloatingPointError, match="nan"):
            jax.block_until_ready(jax.jit(jax.grad(loss))(parameters, jnp.asarray(X).at[0, 0, 0].set(jnp.inf)))
