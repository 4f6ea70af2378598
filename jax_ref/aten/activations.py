"""Activation functions, entry by entry. Derivatives at kinks are PyTorch's: that of relu at 0 is 0."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy import special as jsp
from jax.typing import ArrayLike

from jax_ref.aten._axes import axis_of
from jax_ref.aten._checks import one_of
from jax_ref.aten._promotion import floating, ordered, promoted
from jax_ref.aten.pointwise import expm1

Array = jax.Array


def relu(self: ArrayLike) -> Array:
    """max(self, 0).

    >>> aten.relu(jnp.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 2.], dtype=float32)
    """
    (x,) = ordered(self)
    return jnp.where(x > 0, x, jnp.where(jnp.isnan(x), x, jnp.zeros_like(x)))


def relu6(self: ArrayLike) -> Array:
    """min(max(self, 0), 6)."""
    return hardtanh(self, 0.0, 6.0)


def threshold(self: ArrayLike, threshold: float, value: float) -> Array:
    """self where it exceeds the threshold, the value elsewhere."""
    x = jnp.asarray(self)
    return jnp.where(x <= threshold, jnp.asarray(value, x.dtype), x)


def elu(self: ArrayLike, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """scale self of positive numbers, scale alpha (exp(input_scale self) - 1) of others."""
    x = jnp.asarray(self)
    negative = x <= 0
    inside = jnp.where(negative, x, jnp.zeros_like(x))
    return jnp.where(negative, scale * alpha * expm1(inside * input_scale), scale * x)


def celu(self: ArrayLike, alpha: float = 1.0) -> Array:
    """self of positive numbers, alpha (exp(self / alpha) - 1) of others."""
    return elu(self, alpha, 1.0, 1.0 / alpha)


def selu(self: ArrayLike) -> Array:
    """elu with the alpha and the scale that keep mean 0 and variance 1."""
    return elu(self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def gelu(self: ArrayLike, *, approximate: str = "none") -> Array:
    """self Φ(self), with the normal distribution Φ; approximate="tanh": by a tanh.

    >>> aten.gelu(jnp.array([-1.0, 0.0, 1.0]))
    Array([-0.15865527,  0.        ,  0.8413447 ], dtype=float32)
    """
    one_of("gelu", "approximate", approximate, ("none", "tanh"))
    (x,) = floating(self)
    if approximate == "tanh":
        # (1 + tanh(y)) / 2, of which nothing is left of large negative numbers
        return x * jax.nn.sigmoid(2 * (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * jsp.erfc(-x * math.sqrt(0.5))


def silu(self: ArrayLike) -> Array:
    """self sigmoid(self).

    >>> aten.silu(jnp.array([0.0, 100.0]))
    Array([  0., 100.], dtype=float32)
    """
    (x,) = floating(self)
    return x / (1 + jnp.exp(-x)) if jnp.iscomplexobj(x) else x * jax.nn.sigmoid(x)


def mish(self: ArrayLike) -> Array:
    """self tanh(softplus(self))."""
    (x,) = floating(self)
    return x * jnp.tanh(jax.nn.softplus(x))


def softplus(self: ArrayLike, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(beta self)) / beta; self where beta self exceeds the threshold.

    >>> aten.softplus(jnp.array([30.0]))
    Array([30.], dtype=float32)
    """
    (x,) = floating(self)
    linear = x * beta > threshold
    inside = jnp.where(linear, jnp.zeros_like(x), x * beta)
    return jnp.where(linear, x, jax.nn.softplus(inside) / beta)


def hardtanh(self: ArrayLike, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """self between the limits, where it is outside the nearer one. The derivative at a limit is 0."""
    x = jnp.asarray(self)
    low, high = jnp.asarray(min_val, x.dtype), jnp.asarray(max_val, x.dtype)
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x))


def hardsigmoid(self: ArrayLike) -> Array:
    """min(max(self + 3, 0), 6) / 6."""
    (x,) = floating(self)
    return hardtanh(x + 3, 0.0, 6.0) / 6


def hardswish(self: ArrayLike) -> Array:
    """self hardsigmoid(self). The derivative at -3 is 0, that at 3 is 1."""
    (x,) = floating(self)
    inside = jnp.where((x > -3) & (x < 3), x, jnp.zeros_like(x))
    return jnp.where(x <= -3, jnp.zeros_like(x), jnp.where(x < 3, inside * (inside + 3) / 6, x))


def hardshrink(self: ArrayLike, lambd: float = 0.5) -> Array:
    """self, and 0 where |self| ≤ lambd."""
    x = jnp.asarray(self)
    return jnp.where((x >= -lambd) & (x <= lambd), jnp.zeros_like(x), x)


def softshrink(self: ArrayLike, lambd: float = 0.5) -> Array:
    """self nearer to 0 by lambd, and 0 where |self| ≤ lambd."""
    x = jnp.asarray(self)
    shrunk = jnp.where(x < -lambd, x + lambd, jnp.zeros_like(x))
    return jnp.where(jnp.isnan(x), x, jnp.where(x > lambd, x - lambd, shrunk))


def leaky_relu(self: ArrayLike, negative_slope: float = 0.01) -> Array:
    """self of positive numbers, negative_slope self of others."""
    x = jnp.asarray(self)
    return jnp.where(x > 0, x, x * negative_slope)


def prelu(self: ArrayLike, weight: ArrayLike) -> Array:
    """self of positive numbers, weight self of others; a weight for each entry of the second axis, or one for all."""
    x, w = jnp.asarray(self), jnp.asarray(weight)
    if w.ndim == 1 and x.ndim != 1:
        w = w.reshape((1, -1) + (1,) * (x.ndim - 2) if x.ndim else ())
    return _prelu_kernel(x, w)


def _prelu_kernel(self: ArrayLike, weight: ArrayLike) -> Array:
    """self of positive numbers, weight self of others, with a weight that broadcasts."""
    x, w = promoted(self, weight)
    return jnp.where(x > 0, x, x * w)


def rrelu_with_noise(
    self: ArrayLike, noise: ArrayLike, lower: float = 0.125, upper: float = 1 / 3, training: bool = False
) -> Array:
    """leaky_relu with the mean slope; in training with the slopes in noise, which ATen draws itself."""
    x = jnp.asarray(self)
    return jnp.where(x <= 0, x * (jnp.asarray(noise) if training else (lower + upper) / 2), x)


def rrelu_with_noise_functional(
    self: ArrayLike, noise: ArrayLike, lower: float = 0.125, upper: float = 1 / 3, training: bool = False
) -> tuple[Array, Array]:
    """rrelu_with_noise, and its noise, which is not drawn: it is as given."""
    return rrelu_with_noise(self, noise, lower, upper, training), jnp.asarray(noise)


def _masked_softmax(self: ArrayLike, mask: ArrayLike, dim: int | None = None, mask_type: int | None = None) -> Array:
    """The softmax along an axis, by default the last, of the entries whose mask is False; 0 elsewhere.

    The mask is of the last two axes (mask_type 0), of the first and of the last (1), or of all (2). Where nothing is
    left the softmax is NaN.
    """
    x, hidden = jnp.asarray(self), jnp.asarray(mask)
    if hidden.ndim != x.ndim and mask_type == 1:
        hidden = hidden.reshape(hidden.shape[:1] + (1,) * (x.ndim - 2) + hidden.shape[-1:])
    hidden = jnp.broadcast_to(hidden, x.shape)
    axis = axis_of(x, -1 if dim is None else dim)
    nothing = hidden.all(axis, keepdims=True)
    shown = jnp.where(hidden & ~nothing, -jnp.inf, x)
    return jnp.where(nothing, jnp.nan, jax.nn.softmax(shown, axis))


def glu(self: ArrayLike, dim: int = -1) -> Array:
    """a sigmoid(b) for the two halves a, b of an axis.

    self (*, 2 n), the result (*, n).

    >>> aten.glu(jnp.array([4.0, 0.0]))
    Array([2.], dtype=float32)
    """
    x = jnp.asarray(self)
    axis = axis_of(x, dim)
    if x.ndim == 0 or (isinstance(x.shape[axis], int) and x.shape[axis] % 2):
        raise ValueError(f"glu: axis {axis} has no two halves in an array of shape {x.shape}")
    a, b = jnp.split(x, 2, axis=axis)
    return a * jax.nn.sigmoid(b)


def log_sigmoid(self: ArrayLike) -> Array:
    """log(sigmoid(self))."""
    (x,) = floating(self)
    return -jax.nn.softplus(-x)


def log_sigmoid_forward(self: ArrayLike) -> tuple[Array, Array]:
    """log_sigmoid, and a buffer for the backward: empty, as on a GPU."""
    x = log_sigmoid(self)
    return x, jnp.zeros((0,), x.dtype)


OPERATORS = {"_masked_softmax": _masked_softmax, "_prelu_kernel": _prelu_kernel}
