"""Normalizations by mean and variance, and by a norm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._arrays import p_norm
from jax_ref.aten._axes import axis_of
from jax_ref.aten._checks import positive, same
from jax_ref.aten._promotion import is_complex

Array = jax.Array
Maybe = ArrayLike | None


def _standardized(x: Array, axes: Sequence[int], eps: float) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + eps), mean and 1 / sqrt(variance + eps), with the axes."""
    axes = tuple(axes)
    mean = x.mean(axes, keepdims=True)
    rstd = lax.rsqrt(jnp.square(x - mean).mean(axes, keepdims=True) + eps)
    return (x - mean) * rstd, mean, rstd


def _scaled(x: Array, weight: Maybe, bias: Maybe, shape: Sequence[int]) -> Array:
    """weight x + bias, with a weight and a bias that are reshaped."""
    for name, each in (("weight", weight), ("bias", bias)):
        if each is not None:
            same(
                "a normalization",
                "the number of entries",
                (name, jnp.size(each)),
                ("the axes it scales", math.prod(shape)),
            )
    if weight is not None:
        x = x * jnp.asarray(weight, x.dtype).reshape(shape)
    return x if bias is None else x + jnp.asarray(bias, x.dtype).reshape(shape)


def native_layer_norm(
    input: ArrayLike, normalized_shape: Sequence[int], weight: Maybe, bias: Maybe, eps: float
) -> tuple[Array, Array, Array]:
    """The input with mean 0 and variance 1 along the last axes, times weight, plus bias; mean; 1 / sqrt(var + eps)."""
    x = jnp.asarray(input)
    if isinstance(normalized_shape, int):
        raise TypeError(f"normalized_shape must be a sequence of sizes; give [{normalized_shape}]")
    count = len(normalized_shape)
    if x.shape[x.ndim - count :] != tuple(normalized_shape):
        raise ValueError(f"normalized_shape is {tuple(normalized_shape)}, and the input has the shape {x.shape}")
    hat, mean, rstd = _standardized(x, range(x.ndim - count, x.ndim), eps)
    return _scaled(hat, weight, bias, (1,) * (x.ndim - count) + tuple(normalized_shape)), mean, rstd


def layer_norm(
    input: ArrayLike,
    normalized_shape: Sequence[int],
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Array:
    """The first result of native_layer_norm.

    input (*, n) of the shape (n,) to normalize, weight and bias (n,); so of several axes.

    >>> aten.layer_norm(jnp.array([[1.0, 3.0]]), [2], eps=0.0)
    Array([[-1.,  1.]], dtype=float32)
    """
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


def native_group_norm(
    input: ArrayLike, weight: Maybe, bias: Maybe, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Array, Array, Array]:
    """The input with mean 0 and variance 1 over each group of channels, times weight, plus bias, of each channel.

    Mean and 1 / sqrt(variance + eps) follow, N rows of groups.
    """
    x = jnp.asarray(input)
    hat, mean, rstd = _standardized(x.reshape(N, group, C // group * HxW), (2,), eps)
    out = _scaled(hat.reshape(x.shape), weight, bias, (1, C) + (1,) * (x.ndim - 2))
    return out, mean[:, :, 0], rstd[:, :, 0]


def group_norm(
    input: ArrayLike,
    num_groups: int,
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Array:
    """The first result of native_group_norm.

    input (batch, channels, *), weight and bias (channels,).

    >>> aten.group_norm(jnp.array([[[1.0, 3.0], [2.0, 6.0]]]), 2, eps=0.0)
    Array([[[-1.,  1.],
            [-1.,  1.]]], dtype=float32)
    """
    if jnp.ndim(input) < 2:
        raise ValueError(f"group_norm: input needs the axes (batch, channels, ...), got {jnp.shape(input)}")
    n, c, *rest = jnp.shape(input)
    positive("group_norm", num_groups=num_groups)
    if c % num_groups:
        raise ValueError(f"group_norm: {c} channels of input {jnp.shape(input)} are no multiple of {num_groups}")
    return native_group_norm(input, weight, bias, n, c, math.prod(rest), num_groups, eps)[0]


def native_batch_norm(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """The input with mean 0 and variance 1 of each channel, the second axis, times weight, plus bias.

    Mean and 1 / sqrt(variance + eps) follow; without training the running ones serve, and these results are empty.
    """
    x = jnp.asarray(input)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    if training:
        hat, mean, rstd = _standardized(x, axes, eps)
        return _scaled(hat, weight, bias, shape), mean.reshape(-1), rstd.reshape(-1)
    if running_mean is None or running_var is None:
        raise ValueError("batch_norm: without training it needs running_mean and running_var; or give training=True")
    for name, each in (("running_mean", running_mean), ("running_var", running_var)):
        same("batch_norm", "the number of channels", (f"input {x.shape}", x.shape[1]), (name, jnp.size(each)))
    mean, var = (jnp.asarray(each, x.dtype).reshape(shape) for each in (running_mean, running_var))
    none = jnp.zeros((0,), x.dtype)
    return _scaled((x - mean) * lax.rsqrt(var + eps), weight, bias, shape), none, none


def _native_batch_norm_legit_no_training(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: ArrayLike,
    running_var: ArrayLike,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """native_batch_norm without training."""
    return native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


def _native_batch_norm_legit_no_stats(
    input: ArrayLike, weight: Maybe, bias: Maybe, training: bool, momentum: float, eps: float
) -> tuple[Array, Array, Array]:
    """native_batch_norm without running statistics."""
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps)


def _updated(input: ArrayLike, running_mean: Maybe, running_var: Maybe, momentum: float) -> tuple[Array, Array]:
    """The running mean and the running variance, which is the unbiased one, after a batch."""
    x = jnp.asarray(input)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    count = x.size // x.shape[1]
    mean, var = x.mean(axes), x.var(axes) * (count / (count - 1))
    old_mean, old_var = jnp.asarray(running_mean, x.dtype), jnp.asarray(running_var, x.dtype)
    return old_mean + momentum * (mean - old_mean), old_var + momentum * (var - old_var)


def _native_batch_norm_legit_functional(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: ArrayLike,
    running_var: ArrayLike,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array, Array]:
    """native_batch_norm, the running mean and the running variance after it."""
    results = native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if not training:
        return *results, jnp.asarray(running_mean), jnp.asarray(running_var)
    return *results, *_updated(input, running_mean, running_var, momentum)


def _batch_norm_with_update(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: ArrayLike,
    running_var: ArrayLike,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array]:
    """native_batch_norm in training, and an empty array of bytes."""
    results = native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, jnp.zeros((0,), jnp.uint8)


def _batch_norm_with_update_functional(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: ArrayLike,
    running_var: ArrayLike,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """_batch_norm_with_update, the running mean and the running variance after it."""
    results = _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps)
    return *results, *_updated(input, running_mean, running_var, momentum)


def _batch_norm_no_update(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array]:
    """native_batch_norm without training, and an empty array of bytes."""
    results = native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)
    return *results, jnp.zeros((0,), jnp.uint8)


def batch_norm(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    """The first result of native_batch_norm; an input without entries as it is.

    input (batch, channels, *); weight, bias and the running ones (channels,). Nothing is written to these.

    >>> aten.batch_norm(jnp.array([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0, False)
    Array([[-1.],
           [ 1.]], dtype=float32)
    """
    if jnp.size(input) == 0:
        return jnp.asarray(input)
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def instance_norm(
    input: ArrayLike,
    weight: Maybe,
    bias: Maybe,
    running_mean: Maybe,
    running_var: Maybe,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    """The input with mean 0 and variance 1 of each channel of each example, or the running ones of each channel."""
    x = jnp.asarray(input)
    if not use_input_stats:
        return native_batch_norm(x, weight, bias, running_mean, running_var, False, momentum, eps)[0]
    hat = _standardized(x, range(2, x.ndim), eps)[0]
    return _scaled(hat, weight, bias, (1, x.shape[1]) + (1,) * (x.ndim - 2))


def _fused_rms_norm(
    input: ArrayLike, normalized_shape: Sequence[int], weight: Maybe, eps: float | None
) -> tuple[Array, Array]:
    """The input over the root of its mean square along the last axes, times weight; 1 / that root.

    eps is added to the mean square, by default the format's own.
    """
    x = jnp.asarray(input)
    count = len(normalized_shape)
    added = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    square = (x * x).mean(tuple(range(x.ndim - count, x.ndim)), keepdims=True) + added
    rstd = 1 / jnp.sqrt(square) if is_complex(x) else lax.rsqrt(square)
    return _scaled(x * rstd, weight, None, (1,) * (x.ndim - count) + tuple(normalized_shape)), rstd


def rms_norm(
    input: ArrayLike, normalized_shape: Sequence[int], weight: Maybe = None, eps: float | None = None
) -> Array:
    """The first result of _fused_rms_norm.

    >>> aten.rms_norm(jnp.array([[3.0, 3.0]]), [2], eps=0.0)
    Array([[1., 1.]], dtype=float32)
    """
    return _fused_rms_norm(input, normalized_shape, weight, eps)[0]


def _weight_norm_interface(v: ArrayLike, g: ArrayLike, dim: int = 0) -> tuple[Array, Array]:
    """g v / |v|, and |v|: the norm of each slice at an index of the first or of the last axis."""
    x = jnp.asarray(v)
    axis = axis_of(x, dim)
    norms = jnp.sqrt((x * x).sum(tuple(i for i in range(x.ndim) if i != axis), keepdims=True))
    return x * (jnp.asarray(g) / norms), norms


def renorm(self: ArrayLike, p: float, dim: int, maxnorm: float) -> Array:
    """self with the slices of an axis that have a larger p-norm scaled to maxnorm."""
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    norm = p_norm(x, p, [i for i in range(x.ndim) if i != axis], True)
    over = norm > maxnorm
    factor = jnp.where(over, maxnorm / (jnp.where(over, norm, jnp.ones_like(norm)) + 1e-7), jnp.ones_like(norm))
    return x * factor.astype(x.dtype)


OPERATORS = {
    "_weight_norm_interface": _weight_norm_interface,
    "_batch_norm_no_update": _batch_norm_no_update,
    "_batch_norm_with_update": _batch_norm_with_update,
    "_batch_norm_with_update_functional": _batch_norm_with_update_functional,
    "_fused_rms_norm": _fused_rms_norm,
    "_native_batch_norm_legit": native_batch_norm,
    "_native_batch_norm_legit.no_stats": _native_batch_norm_legit_no_stats,
    "_native_batch_norm_legit_functional": _native_batch_norm_legit_functional,
    "_native_batch_norm_legit_no_training": _native_batch_norm_legit_no_training,
}
