"""Multi-head tanh attention as a module, and its weights under names that `jax_ref.nn` reads, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

from torch_impl._dot_product_attention import dot_product_attention

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


class TanhAttention(nn.Module):
    """Projections of queries, keys and values, `torch_impl.dot_product_attention`, and a projection of its output.

    Arguments are named as in `torch.nn.MultiheadAttention`, and mean the same. What differs: the batch comes first,
    `mask` is True where a key is seen, no weights are returned unless they are asked for, and the projections are four
    `nn.Linear`s, `q_proj`, `k_proj`, `v_proj` and `out_proj`, whose sizes may differ (`num_kv_heads`).

    Args:
        embed_dim: features of the queries and of the output.
        num_heads: of the queries, a divisor of embed_dim.
        num_kv_heads: of keys and values, a divisor of num_heads; by default num_heads.
        dropout: the part of the attention weights that is dropped in training, in [0, 1).
        bias: whether the projections have one.
        kdim, vdim: features of keys and values; by default embed_dim.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim is {embed_dim}, which num_heads, {num_heads}, does not divide; give every head its share"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
        self.num_heads, self.num_kv_heads = num_heads, num_heads if num_kv_heads is None else num_kv_heads
        self.head_dim, self.dropout = embed_dim // num_heads, dropout
        of_keys = self.num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias, device, dtype)
        self.k_proj = nn.Linear(embed_dim if kdim is None else kdim, of_keys, bias, device, dtype)
        self.v_proj = nn.Linear(embed_dim if vdim is None else vdim, of_keys, bias, device, dtype)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias, device, dtype)
        for linear in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(linear.weight)
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    def forward(
        self,
        query: Float[Tensor, "*batch T embed_dim"],
        key: Float[Tensor, "*batch S kdim"] | None = None,
        value: Float[Tensor, "*batch S vdim"] | None = None,
        mask: Bool[Tensor, "*#batch #N #T #S"] | None = None,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> Float[Tensor, "*batch T embed_dim"] | tuple[Tensor, Float[Tensor, "*batch N T S"]]:
        """The layer's output; with `need_weights` also the weights of every head, after dropout.

        Without value it takes key for it, without key query.

        Raises:
            TypeError, ValueError: sizes or dtypes that do not fit; see `torch_impl.dot_product_attention`.
        """
        if key is None and value is not None:
            raise ValueError("value needs key; for one input in both places give key alone")
        key = query if key is None else key
        value = key if value is None else value
        q = self.q_proj(query).unflatten(-1, (self.num_heads, self.head_dim))
        k, v = (
            proj(x).unflatten(-1, (self.num_kv_heads, self.head_dim))
            for proj, x in ((self.k_proj, key), (self.v_proj, value))
        )
        rate = self.dropout if self.training else 0.0
        if rate > 0:  # a dropped weight is a masked one: nothing is normalised afterwards
            *batch, T, N, _ = q.shape
            kept = torch.rand(*batch, N, T, k.shape[-3], device=q.device) >= rate
            mask = kept if mask is None else mask & kept
        output, attn = dot_product_attention(q, k, v, mask=mask, is_causal=is_causal, return_attn=True)
        output = self.out_proj((output / (1 - rate)).flatten(-2))
        return (output, attn / (1 - rate)) if need_weights else output


def export_weights(layer: TanhAttention) -> dict[str, Tensor]:
    """The weights by name: copies, with the heads an axis of their own.

        query.kernel (in, N, H)     query.bias (N, H)
        key.kernel   (in, K, H)     key.bias   (K, H)
        value.kernel (in, K, H)     value.bias (K, H)
        out.kernel   (N, H, out)    out.bias   (out,)

    `safetensors.torch.save_file` writes them to a file; the layers of `jax_ref.nn` export and import the same.
    """
    weights = {}
    for name, (linear, heads) in _linears(layer).items():
        out, features = linear.weight.shape
        shape = (*heads, out) if name == "out" else (features, *heads)
        weights[f"{name}.kernel"] = (
            linear.weight.detach().mT.reshape(shape).clone(memory_format=torch.contiguous_format)
        )
        if linear.bias is not None:
            weights[f"{name}.bias"] = linear.bias.detach().reshape((out,) if name == "out" else heads).clone()
    return weights


@torch.no_grad()
def import_weights(layer: TanhAttention, weights: Mapping[str, Tensor]) -> None:
    """Give the layer these weights, in the dtype of its parameters.

    Raises:
        ValueError: a name is missing, or one too many, or a shape differs.
    """
    shapes = {name: tuple(x.shape) for name, x in export_weights(layer).items()}
    if missing := sorted({*shapes} - {*weights}):
        raise ValueError(f"the weights lack {', '.join(missing)}; they have {', '.join(sorted(weights))}")
    if unknown := sorted({*weights} - {*shapes}):
        raise ValueError(f"the layer has no {', '.join(unknown)}; it has {', '.join(sorted(shapes))}")
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(
                f"{name} is {shape} in the layer but {tuple(weights[name].shape)} in the weights; "
                "make the layer with the same sizes and the same number of heads"
            )
    for name, (linear, _) in _linears(layer).items():
        out, features = linear.weight.shape
        linear.weight.copy_(weights[f"{name}.kernel"].reshape(features, out).mT)
        if linear.bias is not None:
            linear.bias.copy_(weights[f"{name}.bias"].flatten())


def _linears(layer: TanhAttention) -> dict[str, tuple[nn.Linear, tuple[int, int]]]:
    """Each projection with the heads on its side of the attention."""
    of_queries, of_keys = (layer.num_heads, layer.head_dim), (layer.num_kv_heads, layer.head_dim)
    return {
        "query": (layer.q_proj, of_queries),
        "key": (layer.k_proj, of_keys),
        "value": (layer.v_proj, of_keys),
        "out": (layer.out_proj, of_queries),
    }
