"""The layer of Flax: as Flax's own in all but the activation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("flax", reason="flax is not installed: pip install 'gradparity[flax]'")

from flax import nnx  # noqa: E402

import jax_ref  # noqa: E402
from jax_ref.nn.flax import TanhAttention, export_weights, import_weights  # noqa: E402

X = np.random.default_rng(0).standard_normal((2, 5, 8))
OPTIONS = [
    {},
    {"num_kv_heads": 2},
    {"qkv_features": 12, "out_features": 3},
    {"in_kv_features": 6, "use_bias": False},
    {"param_dtype": jnp.bfloat16},
]


@pytest.fixture(autouse=True)
def _as_flax_needs_it():
    """Flax promotes ranks and dtypes in its own layers."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def _layer(**options) -> TanhAttention:
    return TanhAttention(4, 8, **{"param_dtype": jnp.float64, "rngs": nnx.Rngs(0)} | options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parameters_are_those_of_flax(options):
    """By name, shape, dtype and, from the same key, value."""
    ours, theirs = (
        nnx.to_flat_state(nnx.state(layer(4, 8, rngs=nnx.Rngs(0), **options), nnx.Param))
        for layer in (TanhAttention, nnx.MultiHeadAttention)
    )
    assert [path for path, _ in ours] == [path for path, _ in theirs]
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a[...], b[...])
        assert a.dtype == b.dtype


@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2}], ids=str)
def test_as_flax_but_for_the_activation(options, monkeypatch):
    ours, theirs = (
        _layer(**options),
        nnx.MultiHeadAttention(4, 8, param_dtype=jnp.float64, rngs=nnx.Rngs(0), decode=False, **options),
    )
    mask = jnp.tril(jnp.ones((5, 5), bool))[None, None]
    expected = theirs(jnp.asarray(X), mask=mask)
    assert not np.allclose(ours(jnp.asarray(X), mask=mask), expected)
    monkeypatch.setattr(ours, "attention_fn", _softmax)
    np.testing.assert_allclose(ours(jnp.asarray(X), mask=mask), expected, rtol=1e-12, atol=1e-13)


def _softmax(query, key, value, *, mask, is_causal, return_attn):
    assert not is_causal
    assert not return_attn
    return jax.nn.dot_product_attention(query, key, value, mask=mask)


def test_other_inputs_and_weights():
    layer = _layer()
    y = jnp.asarray(X[:, :3])
    np.testing.assert_array_equal(layer(jnp.asarray(X), y), layer(jnp.asarray(X), y, y))
    output, attn = layer(jnp.asarray(X), y, return_attn=True)
    assert (output.shape, attn.shape) == ((2, 5, 8), (2, 4, 5, 3))
    query, key = layer.query(jnp.asarray(X)), layer.key(y)
    expected = np.tanh(np.einsum("btnh,bsnh->bnts", query, key) / 2**0.5)
    np.testing.assert_allclose(attn, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("broadcast", [True, False])
def test_dropout(broadcast):
    layer = _layer(dropout_rate=0.25, broadcast_dropout=broadcast, rngs=nnx.Rngs(0, dropout=1))
    x = jnp.asarray(np.random.default_rng(1).standard_normal((2, 20, 8)))
    layer.eval()
    _, every = layer(x, return_attn=True)
    layer.train()
    (output, some), (_, again) = layer(x, return_attn=True), layer(x, return_attn=True)
    kept = np.asarray(some != 0)
    assert 0.65 < kept.mean() < 0.85
    assert (kept == kept[:1, :1]).all() == broadcast
    assert (kept != np.asarray(again != 0)).any()
    np.testing.assert_allclose(some, np.where(kept, every / 0.75, 0), rtol=1e-14)
    expected = layer.out(jnp.einsum("bnts,bsnh->btnh", some, layer.value(x)))
    np.testing.assert_allclose(output, expected, rtol=1e-12, atol=1e-13)
    mine = layer(x, rngs=nnx.Rngs(dropout=5)), layer(x, rngs=nnx.Rngs(dropout=5))
    np.testing.assert_array_equal(*mine)


def test_the_gradient_under_dropout():
    """The explicit formulas, at the weights that were kept, against autodiff of plain operations."""
    layer = _layer(dropout_rate=0.5, deterministic=False, rngs=nnx.Rngs(0, dropout=1))
    x = jnp.asarray(X)
    _, attn = layer(x, return_attn=True, rngs=nnx.Rngs(dropout=2))

    def explicit(x):
        return jnp.sum(layer(x, rngs=nnx.Rngs(dropout=2)) ** 2)

    def plain(x):
        weights = jnp.tanh(jnp.einsum("btnh,bsnh->bnts", layer.query(x), layer.key(x)) / 2**0.5)
        weights = jnp.where(attn != 0, weights / 0.5, 0)
        return jnp.sum(layer.out(jnp.einsum("bnts,bsnh->btnh", weights, layer.value(x))) ** 2)

    np.testing.assert_allclose(jax.grad(explicit)(x), jax.grad(plain)(x), rtol=1e-11, atol=1e-12)


def test_dtypes():
    x = jnp.asarray(X, jnp.float32)
    layer = _layer(param_dtype=jnp.bfloat16)
    assert layer(x).dtype == jnp.float32
    assert _layer(param_dtype=jnp.float32, dtype=jnp.bfloat16)(x).dtype == jnp.bfloat16
    assert {w.dtype for w in export_weights(layer).values()} == {jnp.dtype(jnp.bfloat16)}


def test_forward_mode_has_its_face():
    layer = _layer(attention_fn=jax_ref.dot_product_attention_ad)
    tangent = jax.jvp(layer, (jnp.asarray(X),), (jnp.ones(X.shape),))[1]
    step = (layer(jnp.asarray(X) + 1e-6) - layer(jnp.asarray(X) - 1e-6)) / 2e-6
    np.testing.assert_allclose(tangent, step, atol=1e-8)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(_layer(), (jnp.asarray(X),), (jnp.ones(X.shape),))


def test_errors():
    x = jnp.asarray(X)
    with pytest.raises(ValueError, match="qkv_features is 8, which num_heads, 3, does not divide"):
        TanhAttention(3, 8, rngs=nnx.Rngs(0))
    with pytest.raises(ValueError, match=r"dropout_rate must be at least 0 and less than 1, got 1"):
        _layer(dropout_rate=1)
    with pytest.raises(ValueError, match="inputs_v needs inputs_k"):
        _layer()(x, None, x)
    with pytest.raises(ValueError, match="dropout_rate is set: say deterministic"):
        _layer(dropout_rate=0.5)(x)
    weights = export_weights(_layer())
    with pytest.raises(ValueError, match=r"query\.kernel is \(8, 2, 4\) in the layer but \(8, 4, 2\) in the weights"):
        import_weights(TanhAttention(2, 8, rngs=nnx.Rngs(0)), weights)
    with pytest.raises(ValueError, match=r"the layer has no key\.bias, out\.bias"):
        import_weights(_layer(use_bias=False), weights)
    with pytest.raises(ValueError, match=r"the weights lack out\.bias"):
        import_weights(_layer(), {name: w for name, w in weights.items() if name != "out.bias"})
