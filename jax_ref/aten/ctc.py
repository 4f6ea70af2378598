"""Connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from jax_ref.aten._arrays import pullback

Array = jax.Array
Lengths = Sequence[int] | ArrayLike


def _log_sum(terms: Array) -> Array:
    """log Σ exp along the first axis, with the derivative 0 where all are -inf."""
    largest = lax.stop_gradient(terms.max(0))
    largest = jnp.where(jnp.isfinite(largest), largest, jnp.zeros_like(largest))
    total = jnp.exp(terms - largest[None]).sum(0)
    none = total == 0
    log = jnp.log(jnp.where(none, jnp.ones_like(total), total)) + largest
    return jnp.where(none, jnp.full_like(total, -jnp.inf), log)


def _log_alpha(log_probs: Array, labels: Array, blank: int) -> Array:
    """The logarithms of the probabilities of paths that end in each place of the label, with blanks, at each time."""
    count, length = labels.shape
    places = jnp.full((count, 2 * length + 1), blank, labels.dtype).at[:, 1::2].set(labels)
    steps = log_probs.shape[0]
    emitted = jnp.take_along_axis(log_probs, jnp.broadcast_to(places[None], (steps, *places.shape)), 2)
    nowhere = jnp.full(places.shape, -jnp.inf, log_probs.dtype)
    differs = jnp.zeros(places.shape, bool).at[:, 2:].set((places[:, 2:] != places[:, :-2]) & (places[:, 2:] != blank))

    def step(before: Array, now: Array) -> tuple[Array, Array]:
        one = nowhere.at[:, 1:].set(before[:, :-1])
        two = jnp.where(differs, nowhere.at[:, 2:].set(before[:, :-2]), nowhere) if length else nowhere
        after = _log_sum(jnp.stack([before, one, two])) + now
        return after, after

    first = nowhere.at[:, :2].set(emitted[0, :, :2])
    return jnp.concatenate([first[None], lax.scan(step, first, emitted[1:])[1]])


def _ctc_loss(
    log_probs: ArrayLike,
    targets: ArrayLike,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Array, Array]:
    """-log of the probability of the targets, and the logarithms of the forward recursion. Lengths are static.

    Where it is infinite its derivative is 0.
    """
    x, t = jnp.asarray(log_probs), jnp.asarray(targets)
    unbatched = x.ndim == 2
    x = x[:, None] if unbatched else x
    inputs, lengths = (np.asarray(each).reshape(-1) for each in (input_lengths, target_lengths))
    longest = int(lengths.max(initial=0))
    if t.ndim == 1:
        index = (np.cumsum(lengths) - lengths)[:, None] + np.arange(longest)
        t = jnp.take(t, jnp.asarray(np.minimum(index, max(t.shape[0] - 1, 0))), mode="clip")
    part = jnp.asarray(np.arange(longest)[None] < lengths[:, None])
    labels = jnp.where(part, t[:, :longest], jnp.full_like(t[:, :longest], blank))
    alphas = _log_alpha(x, labels, blank)
    rows, last = np.arange(len(lengths)), np.maximum(inputs - 1, 0)
    ends = jnp.stack([alphas[last, rows, 2 * lengths], alphas[last, rows, np.maximum(2 * lengths - 1, 0)]])
    empty = jnp.asarray(np.stack([np.zeros(len(lengths), bool), lengths == 0]))
    loss = -_log_sum(jnp.where(empty, jnp.full_like(ends, -jnp.inf), ends))
    without = jnp.asarray(np.where(lengths == 0, 0.0, np.inf), x.dtype)
    loss = jnp.where(jnp.asarray(inputs == 0), without, loss)
    alphas = alphas.transpose(1, 0, 2)
    return (loss[0], alphas[0]) if unbatched else (loss, alphas)


def ctc_loss(
    log_probs: ArrayLike,
    targets: ArrayLike,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Array:
    """-log of the probability of the targets, the mean over their lengths first; zero_infinity: 0 where infinite."""
    loss, _ = _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if zero_infinity:
        loss = jnp.where(jnp.isinf(loss), jnp.zeros_like(loss), loss)
    if reduction != 1:
        return loss.sum() if reduction == 2 else loss
    lengths = np.maximum(np.asarray(target_lengths).reshape(loss.shape), 1)
    return (loss / jnp.asarray(lengths, loss.dtype)).mean()


def _ctc_loss_backward(
    grad: ArrayLike,
    log_probs: ArrayLike,
    targets: ArrayLike,
    input_lengths: Lengths,
    target_lengths: Lengths,
    neg_log_likelihood: ArrayLike,
    log_alpha: ArrayLike,
    blank: int,
    zero_infinity: bool = False,
) -> Array:
    """ATen's gradient: the derivative of _ctc_loss plus grad exp(log_probs), which log_softmax's derivative removes.

    Where the loss is infinite it is NaN, with zero_infinity 0.
    """
    x, g = jnp.asarray(log_probs), jnp.asarray(grad)
    (exact,) = pullback(lambda p: _ctc_loss(p, targets, input_lengths, target_lengths, blank, zero_infinity)[0], [x], g)
    batched = (lambda each: each) if x.ndim == 3 else (lambda each: each[:, None])
    loss = jnp.asarray(neg_log_likelihood).reshape(1, -1, 1)
    total = batched(exact) + g.reshape(1, -1, 1) * jnp.exp(batched(x))
    total = jnp.where(jnp.isinf(loss), jnp.full_like(total, 0.0 if zero_infinity else jnp.nan), total)
    within = np.arange(x.shape[0])[:, None, None] < np.asarray(input_lengths).reshape(1, -1, 1)
    return jnp.where(jnp.asarray(within), total, jnp.zeros_like(total)).reshape(x.shape)


OPERATORS = {"_ctc_loss": _ctc_loss, "_ctc_loss_backward": _ctc_loss_backward}
