"""ATen's backward operators of the losses: the gradient of self, given that of the loss."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax_ref.aten import losses
from jax_ref.aten._arrays import pullback

Array = jax.Array
Maybe = ArrayLike | None


def mse_loss_backward(grad_output: ArrayLike, self: ArrayLike, target: ArrayLike, reduction: int) -> Array:
    """grad_output times the derivative of mse_loss."""
    return pullback(lambda x: losses.mse_loss(x, target, reduction), [jnp.asarray(self)], grad_output)[0]


def huber_loss_backward(
    grad_output: ArrayLike, self: ArrayLike, target: ArrayLike, reduction: int, delta: float
) -> Array:
    """grad_output times the derivative of huber_loss."""
    return pullback(lambda x: losses.huber_loss(x, target, reduction, delta), [jnp.asarray(self)], grad_output)[0]


def smooth_l1_loss_backward(
    grad_output: ArrayLike, self: ArrayLike, target: ArrayLike, reduction: int, beta: float
) -> Array:
    """grad_output times the derivative of smooth_l1_loss."""
    return pullback(lambda x: losses.smooth_l1_loss(x, target, reduction, beta), [jnp.asarray(self)], grad_output)[0]


def soft_margin_loss_backward(grad_output: ArrayLike, self: ArrayLike, target: ArrayLike, reduction: int) -> Array:
    """grad_output times the derivative of soft_margin_loss."""
    return pullback(lambda x: losses.soft_margin_loss(x, target, reduction), [jnp.asarray(self)], grad_output)[0]


def binary_cross_entropy_backward(
    grad_output: ArrayLike, self: ArrayLike, target: ArrayLike, weight: Maybe = None, reduction: int = 1
) -> Array:
    """grad_output weight (self - target) / max(self (1 - self), 1e-12)."""
    return pullback(
        lambda x: losses.binary_cross_entropy(x, target, weight, reduction), [jnp.asarray(self)], grad_output
    )[0]


def nll_loss_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    target: ArrayLike,
    weight: Maybe,
    reduction: int,
    ignore_index: int,
    total_weight: ArrayLike,
) -> Array:
    """-grad_output weight[target] at the target of each row, for a mean over the total weight."""
    x, g = jnp.asarray(self), jnp.asarray(grad_output)
    if reduction == 1:
        g = g / jnp.asarray(total_weight, x.dtype)
    mode = 0 if reduction == 0 else 2
    grad = pullback(lambda x: losses.nll_loss(x, target, weight, mode, ignore_index), [x], g)[0]
    # An entry that is ignored, or no target, has 0 also where the total weight is 0
    t = jnp.asarray(target)
    axis = 0 if x.ndim == 1 else 1
    classes = jnp.arange(x.shape[axis], dtype=t.dtype).reshape((1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1))
    t = jnp.expand_dims(t.reshape(x.shape[:axis] + x.shape[axis + 1 :]), axis)
    return jnp.where((classes == t) & (t != ignore_index), grad, jnp.zeros_like(grad))


def nll_loss2d_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    target: ArrayLike,
    weight: Maybe,
    reduction: int,
    ignore_index: int,
    total_weight: ArrayLike,
) -> Array:
    """nll_loss_backward of images."""
    return nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight)


def multi_margin_loss_backward(
    grad_output: ArrayLike,
    self: ArrayLike,
    target: ArrayLike,
    p: float,
    margin: float,
    weight: Maybe = None,
    reduction: int = 1,
) -> Array:
    """grad_output times the derivative of multi_margin_loss."""
    return pullback(
        lambda x: losses.multi_margin_loss(x, target, p, margin, weight, reduction), [jnp.asarray(self)], grad_output
    )[0]


def multilabel_margin_loss_backward(
    grad_output: ArrayLike, self: ArrayLike, target: ArrayLike, reduction: int, is_target: ArrayLike
) -> Array:
    """grad_output times the derivative of multilabel_margin_loss."""
    return pullback(lambda x: losses.multilabel_margin_loss(x, target, reduction), [jnp.asarray(self)], grad_output)[0]
