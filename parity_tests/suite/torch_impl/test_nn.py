"""The torch layer by itself: names, masks, dropout, weights, errors. Against JAX it is judged in suite/test_nn.py."""

from __future__ import annotations

import pytest
import torch

from torch_impl.nn import TanhAttention, export_weights, import_weights


def _layer(**options) -> TanhAttention:
    torch.manual_seed(0)
    return TanhAttention(8, 4, dtype=torch.float64, **options)


X = torch.linspace(-1, 1, 2 * 5 * 8, dtype=torch.float64).sin().reshape(2, 5, 8)


def test_parameters() -> None:
    shapes = {name: tuple(p.shape) for name, p in _layer(num_kv_heads=2, kdim=3, vdim=5).named_parameters()}
    assert shapes == {
        "q_proj.weight": (8, 8),
        "q_proj.bias": (8,),
        "k_proj.weight": (4, 3),
        "k_proj.bias": (4,),
        "v_proj.weight": (4, 5),
        "v_proj.bias": (4,),
        "out_proj.weight": (8, 8),
        "out_proj.bias": (8,),
    }
    assert {name for name, _ in _layer(bias=False).named_parameters()} == {name for name in shapes if "weight" in name}


def test_as_torchs_own_but_for_the_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same projections, and softmax put in the place of tanh."""
    layer, theirs = _layer(), torch.nn.MultiheadAttention(8, 4, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.q_proj.weight, layer.k_proj.weight, layer.v_proj.weight]))
        theirs.out_proj.weight.copy_(layer.out_proj.weight)
    seen = torch.ones(5, 5, dtype=torch.bool)
    expected, weights = theirs(X, X, X, need_weights=True, average_attn_weights=False)
    assert not torch.allclose(layer(X, mask=seen), expected)
    monkeypatch.setattr(torch, "tanh", lambda scores: torch.softmax(scores, -1))
    output, attn = layer(X, mask=seen, need_weights=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(attn, weights)


def test_a_mask_is_true_where_a_key_is_seen() -> None:
    layer = _layer()
    lower = torch.ones(5, 5, dtype=torch.bool).tril()
    assert torch.equal(layer(X, mask=lower), layer(X, is_causal=True))
    _, attn = layer(X, mask=lower, need_weights=True)
    assert attn.shape == (2, 4, 5, 5)
    assert (attn != 0).logical_and(~lower).sum() == 0


def test_dropout() -> None:
    layer = _layer(dropout=0.25)
    _, every = layer.eval()(X, need_weights=True)
    output, some = layer.train()(X, need_weights=True)
    kept = some != 0
    assert 0.6 < kept.double().mean() < 0.9
    torch.testing.assert_close(some, torch.where(kept, every / 0.75, 0))
    v = layer.v_proj(X).unflatten(-1, (4, 2)).transpose(1, 2)
    torch.testing.assert_close(output, layer.out_proj((some @ v).transpose(1, 2).flatten(-2)))
    assert torch.equal(layer.eval()(X), layer(X))


def test_weights_there_and_back() -> None:
    layer, other = _layer(num_kv_heads=2, kdim=3), TanhAttention(8, 4, 2, kdim=3, dtype=torch.float64)
    weights = export_weights(layer)
    assert {name: tuple(x.shape) for name, x in weights.items()} == {
        "query.kernel": (8, 4, 2),
        "query.bias": (4, 2),
        "key.kernel": (3, 2, 2),
        "key.bias": (2, 2),
        "value.kernel": (8, 2, 2),
        "value.bias": (2, 2),
        "out.kernel": (4, 2, 8),
        "out.bias": (8,),
    }
    assert all(x.is_contiguous() for x in weights.values())
    import_weights(other, weights)
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), other.parameters(), strict=True))
    for x in weights.values():  # copies
        x.zero_()
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), other.parameters(), strict=True))


def test_errors() -> None:
    weights = export_weights(_layer())
    with pytest.raises(ValueError, match=r"query\.kernel is \(8, 2, 4\) in the layer but \(8, 4, 2\) in the weights"):
        import_weights(TanhAttention(8, 2), weights)
    with pytest.raises(ValueError, match=r"the layer has no key\.bias, out\.bias, query\.bias, value\.bias; it has"):
        import_weights(TanhAttention(8, 4, bias=False), weights)
    with pytest.raises(ValueError, match=r"the weights lack out\.bias; they have"):
        import_weights(_layer(), {name: x for name, x in weights.items() if name != "out.bias"})
    with pytest.raises(ValueError, match=r"embed_dim is 8, which num_heads, 3, does not divide"):
        TanhAttention(8, 3)
    with pytest.raises(ValueError, match=r"dropout must be at least 0 and less than 1, got 1\.0"):
        TanhAttention(8, 4, dropout=1.0)
    with pytest.raises(ValueError, match="value needs key"):
        _layer()(X, value=X)
