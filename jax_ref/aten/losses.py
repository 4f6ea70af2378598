"""Losses. A reduction is 0 for the loss of each entry, 1 for the mean, 2 for the sum."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_ref.aten._arrays import magnitude, p_norm, positive_part, reduced
from jax_ref.aten._axes import axis_of
from jax_ref.aten._checks import integers
from jax_ref.aten._promotion import promoted
from jax_ref.aten.pointwise import clamp_min

Array = jax.Array


def mse_loss(self: ArrayLike, target: ArrayLike, reduction: int = 1) -> Array:
    """(self - target)².

    self and target broadcast; the result is () or, with reduction=0, has their shape.

    >>> aten.mse_loss(jnp.array([1.0, 2.0]), jnp.array([0.0, 4.0]))
    Array(2.5, dtype=float32)
    """
    x, y = promoted(self, target)
    return reduced((x - y) * (x - y), reduction)


def l1_loss(self: ArrayLike, target: ArrayLike, reduction: int = 1) -> Array:
    """|self - target|. The derivative at 0 is 0."""
    x, y = promoted(self, target)
    return reduced(magnitude(x - y), reduction)


def huber_loss(self: ArrayLike, target: ArrayLike, reduction: int = 1, delta: float = 1.0) -> Array:
    """(self - target)² / 2 below delta, and linear from there on. The second derivative at delta is 0."""
    if delta <= 0:
        raise ValueError(f"huber_loss needs delta > 0, got {delta}")
    x, y = promoted(self, target)
    d = magnitude(x - y)
    near = jnp.where(d < delta, x - y, jnp.zeros_like(d))  # of a square at infinity 0 times its slope would be NaN
    return reduced(jnp.where(d < delta, 0.5 * near**2, delta * (d - 0.5 * delta)), reduction)


def smooth_l1_loss(self: ArrayLike, target: ArrayLike, reduction: int = 1, beta: float = 1.0) -> Array:
    """huber_loss over beta; l1_loss of beta = 0. The second derivative at beta is 0."""
    if beta < 0:
        raise ValueError(f"smooth_l1_loss needs beta >= 0, got {beta}")
    return l1_loss(self, target, reduction) if beta == 0 else huber_loss(self, target, reduction, beta) / beta


def soft_margin_loss(self: ArrayLike, target: ArrayLike, reduction: int = 1) -> Array:
    """log(1 + exp(-target self))."""
    x, y = promoted(self, target)
    return reduced(jax.nn.softplus(-y * x), reduction)


@jax.custom_jvp
def _cross_entropy(x: Array, y: Array) -> Array:
    least = jnp.asarray(-100, x.dtype)
    return (y - 1) * jnp.maximum(jnp.log1p(-x), least) - y * jnp.maximum(jnp.log(x), least)


@_cross_entropy.defjvp
def _(primals, tangents):
    (x, y), (x_dot, y_dot) = primals, tangents
    spread = (1 - x) * x
    least = jnp.asarray(np.float32(1e-12), x.dtype)  # PyTorch's number is one of float32
    in_x = (x - y) / jnp.where(spread > least, spread, least)
    in_y = _cross_entropy(x, jnp.ones_like(y)) - _cross_entropy(x, jnp.zeros_like(y))
    return _cross_entropy(x, y), in_x * x_dot + in_y * y_dot


def binary_cross_entropy(
    self: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, reduction: int = 1
) -> Array:
    """-target log(self) - (1 - target) log(1 - self), with logarithms of at least -100.

    The derivative is (self - target) / max(self (1 - self), 1e-12), also where a logarithm is at its limit.
    """
    x, y = promoted(self, target)
    loss = _cross_entropy(x, y)
    return reduced(loss if weight is None else loss * promoted(weight, loss)[0], reduction)


def binary_cross_entropy_with_logits(
    self: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    pos_weight: ArrayLike | None = None,
    reduction: int = 1,
) -> Array:
    """binary_cross_entropy of sigmoid(self), where pos_weight multiplies the term of target, without a limit.

    >>> aten.binary_cross_entropy_with_logits(jnp.array([0.0]), jnp.array([1.0]))
    Array(0.6931472, dtype=float32)
    """
    x, y = promoted(self, target)
    positive = jnp.ones_like(y) if pos_weight is None else promoted(pos_weight, y)[0]
    loss = (1 - y) * x + ((positive - 1) * y + 1) * jax.nn.softplus(-x)
    return reduced(loss if weight is None else loss * promoted(weight, loss)[0], reduction)


def _picked(x: Array, index: Array, axis: int) -> Array:
    """The entries of an axis that an array of the other axes names."""
    return jnp.take_along_axis(x, jnp.expand_dims(index, axis), axis).squeeze(axis)


def _nll(
    x: Array, target: ArrayLike, weight: ArrayLike | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    axis = 0 if x.ndim == 1 else 1
    t, shape = integers("a loss of classes", "target", target), x.shape[:axis] + x.shape[axis + 1 :]
    if t.size != math.prod(shape):
        raise ValueError(f"a loss of classes: of input {x.shape} target has the shape {shape}, got {t.shape}")
    if weight is not None and jnp.shape(weight) != (x.shape[axis],):
        raise ValueError(f"a loss of {x.shape[axis]} classes: weight has one number each, got {jnp.shape(weight)}")
    t = t.reshape(shape)
    kept = t != ignore_index
    index = jnp.where(kept, t, jnp.zeros_like(t))
    picked = _picked(x, index, axis)
    w = jnp.ones_like(picked) if weight is None else jnp.asarray(weight, x.dtype)[index]
    loss = jnp.where(kept, -w * picked, jnp.zeros_like(picked))
    total = jnp.where(kept, w, jnp.zeros_like(w)).sum()
    if reduction == 0:
        return loss, (jnp.zeros_like(total) if x.ndim > 1 else total)
    return (loss.sum() / total if reduction == 1 else loss.sum()), total


def nll_loss_forward(
    self: ArrayLike, target: ArrayLike, weight: ArrayLike | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """-weight[target] self[target] of each row, and the sum of the weights, by which the mean divides."""
    return _nll(jnp.asarray(self), target, weight, reduction, ignore_index)


def nll_loss2d_forward(
    self: ArrayLike, target: ArrayLike, weight: ArrayLike | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """nll_loss_forward of images: the classes are the second of four axes."""
    return _nll(jnp.asarray(self), target, weight, reduction, ignore_index)


def nll_loss(
    self: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, reduction: int = 1, ignore_index: int = -100
) -> Array:
    """-weight[target] self[target] of each row, the mean over the sum of the weights; classes are the second axis.

    self (n, classes, *), target (n, *) of integers. A class out of range gives NaN.

    >>> aten.nll_loss(jnp.array([[-1.0, -3.0]]), jnp.array([1]))
    Array(3., dtype=float32)
    """
    return _nll(jnp.asarray(self), target, weight, reduction, ignore_index)[0]


def nll_loss2d(
    self: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, reduction: int = 1, ignore_index: int = -100
) -> Array:
    """nll_loss of images."""
    return nll_loss(self, target, weight, reduction, ignore_index)


def nll_loss_nd(
    self: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, reduction: int = 1, ignore_index: int = -100
) -> Array:
    """nll_loss of any number of axes."""
    return nll_loss(self, target, weight, reduction, ignore_index)


def cross_entropy_loss(
    self: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    """nll_loss of log_softmax(self); the target has classes, or in the shape of self their probabilities.

    self (n, classes, *), target (n, *) of integers; the result is () or, with reduction=0, (n, *). A class out of
    range gives NaN.

    >>> aten.cross_entropy_loss(jnp.zeros((1, 2)), jnp.array([1]))
    Array(0.6931472, dtype=float32)
    """
    x = jnp.asarray(self)
    axis = 0 if x.ndim == 1 else 1
    classes = x.shape[axis]
    logs = jax.nn.log_softmax(x, axis)
    w = jnp.ones((classes,), x.dtype) if weight is None else jnp.asarray(weight, x.dtype)
    across = w.reshape((1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1))
    t = jnp.asarray(target)
    if t.shape == x.shape:
        y = t.astype(x.dtype) * (1 - label_smoothing) + label_smoothing / classes
        loss = -(logs * y * across).sum(axis)
        return loss.sum() / (x.size / classes) if reduction == 1 else reduced(loss, reduction)
    loss, total = _nll(logs, t, weight, reduction, ignore_index)
    if label_smoothing == 0:
        return loss
    t = t.reshape(x.shape[:axis] + x.shape[axis + 1 :])
    smooth = -(logs * across).sum(axis)
    smooth = jnp.where(t == ignore_index, jnp.zeros_like(smooth), smooth)
    smooth = smooth.sum() / total if reduction == 1 else reduced(smooth, reduction)
    return (1 - label_smoothing) * loss + label_smoothing / classes * smooth


def multi_margin_loss(
    self: ArrayLike,
    target: ArrayLike,
    p: float = 1,
    margin: float = 1,
    weight: ArrayLike | None = None,
    reduction: int = 1,
) -> Array:
    """The mean over the classes of max(0, margin - self[target] + self) ** p, without the target's own, p being 1 or 2.

    The derivative at the margin is 0.
    """
    x = jnp.asarray(self)
    classes = x.shape[-1] if x.ndim else 1
    rows = x.reshape(-1, classes)
    t = jnp.asarray(target).reshape(-1)
    z = positive_part(margin - _picked(rows, t, 1)[:, None] + rows)
    z = z if p == 1 else z * z
    if weight is not None:
        z = z * jnp.asarray(weight, x.dtype)[t][:, None]
    own = t[:, None] == jnp.arange(classes, dtype=t.dtype)[None]
    loss = jnp.where(own, jnp.zeros_like(z), z).sum(1) / classes
    return reduced(loss if x.ndim > 1 else loss.reshape(()), reduction)


def multilabel_margin_loss_forward(self: ArrayLike, target: ArrayLike, reduction: int) -> tuple[Array, Array]:
    """Σ max(0, 1 - self[j] + self[i]) / classes over the classes j in the target, up to its first -1, and i not in it.

    The derivative at the margin is 0. The second result is 1 at the classes that are in the target.
    """
    x, t = jnp.asarray(self), jnp.asarray(target)
    classes = x.shape[-1] if x.ndim else 1
    rows, t = x.reshape(-1, classes), t.reshape(-1, classes)
    listed = jnp.cumsum((t < 0).astype(jnp.int32), 1) == 0
    index = jnp.where(listed, t, jnp.zeros_like(t))
    own = ((index[:, :, None] == jnp.arange(classes, dtype=t.dtype)[None, None]) & listed[:, :, None]).any(1)
    z = positive_part(1 - jnp.take_along_axis(rows, index, 1)[:, :, None] + rows[:, None, :])
    z = jnp.where(listed[:, :, None] & ~own[:, None, :], z, jnp.zeros_like(z))
    loss = z.sum((1, 2)) / classes
    return reduced(loss if x.ndim > 1 else loss.reshape(()), reduction), own.astype(x.dtype).reshape(x.shape)


def multilabel_margin_loss(self: ArrayLike, target: ArrayLike, reduction: int = 1) -> Array:
    """The first result of multilabel_margin_loss_forward."""
    return multilabel_margin_loss_forward(self, target, reduction)[0]


def kl_div(self: ArrayLike, target: ArrayLike, reduction: int = 1, *, log_target: bool = False) -> Array:
    """target (log(target) - self), of log_target exp(target) (target - self). The derivative in a target of 0 is 0.

    >>> aten.kl_div(jnp.array([0.0]), jnp.array([1.0]))
    Array(0., dtype=float32)
    """
    x, y = promoted(self, target)
    if log_target:
        return reduced(jnp.exp(y) * (y - x), reduction)
    logs = jnp.log(jnp.where(y == 0, jnp.ones_like(y), y))
    return reduced(y * logs - y * x, reduction)


def poisson_nll_loss(
    input: ArrayLike, target: ArrayLike, log_input: bool, full: bool, eps: float, reduction: int
) -> Array:
    """exp(input) - target input, else input - target log(input + eps); full: with Stirling's formula of targets > 1."""
    x, y = promoted(input, target)
    loss = jnp.exp(x) - y * x if log_input else x - y * jnp.log(x + eps)
    if full:
        inside = jnp.where(y <= 1, jnp.ones_like(y), y)
        stirling = inside * jnp.log(inside) - inside + 0.5 * jnp.log(2 * math.pi * inside)
        loss = loss + jnp.where(y <= 1, jnp.zeros_like(y), stirling)
    return reduced(loss, reduction)


def cosine_similarity(x1: ArrayLike, x2: ArrayLike, dim: int = 1, eps: float = 1e-8) -> Array:
    """The product of x1 and x2 along an axis, each divided by its norm, or by eps where the norm is less."""
    x, y = (jnp.atleast_1d(each) for each in promoted(x1, x2))
    x, y = (each / clamp_min(p_norm(each, 2, (axis_of(each, dim),), True), eps) for each in (x, y))
    return (x * y).sum(dim)


def cosine_embedding_loss(
    input1: ArrayLike, input2: ArrayLike, target: ArrayLike, margin: float = 0.0, reduction: int = 1
) -> Array:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1. The derivative at the margin is 1."""
    t = jnp.asarray(target)
    x, y = promoted(input1, input2)
    cosine = (x * y).sum(t.ndim) / jnp.sqrt(((x * x).sum(t.ndim) + 1e-12) * ((y * y).sum(t.ndim) + 1e-12))
    t, cosine = jnp.broadcast_arrays(t, cosine)
    apart = jnp.where(t == -1, clamp_min(cosine - margin, 0), jnp.zeros_like(cosine))
    return reduced(jnp.where(t == 1, 1 - cosine, apart), reduction)


def margin_ranking_loss(
    input1: ArrayLike, input2: ArrayLike, target: ArrayLike, margin: float = 0.0, reduction: int = 1
) -> Array:
    """max(0, margin - target (input1 - input2)). The derivative at the margin is that from above."""
    x, y, t = promoted(input1, input2, target)
    return reduced(clamp_min(-t * (x - y) + margin, 0), reduction)


def hinge_embedding_loss(self: ArrayLike, target: ArrayLike, margin: float = 1.0, reduction: int = 1) -> Array:
    """self where the target is 1, max(0, margin - self) where it is -1. The derivative at the margin is -1."""
    x, t = promoted(self, target)
    far = jnp.where(t != 1, clamp_min(margin - x, 0), jnp.zeros_like(x))
    return reduced(far + jnp.where(t != -1, x, jnp.zeros_like(x)), reduction)


def pairwise_distance(x1: ArrayLike, x2: ArrayLike, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    """The p-norm of x1 - x2 + eps along the last axis."""
    x, y = promoted(x1, x2)
    return p_norm(x - y + eps, p, (-1,), keepdim)


def triplet_margin_loss(
    anchor: ArrayLike,
    positive: ArrayLike,
    negative: ArrayLike,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Array:
    """max(0, margin + distance to positive - distance to negative); swap: the lesser one of both to negative."""
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = jnp.minimum(far, pairwise_distance(positive, negative, p, eps))
    near, far = promoted(near, far)
    return reduced(clamp_min(margin + near - far, 0), reduction)
