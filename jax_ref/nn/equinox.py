"""Multi-head tanh attention for Equinox, in the place of `equinox.nn.MultiheadAttention`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, overload

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jax_ref._dot_product_attention import dot_product_attention
from jax_ref.nn._attend import attend, check_heads, check_rate
from jax_ref.nn._weights import check_weights

try:
    import equinox as eqx
except ModuleNotFoundError as error:
    raise ImportError("jax_ref.nn.equinox needs Equinox: pip install 'gradparity[equinox]'") from error


class TanhAttention(eqx.Module):
    """Projections of queries, keys and values, `jax_ref.dot_product_attention`, and a projection of its output.

    Arguments, parameters and their shapes are those of `equinox.nn.MultiheadAttention`: `query_proj`, `key_proj`,
    `value_proj` with the weights (heads * size, in), `output_proj` with (out, heads * size). For one example, without a
    batch axis: map with `jax.vmap`.

    Args:
        num_heads: of queries, keys and values.
        query_size, key_size, value_size, output_size: features; by default query_size.
        qk_size, vo_size: of a head; by default query_size // num_heads.
        use_query_bias, use_key_bias, use_value_bias, use_output_bias: whether a projection has one.
        dropout_p: the part of the attention weights that is dropped, in [0, 1).
        inference: drop none; `equinox.nn.inference_mode` sets it.
        dtype: of the parameters; by default JAX's default.
        attention_fn: `jax_ref.dot_product_attention_ad` if forward mode comes first.
        key: for the initial parameters.
    """

    query_proj: eqx.nn.Linear
    key_proj: eqx.nn.Linear
    value_proj: eqx.nn.Linear
    output_proj: eqx.nn.Linear
    dropout: eqx.nn.Dropout
    num_heads: int = eqx.field(static=True)
    attention_fn: Callable = eqx.field(static=True)

    def __init__(
        self,
        num_heads: int,
        query_size: int,
        key_size: int | None = None,
        value_size: int | None = None,
        output_size: int | None = None,
        qk_size: int | None = None,
        vo_size: int | None = None,
        use_query_bias: bool = False,
        use_key_bias: bool = False,
        use_value_bias: bool = False,
        use_output_bias: bool = False,
        dropout_p: float = 0.0,
        inference: bool = False,
        dtype: jax.typing.DTypeLike | None = None,
        attention_fn: Callable = dot_product_attention,
        *,
        key: PRNGKeyArray,
    ) -> None:
        if qk_size is None or vo_size is None:
            check_heads("query_size", query_size, num_heads)
        check_rate("dropout_p", dropout_p)
        key_size, value_size, output_size = (
            query_size if size is None else size for size in (key_size, value_size, output_size)
        )
        qk_size, vo_size = (query_size // num_heads if size is None else size for size in (qk_size, vo_size))
        projections = (
            (query_size, num_heads * qk_size, use_query_bias),
            (key_size, num_heads * qk_size, use_key_bias),
            (value_size, num_heads * vo_size, use_value_bias),
            (num_heads * vo_size, output_size, use_output_bias),
        )
        self.query_proj, self.key_proj, self.value_proj, self.output_proj = (
            eqx.nn.Linear(*sizes, dtype=dtype, key=one)
            for sizes, one in zip(projections, jax.random.split(key, 4), strict=True)
        )
        self.dropout = eqx.nn.Dropout(dropout_p, inference)
        self.num_heads, self.attention_fn = num_heads, attention_fn

    @overload
    def __call__(
        self,
        query: Float[Array, "T query_size"],
        key_: Float[Array, "S key_size"],
        value: Float[Array, "S value_size"],
        mask: Bool[Array, "#T #S"] | Bool[Array, "#N #T #S"] | None = None,
        *,
        is_causal: bool = False,
        key: PRNGKeyArray | None = None,
        inference: bool | None = None,
        return_attn: Literal[False] = False,
    ) -> Float[Array, "T output_size"]: ...

    @overload
    def __call__(
        self,
        query: Float[Array, "T query_size"],
        key_: Float[Array, "S key_size"],
        value: Float[Array, "S value_size"],
        mask: Bool[Array, "#T #S"] | Bool[Array, "#N #T #S"] | None = None,
        *,
        is_causal: bool = False,
        key: PRNGKeyArray | None = None,
        inference: bool | None = None,
        return_attn: Literal[True],
    ) -> tuple[Float[Array, "T output_size"], Float[Array, "N T S"]]: ...

    def __call__(
        self,
        query: Float[Array, "T query_size"],
        key_: Float[Array, "S key_size"],
        value: Float[Array, "S value_size"],
        mask: Bool[Array, "#T #S"] | Bool[Array, "#N #T #S"] | None = None,
        *,
        is_causal: bool = False,
        key: PRNGKeyArray | None = None,
        inference: bool | None = None,
        return_attn: bool = False,
    ) -> Float[Array, "T output_size"] | tuple[Array, Float[Array, "N T S"]]:
        """The layer's output; with `return_attn` also the weights, after dropout.

        A mask is False where nothing is seen. The key is for dropout.

        Raises:
            TypeError, ValueError: sizes or dtypes that do not fit, by the name they have in
                `jax_ref.dot_product_attention`; dropout without a key.
        """
        inference = self.dropout.inference if inference is None else inference
        kept = None
        if self.dropout.p > 0 and not inference:
            if key is None:
                raise ValueError("dropout needs a key: layer(..., key=key), or inference=True for none")
            shape = self.num_heads, query.shape[0], key_.shape[0]
            kept = jax.random.bernoulli(key, 1 - self.dropout.p, shape)
        q, k, v = (
            jax.vmap(proj)(x).reshape(x.shape[0], self.num_heads, proj.weight.shape[0] // self.num_heads)
            for proj, x in ((self.query_proj, query), (self.key_proj, key_), (self.value_proj, value))
        )
        output, attn = attend(self.attention_fn, q, k, v, mask, kept, self.dropout.p, is_causal, return_attn)
        output = jax.vmap(self.output_proj)(output.reshape(query.shape[0], self.output_proj.weight.shape[1]))
        return output if attn is None else (output, attn)


def export_weights(layer: TanhAttention) -> dict[str, Array]:
    """The weights under the names and in the shapes of `jax_ref.nn._weights`."""
    N = layer.num_heads
    weights = {}
    for name, linear in _linears(layer).items():
        out, features = linear.weight.shape
        kernel, bias = ((N, -1, out), (out,)) if name == "out" else ((features, N, -1), (N, -1))
        weights[f"{name}.kernel"] = linear.weight.T.reshape(kernel)
        if linear.bias is not None:
            weights[f"{name}.bias"] = linear.bias.reshape(bias)
    return weights


def import_weights(layer: TanhAttention, weights: Mapping[str, Array]) -> TanhAttention:
    """The layer with these weights, in the dtype of its parameters.

    Raises:
        ValueError: other names or shapes than the layer's.
    """
    check_weights(weights, {name: x.shape for name, x in export_weights(layer).items()})
    new = []
    for name, linear in _linears(layer).items():
        out, features = linear.weight.shape
        new.append(jnp.asarray(weights[f"{name}.kernel"]).reshape(features, out).T.astype(linear.weight.dtype))
        if linear.bias is not None:
            new.append(jnp.asarray(weights[f"{name}.bias"]).reshape(out).astype(linear.bias.dtype))
    return eqx.tree_at(_arrays, layer, new)


def _arrays(layer: TanhAttention) -> list[Array]:
    found = [x for linear in _linears(layer).values() for x in (linear.weight, linear.bias)]
    return [x for x in found if x is not None]


def _linears(layer: TanhAttention) -> dict[str, eqx.nn.Linear]:
    return {"query": layer.query_proj, "key": layer.key_proj, "value": layer.value_proj, "out": layer.output_proj}
