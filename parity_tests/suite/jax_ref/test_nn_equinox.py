"""The layer of Equinox: as Equinox's own in all but the activation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("equinox", reason="equinox is not installed: pip install 'gradparity[equinox]'")

import equinox as eqx  # noqa: E402

from jax_ref.nn.equinox import TanhAttention, export_weights, import_weights  # noqa: E402

X = np.random.default_rng(0).standard_normal((5, 8))
OPTIONS = [
    {},
    {"key_size": 6, "value_size": 3, "output_size": 7, "qk_size": 5, "vo_size": 1},
    {"use_query_bias": True, "use_output_bias": True, "dtype": jnp.bfloat16},
]


def _layer(**options) -> TanhAttention:
    return TanhAttention(4, 8, key=jax.random.key(0), **options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parameters_are_those_of_equinox(options):
    """By name, shape, dtype and, from the same key, value."""
    theirs = eqx.nn.MultiheadAttention(4, 8, key=jax.random.key(0), **options)
    for name in ("query_proj", "key_proj", "value_proj", "output_proj"):
        a, b = getattr(_layer(**options), name), getattr(theirs, name)
        np.testing.assert_array_equal(a.weight, b.weight)
        assert a.weight.dtype == b.weight.dtype
        assert (a.bias is None) == (b.bias is None)
    assert len(jax.tree.leaves(_layer(**options))) == len(jax.tree.leaves(theirs))


def test_as_equinox_but_for_the_activation():
    def softmax(query, key, value, *, mask, is_causal, return_attn):
        scores = jnp.einsum("tnh,snh->nts", query, key) / 2**0.5
        return jnp.einsum("nts,snh->tnh", jax.nn.softmax(jnp.where(mask[None], scores, -jnp.inf)), value)

    theirs = eqx.nn.MultiheadAttention(4, 8, key=jax.random.key(0))
    x, mask = jnp.asarray(X), jnp.tril(jnp.ones((5, 5), bool))
    expected = theirs(x, x, x, mask)
    assert not np.allclose(_layer()(x, x, x, mask), expected)
    np.testing.assert_allclose(_layer(attention_fn=softmax)(x, x, x, mask), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(_layer()(x, x, x, mask), _layer()(x, x, x, is_causal=True))


def test_no_positions():
    layer, x, none = _layer(use_output_bias=True), jnp.asarray(X), jnp.zeros((0, 8))
    assert layer(none, none, none).shape == (0, 8)
    np.testing.assert_array_equal(layer(x, none, none), np.tile(layer.output_proj.bias, (5, 1)))


def test_dropout():
    layer = _layer(dropout_p=0.25)
    x = jnp.asarray(np.random.default_rng(1).standard_normal((20, 8)))
    _, every = eqx.nn.inference_mode(layer)(x, x, x, return_attn=True)
    _, some = layer(x, x, x, key=jax.random.key(1), return_attn=True)
    kept = np.asarray(some != 0)
    assert 0.65 < kept.mean() < 0.85
    assert (kept != kept[:1]).any()  # every head drops its own
    np.testing.assert_allclose(some, np.where(kept, every / 0.75, 0), rtol=1e-14)
    np.testing.assert_array_equal(layer(x, x, x, inference=True), eqx.nn.inference_mode(layer)(x, x, x))
    with pytest.raises(ValueError, match="dropout needs a key"):
        layer(x, x, x)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_weights_there_and_back(options):
    layer, other = _layer(**options), TanhAttention(4, 8, key=jax.random.key(9), **options)
    there = import_weights(other, export_weights(layer))
    for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(layer), strict=True):
        np.testing.assert_array_equal(a, b)


def test_errors():
    weights = export_weights(_layer())
    with pytest.raises(ValueError, match=r"query\.kernel is \(8, 2, 4\) in the layer but \(8, 4, 2\) in the weights"):
        import_weights(TanhAttention(2, 8, key=jax.random.key(0)), weights)
    with pytest.raises(ValueError, match=r"the weights lack out\.bias; they have"):
        import_weights(_layer(use_output_bias=True), weights)
    with pytest.raises(ValueError, match="query_size is 8, which num_heads, 3, does not divide"):
        TanhAttention(3, 8, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"dropout_p must be at least 0 and less than 1, got -0\.1"):
        _layer(dropout_p=-0.1)
