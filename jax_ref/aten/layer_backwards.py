"""ATen's backward operators of convolutions, normalizations and attention.

A gradient that output_mask does not ask for is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten import attention
from jax_ref.aten._arrays import Ints, pullback
from jax_ref.aten.convolutions import conv_tbc, convolution

Array = jax.Array
Maybe = ArrayLike | None
Gradients = tuple[Array | None, ...]


def _masked(gradients: Sequence[Array | None], output_mask: Sequence[bool]) -> Gradients:
    return tuple(g if wanted else None for g, wanted in zip(gradients, output_mask, strict=True))


def convolution_backward(
    grad_output: ArrayLike,
    input: ArrayLike,
    weight: ArrayLike,
    bias_sizes: Sequence[int] | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    output_mask: Sequence[bool],
) -> Gradients:
    """The gradients of the input, of the weight and of the bias of a convolution."""
    x, w, g = jnp.asarray(input), jnp.asarray(weight), jnp.asarray(grad_output)
    grads = pullback(
        lambda x, w: convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups), [x, w], g
    )
    channels = g.ndim - w.ndim + 1
    return _masked([*grads, g.sum(tuple(i for i in range(g.ndim) if i != channels))], output_mask)


def _slow_conv2d_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    weight: ArrayLike,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    output_mask: Sequence[bool],
) -> Gradients:
    """convolution_backward of two-dimensional images."""
    return convolution_backward(grad_output, self, weight, None, stride, padding, [1, 1], False, [0, 0], 1, output_mask)


def conv_tbc_backward(
    self: ArrayLike, input: ArrayLike, weight: ArrayLike, bias: ArrayLike, pad: int
) -> tuple[Array, ...]:
    """The gradients of the input, of the weight and of the bias of conv_tbc; self is that of its result."""
    primals = [jnp.asarray(each) for each in (input, weight, bias)]
    return pullback(lambda x, w, b: conv_tbc(x, w, b, pad), primals, self)


def native_dropout_backward(grad_output: ArrayLike, mask: ArrayLike, scale: float) -> Array:
    """grad_output mask scale."""
    g = jnp.asarray(grad_output)
    return g * jnp.asarray(mask).astype(g.dtype) * scale


def _standardized_backward(g: Array, x: Array, mean: Array, rstd: Array, axes: Sequence[int]) -> Array:
    """The gradient of x, given that of (x - mean) rstd, mean and rstd being those of x along the axes."""
    axes = tuple(axes)
    hat = (x - mean) * rstd
    return rstd * (g - g.mean(axes, keepdims=True) - hat * (g * hat).mean(axes, keepdims=True))


def native_layer_norm_backward(
    grad_out: ArrayLike,
    input: ArrayLike,
    normalized_shape: Sequence[int],
    mean: ArrayLike,
    rstd: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    output_mask: Sequence[bool],
) -> Gradients:
    """The gradients of the input, of the weight and of the bias, given the mean and 1 / deviation of the input."""
    g, x, m, r = (jnp.asarray(each) for each in (grad_out, input, mean, rstd))
    lead = x.ndim - len(normalized_shape)
    before = tuple(range(lead))
    in_weight = (g * (x - m) * r).sum(before) if weight is not None else None
    in_bias = g.sum(before) if bias is not None else None
    if weight is not None:
        g = g * jnp.asarray(weight, g.dtype).reshape((1,) * lead + tuple(normalized_shape))
    return _masked([_standardized_backward(g, x, m, r, range(lead, x.ndim)), in_weight, in_bias], output_mask)


def native_group_norm_backward(
    grad_out: ArrayLike,
    input: ArrayLike,
    mean: ArrayLike,
    rstd: ArrayLike,
    weight: Maybe,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> Gradients:
    """The gradients of the input, of the weight and of the bias, given the mean and 1 / deviation of each group."""
    shape = (N, group, C // group, HxW)
    x = jnp.asarray(input)
    g, rows = jnp.asarray(grad_out).reshape(shape), x.reshape(shape)
    m, r = (jnp.asarray(each).reshape(N, group, 1, 1) for each in (mean, rstd))
    in_weight, in_bias = (g * (rows - m) * r).sum((0, 3)).reshape(C), g.sum((0, 3)).reshape(C)
    if weight is not None:
        g = g * jnp.asarray(weight, g.dtype).reshape(1, group, C // group, 1)
    in_input = _standardized_backward(g, rows, m, r, (2, 3)).reshape(x.shape)
    return _masked([in_input, in_weight, in_bias], output_mask)


def native_batch_norm_backward(
    grad_out: ArrayLike,
    input: ArrayLike,
    weight: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_invstd: Maybe,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Gradients:
    """The gradients of the input, of the weight and of the bias, given the mean and 1 / deviation of each channel."""
    g, x = jnp.asarray(grad_out), jnp.asarray(input)
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    if train:
        m, r = (jnp.asarray(each, x.dtype).reshape(shape) for each in (save_mean, save_invstd))
    else:
        m, var = (jnp.asarray(each, x.dtype).reshape(shape) for each in (running_mean, running_var))
        r = lax.rsqrt(var + eps)
    in_weight, in_bias = (g * (x - m) * r).sum(axes), g.sum(axes)
    if weight is not None:
        g = g * jnp.asarray(weight, g.dtype).reshape(shape)
    in_input = _standardized_backward(g, x, m, r, axes) if train else g * r
    return _masked([in_input, in_weight, in_bias], output_mask)


def batch_norm_backward(
    grad_out: ArrayLike,
    input: ArrayLike,
    weight: ArrayLike,
    running_mean: Maybe,
    running_var: Maybe,
    save_mean: Maybe,
    save_var: Maybe,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: ArrayLike,
) -> Gradients:
    """native_batch_norm_backward; save_var is 1 / deviation."""
    return native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


def _fused_rms_norm_backward(
    grad_out: ArrayLike,
    input: ArrayLike,
    normalized_shape: Sequence[int],
    rstd: ArrayLike,
    weight: Maybe,
    output_mask: Sequence[bool],
) -> Gradients:
    """The gradients of the input and of the weight of _fused_rms_norm, given its second result."""
    g, x, r = (jnp.asarray(each) for each in (grad_out, input, rstd))
    lead = x.ndim - len(normalized_shape)
    hat = x * r
    in_weight = (g * hat).sum(tuple(range(lead))) if weight is not None else None
    if weight is not None:
        g = g * jnp.asarray(weight, g.dtype).reshape((1,) * lead + tuple(normalized_shape))
    in_input = r * (g - hat * (g * hat).mean(tuple(range(lead, x.ndim)), keepdims=True))
    return _masked([in_input, in_weight], output_mask)


def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out: ArrayLike,
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    out: ArrayLike,
    logsumexp: ArrayLike,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Maybe = None,
    scale: float | None = None,
) -> tuple[Array, ...]:
    """The gradients of query, key and value."""
    q, k, v, g, o = (jnp.asarray(each) for each in (query, key, value, grad_out, out))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = attention._scores(q, k, attn_mask, is_causal, scale)
    weights = jnp.exp(scores - jnp.asarray(logsumexp, scores.dtype)[..., None])
    in_weights = jnp.einsum("...qd,...kd->...qk", g, v)
    in_scores = factor * weights * (in_weights - (g * o).sum(-1, keepdims=True))
    in_query = jnp.einsum("...qk,...kd->...qd", in_scores, k)
    in_key = jnp.einsum("...qk,...qd->...kd", in_scores, q)
    return in_query, in_key, jnp.einsum("...qk,...qd->...kd", weights, g)


OPERATORS = {
    "_slow_conv2d_backward.output_mask": _slow_conv2d_backward,
    "_fused_rms_norm_backward": _fused_rms_norm_backward,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _scaled_dot_product_flash_attention_for_cpu_backward,
}
