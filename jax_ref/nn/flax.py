"""Multi-head tanh attention for Flax NNX, in the place of `flax.nnx.MultiHeadAttention`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, overload

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jax_ref._dot_product_attention import dot_product_attention
from jax_ref.nn._attend import attend, check_heads, check_rate
from jax_ref.nn._weights import check_weights

try:
    from flax import nnx
    from flax.nnx.nn import dtypes
except ModuleNotFoundError as error:
    raise ImportError("jax_ref.nn.flax needs Flax: pip install 'gradparity[flax]'") from error

KERNEL_INIT, BIAS_INIT = nnx.initializers.lecun_normal(), nnx.initializers.zeros_init()  # Flax's own


class TanhAttention(nnx.Module):
    """Projections of queries, keys and values, `jax_ref.dot_product_attention`, and a projection of its output.

    Arguments, parameters and their shapes are those of `flax.nnx.MultiHeadAttention`: `query`, `key`, `value` with the
    kernels (in, heads, head_dim) and biases (heads, head_dim), `out` with (heads, head_dim, out) and (out,).

    Args:
        num_heads: of the queries.
        in_features: of the queries.
        qkv_features: of all heads together; by default in_features.
        out_features: by default in_features.
        in_kv_features: of keys and values; by default in_features.
        num_kv_heads: of keys and values, a divisor of num_heads; by default num_heads.
        dtype: of the computation; by default that of inputs and parameters, promoted.
        param_dtype: of the parameters.
        broadcast_dropout: drop the same weights in all examples and heads.
        dropout_rate: the part of the attention weights that is dropped, in [0, 1).
        deterministic: drop none; `nnx.Module.train` and `eval` set it.
        kernel_init, bias_init, use_bias: as in `flax.nnx.LinearGeneral`.
        attention_fn: `jax_ref.dot_product_attention_ad` if forward mode comes first.
        rngs: keys for `params`, and for `dropout` if there is any.
    """

    def __init__(
        self,
        num_heads: int,
        in_features: int,
        qkv_features: int | None = None,
        out_features: int | None = None,
        num_kv_heads: int | None = None,
        in_kv_features: int | None = None,
        *,
        dtype: jax.typing.DTypeLike | None = None,
        param_dtype: jax.typing.DTypeLike = jnp.float32,
        broadcast_dropout: bool = True,
        dropout_rate: float = 0.0,
        deterministic: bool | None = None,
        kernel_init: nnx.Initializer = KERNEL_INIT,
        bias_init: nnx.Initializer = BIAS_INIT,
        use_bias: bool = True,
        attention_fn: Callable = dot_product_attention,
        rngs: nnx.Rngs,
    ) -> None:
        qkv_features = in_features if qkv_features is None else qkv_features
        in_kv_features = in_features if in_kv_features is None else in_kv_features
        kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_heads("qkv_features", qkv_features, num_heads)
        check_rate("dropout_rate", dropout_rate)
        head_dim = qkv_features // num_heads
        self.dtype, self.broadcast_dropout, self.dropout_rate = dtype, broadcast_dropout, dropout_rate
        self.deterministic, self.attention_fn = deterministic, attention_fn
        linear = partial(
            nnx.LinearGeneral,
            dtype=dtype,
            param_dtype=param_dtype,
            kernel_init=kernel_init,
            bias_init=bias_init,
            use_bias=use_bias,
            rngs=rngs,
        )
        self.query = linear(in_features, (num_heads, head_dim))
        self.key = linear(in_kv_features, (kv_heads, head_dim))
        self.value = linear(in_kv_features, (kv_heads, head_dim))
        self.out = linear((num_heads, head_dim), in_features if out_features is None else out_features, axis=(-2, -1))
        self.rngs = rngs.dropout.fork() if dropout_rate > 0 else None

    @overload
    def __call__(
        self,
        inputs_q: Float[Array, "*batch T in_features"],
        inputs_k: Float[Array, "*batch S in_kv_features"] | None = None,
        inputs_v: Float[Array, "*batch S in_kv_features"] | None = None,
        *,
        mask: Bool[Array, "*#batch #N #T #S"] | None = None,
        deterministic: bool | None = None,
        rngs: nnx.Rngs | nnx.RngStream | None = None,
        is_causal: bool = False,
        return_attn: Literal[False] = False,
    ) -> Float[Array, "*batch T out_features"]: ...

    @overload
    def __call__(
        self,
        inputs_q: Float[Array, "*batch T in_features"],
        inputs_k: Float[Array, "*batch S in_kv_features"] | None = None,
        inputs_v: Float[Array, "*batch S in_kv_features"] | None = None,
        *,
        mask: Bool[Array, "*#batch #N #T #S"] | None = None,
        deterministic: bool | None = None,
        rngs: nnx.Rngs | nnx.RngStream | None = None,
        is_causal: bool = False,
        return_attn: Literal[True],
    ) -> tuple[Float[Array, "*batch T out_features"], Float[Array, "*batch N T S"]]: ...

    def __call__(
        self,
        inputs_q: Float[Array, "*batch T in_features"],
        inputs_k: Float[Array, "*batch S in_kv_features"] | None = None,
        inputs_v: Float[Array, "*batch S in_kv_features"] | None = None,
        *,
        mask: Bool[Array, "*#batch #N #T #S"] | None = None,
        deterministic: bool | None = None,
        rngs: nnx.Rngs | nnx.RngStream | None = None,
        is_causal: bool = False,
        return_attn: bool = False,
    ) -> Float[Array, "*batch T out_features"] | tuple[Array, Float[Array, "*batch N T S"]]:
        """The layer's output; with `return_attn` also the weights, after dropout.

        Without inputs_v it takes inputs_k for it, without inputs_k inputs_q. A mask is False where nothing is seen.

        Raises:
            TypeError, ValueError: sizes or dtypes that do not fit, by the name they have in
                `jax_ref.dot_product_attention`; dropout without a word on whether it is on, or without keys.
        """
        if inputs_k is None and inputs_v is not None:
            raise ValueError("inputs_v needs inputs_k; for one input in both places give inputs_k alone")
        inputs_k = inputs_q if inputs_k is None else inputs_k
        inputs_v = inputs_k if inputs_v is None else inputs_v
        projected = self.query(inputs_q), self.key(inputs_k), self.value(inputs_v)
        query, key, value = dtypes.promote_dtype(projected, dtype=self.dtype)
        kept = self._kept(query, key, deterministic, rngs)
        output, attn = attend(
            self.attention_fn, query, key, value, mask, kept, self.dropout_rate, is_causal, return_attn
        )
        output = self.out(output)
        return output if attn is None else (output, attn)

    def _kept(
        self, query: Array, key: Array, deterministic: bool | None, rngs: nnx.Rngs | nnx.RngStream | None
    ) -> Bool[Array, "*#batch #N T S"] | None:
        """Which weights dropout keeps; None: all."""
        if self.dropout_rate == 0:
            return None
        deterministic = self.deterministic if deterministic is None else deterministic
        if deterministic is None:
            raise ValueError("dropout_rate is set: say deterministic=True or False, to the layer or to this call")
        if deterministic:
            return None
        rngs = self.rngs if rngs is None else rngs
        stream = rngs.dropout if isinstance(rngs, nnx.Rngs) else rngs
        assert stream is not None  # made with the layer, where dropout_rate is not 0
        *batch, T, N, _ = query.shape
        shape = (*((1,) * (len(batch) + 1) if self.broadcast_dropout else (*batch, N)), T, key.shape[-3])
        return jax.random.bernoulli(stream(), 1 - self.dropout_rate, shape)


def export_weights(layer: TanhAttention) -> dict[str, Array]:
    """The weights under the names and in the shapes of `jax_ref.nn._weights`."""
    return {name: variable[...] for name, variable in _variables(layer).items()}


def import_weights(layer: TanhAttention, weights: Mapping[str, Array]) -> None:
    """Give the layer these weights, in the dtype of its parameters.

    Raises:
        ValueError: other names or shapes than the layer's.
    """
    variables = _variables(layer)
    check_weights(weights, {name: variable.shape for name, variable in variables.items()})
    for name, variable in variables.items():
        variable[...] = jnp.asarray(weights[name]).astype(variable.dtype)


def _variables(layer: TanhAttention) -> dict[str, nnx.Param]:
    linears = {"query": layer.query, "key": layer.key, "value": layer.value, "out": layer.out}
    found = {f"{name}.{part}": getattr(linear, part) for name, linear in linears.items() for part in ("kernel", "bias")}
    return {name: variable for name, variable in found.items() if variable is not None}
