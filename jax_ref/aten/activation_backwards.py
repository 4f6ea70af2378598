"""ATen's backward operators of the activation functions: the gradient of self, given that of the result."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax_ref.aten import activations
from jax_ref.aten._arrays import pullback
from jax_ref.aten._axes import axis_of
from jax_ref.aten._promotion import is_complex, promoted

Array = jax.Array


def _pulled(grad_output: ArrayLike, self: ArrayLike, function) -> Array:
    g, x = promoted(grad_output, self)
    return pullback(function, [x], g)[0]


def _conjugate(x: Array) -> Array:
    return x.conj() if is_complex(x) else x


def threshold_backward(grad_output: ArrayLike, self: ArrayLike, threshold: float) -> Array:
    """grad_output where self exceeds the threshold."""
    g, x = promoted(grad_output, self)
    return jnp.where(x <= threshold, jnp.zeros_like(g), g)


def elu_backward(
    grad_output: ArrayLike,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: ArrayLike,
) -> Array:
    """grad_output times the derivative of elu, given its argument or its result. That of self = 0 is the left one."""
    g, x = promoted(grad_output, self_or_result)
    negative = x <= 0
    if is_result:
        slope = input_scale * (x + alpha * scale)
    else:
        slope = input_scale * alpha * scale * jnp.exp(jnp.where(negative, x, jnp.zeros_like(x)) * input_scale)
    return g * jnp.where(negative, slope, jnp.full_like(x, scale))


def gelu_backward(grad_output: ArrayLike, self: ArrayLike, *, approximate: str = "none") -> Array:
    """grad_output times the derivative of gelu."""
    return _pulled(grad_output, self, lambda x: activations.gelu(x, approximate=approximate))


def silu_backward(grad_output: ArrayLike, self: ArrayLike) -> Array:
    """grad_output times the derivative of silu."""
    return _pulled(grad_output, self, activations.silu)


def mish_backward(grad_output: ArrayLike, self: ArrayLike) -> Array:
    """grad_output times the derivative of mish."""
    return _pulled(grad_output, self, activations.mish)


def softplus_backward(grad_output: ArrayLike, self: ArrayLike, beta: float, threshold: float) -> Array:
    """grad_output sigmoid(beta self); grad_output where beta self exceeds the threshold."""
    return _pulled(grad_output, self, lambda x: activations.softplus(x, beta, threshold))


def hardtanh_backward(grad_output: ArrayLike, self: ArrayLike, min_val: float, max_val: float) -> Array:
    """grad_output where self is between the limits, not at them."""
    g, x = promoted(grad_output, self)
    return jnp.where((x <= min_val) | (x >= max_val), jnp.zeros_like(g), g)


def hardswish_backward(grad_output: ArrayLike, self: ArrayLike) -> Array:
    """grad_output times the derivative of hardswish."""
    return _pulled(grad_output, self, activations.hardswish)


def hardshrink_backward(grad_out: ArrayLike, self: ArrayLike, lambd: float) -> Array:
    """grad_out where |self| exceeds lambd."""
    return _pulled(grad_out, self, lambda x: activations.hardshrink(x, lambd))


def softshrink_backward(grad_output: ArrayLike, self: ArrayLike, lambd: float) -> Array:
    """grad_output where |self| exceeds lambd."""
    return _pulled(grad_output, self, lambda x: activations.hardshrink(x, lambd))


def leaky_relu_backward(grad_output: ArrayLike, self: ArrayLike, negative_slope: float, self_is_result: bool) -> Array:
    """grad_output where self, or the result in its place, is positive, negative_slope grad_output elsewhere."""
    g, x = promoted(grad_output, self)
    return jnp.where(x > 0, g, g * negative_slope)


def _prelu_kernel_backward(grad_output: ArrayLike, self: ArrayLike, weight: ArrayLike) -> tuple[Array, Array]:
    """The gradients of self and of the weight, that of the weight in the shape of self."""
    g, x, w = promoted(grad_output, self, weight)
    return jnp.where(x > 0, g, g * w), jnp.where(x > 0, jnp.zeros_like(g), g * x)


def rrelu_with_noise_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    noise: ArrayLike,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> Array:
    """grad_output times the noise in training, else leaky_relu_backward with the mean slope."""
    if training and upper - lower > 1e-6:
        g, slope = promoted(grad_output, noise)
        return g * slope
    return leaky_relu_backward(grad_output, self, (lower + upper) / 2, self_is_result)


def glu_backward(grad_output: ArrayLike, self: ArrayLike, dim: int) -> Array:
    """grad_output times the derivative of glu."""
    return pullback(lambda x: activations.glu(x, dim), [jnp.asarray(self)], grad_output)[0]


def log_sigmoid_backward(grad_output: ArrayLike, self: ArrayLike, buffer: ArrayLike) -> Array:
    """grad_output sigmoid(-self)."""
    return _pulled(grad_output, self, activations.log_sigmoid)


def sigmoid_backward(grad_output: ArrayLike, output: ArrayLike) -> Array:
    """grad_output output (1 - output), with the conjugate of a complex output."""
    g, y = promoted(grad_output, output)
    return g * _conjugate(y * (1 - y))


def tanh_backward(grad_output: ArrayLike, output: ArrayLike) -> Array:
    """grad_output (1 - output²), with the conjugate of a complex output."""
    g, y = promoted(grad_output, output)
    return g * _conjugate(1 - y * y)


def logit_backward(grad_output: ArrayLike, self: ArrayLike, eps: float | None = None) -> Array:
    """grad_output / (self (1 - self)): 0 outside of [eps, 1 - eps], or without eps NaN outside of [0, 1]."""
    g, x = promoted(grad_output, self)
    low = 0.0 if eps is None else eps
    inside = (x >= low) & (x <= 1 - low)
    safe = jnp.where(inside, x, jnp.full_like(x, 0.5))
    return jnp.where(inside, g / (safe * (1 - safe)), jnp.full_like(g, jnp.nan if eps is None else 0.0))


def _summed(x: Array, dim: int) -> Array:
    axis = axis_of(x, dim)
    return x.sum(axis, keepdims=True) if x.ndim else x


def _softmax_backward_data(grad_output: ArrayLike, output: ArrayLike, dim: int, input_dtype: object) -> Array:
    """output (grad_output - Σ output grad_output)."""
    g, y = promoted(grad_output, output)
    return y * (g - _summed(g * y, dim))


def _log_softmax_backward_data(grad_output: ArrayLike, output: ArrayLike, dim: int, input_dtype: object) -> Array:
    """grad_output - exp(output) Σ grad_output."""
    g, y = promoted(grad_output, output)
    return g - jnp.exp(y) * _summed(g, dim)


OPERATORS = {
    "_log_softmax_backward_data": _log_softmax_backward_data,
    "_prelu_kernel_backward": _prelu_kernel_backward,
    "_softmax_backward_data": _softmax_backward_data,
}
