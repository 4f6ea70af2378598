"""Training objectives: focal, dice, smoothed cross-entropy, triplet and contrastive losses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# focal loss of logits: (1 - p_t)² times the cross-entropy


def _focal(x):
    return -((1 - jax.nn.sigmoid(x)) ** 2) * jax.nn.log_sigmoid(x)


def _focal_torch(x):
    return -(torch.sigmoid(-x) ** 2) * functional.logsigmoid(x)


def _focal_backward(x, w, modulated=True):
    p, q = torch.sigmoid(x), torch.sigmoid(-x)
    of_modulation = 2 * q * q * p * functional.logsigmoid(x) if modulated else 0
    return w * (of_modulation - q**3)


focal = Operator(
    OpSpec("focal_loss", _focal, "(n)->(n)"),
    _focal_torch,
    {
        "modulation_is_a_constant": Mistake(
            function(_focal_torch, lambda x, w: _focal_backward(x, w, False)), "vjp", passes=("forward",)
        ),
        "modulation_detached": Mistake(lambda x: -(torch.sigmoid(-x).detach() ** 2) * functional.logsigmoid(x), "vjp"),
        "kinks_that_cancel_in_the_value_only": Mistake(
            lambda x: -(torch.sigmoid(-x) ** 2) * (x.clamp(max=0) - torch.log1p(torch.exp(-x.abs()))),
            "points",
            passes=("vjp",),
        ),
        "gradient_clipped": Mistake(
            function(_focal_torch, lambda x, w: _focal_backward(x, w).clamp(-0.1, 0.1)), "vjp", passes=("forward",)
        ),
        "once_more_wrong": Mistake(
            function(_focal_torch, lambda x, w: _focal_backward(x, w) + 0 * w * x.detach() + w * (x - x.detach())),
            "vjp_of_vjp",
            passes=("vjp",),
        ),
    },
)

# dice loss of each row, by probabilities


def _dice(p, t):
    return 1 - (2 * (p * t).sum(-1) + 1) / ((p + t).sum(-1) + 1)


def _dice_with(numerator, denominator):
    def backward(p, t, w):
        a, b = 2 * (p * t).sum(-1) + 1, (p + t).sum(-1) + 1
        of_p = -numerator * 2 * t / b[:, None] + denominator * (a / (b * b))[:, None]
        return w[:, None] * of_p, None

    return function(_dice, backward)


dice = Operator(
    OpSpec("dice_loss", _dice, "(n,m),(n,m)->(n)", domains={"p": "unit", "t": "unit"}, constants=["t"]),
    _dice,
    {
        "denominator_is_a_constant": Mistake(_dice_with(1, 0), "vjp", passes=("forward",)),
        "factor_of_two": Mistake(_dice_with(0.5, 1), "vjp", passes=("forward",)),
        "union_of_squares": Mistake(
            lambda p, t: 1 - (2 * (p * t).sum(-1) + 1) / ((p * p + t * t).sum(-1) + 1), "forward"
        ),
    },
)

# cross-entropy with labels smoothed by 0.1, averaged over the rows


def _smoothed(x, label):
    log_p = jax.nn.log_softmax(x, axis=-1)
    target = 0.9 * jax.nn.one_hot(label, x.shape[-1], dtype=x.dtype) + 0.1 / x.shape[-1]
    return -(target * log_p).sum(-1).mean()


def _smoothed_torch(x, label):
    shifted = x - x.detach().amax(-1, keepdim=True)
    log_p = shifted - shifted.exp().sum(-1, keepdim=True).log()
    return -(0.9 * log_p.gather(-1, label[:, None])[:, 0] + 0.1 * log_p.mean(-1)).mean()


def _smoothed_with(smoothing=0.1, mean=True):
    def backward(x, label, w):
        target = (1 - smoothing) * functional.one_hot(label, x.shape[-1]) + smoothing / x.shape[-1]
        gradient = w * (torch.softmax(x, -1) - target.to(x.dtype))
        return (gradient / len(x) if mean else gradient), None

    return function(_smoothed_torch, backward)


smoothed_cross_entropy = Operator(
    OpSpec("smoothed_cross_entropy", _smoothed, "(n,c),(n)->()", domains={"label": integer(0, "c")}),
    _smoothed_torch,
    {
        "not_smoothed_in_the_backward": Mistake(_smoothed_with(smoothing=0.0), "vjp", passes=("forward",)),
        "not_averaged_in_the_backward": Mistake(_smoothed_with(mean=False), "vjp", passes=("forward",)),
        "not_smoothed": Mistake(functional.cross_entropy, "forward"),
    },
)

# triplet loss: max(0, 1 + |a - p| - |a - n|)


def _triplet(a, p, n):
    return jnp.maximum(0.0, 1 + jnp.linalg.norm(a - p, axis=-1) - jnp.linalg.norm(a - n, axis=-1))


def _triplet_torch(a, p, n):
    return torch.relu(1 + (a - p).norm(dim=-1) - (a - n).norm(dim=-1))


def _triplet_with(masked=True, of_negative=1.0):
    def backward(a, p, n, w):
        near, far = functional.normalize(a - p, dim=-1), functional.normalize(a - n, dim=-1)
        w = (w * (_triplet_torch(a, p, n) > 0) if masked else w)[:, None]
        return w * (near - of_negative * far), -w * near, w * far

    return function(_triplet_torch, backward)


def wide(rng, shape):
    """Far apart, so that many a margin is not active."""
    return 4 * rng.standard_normal(shape)


triplet = Operator(
    OpSpec("triplet_loss", _triplet, "(n,d),(n,d),(n,d)->(n)", domains={"n": wide}),
    _triplet_torch,
    {
        "margin_always_active": Mistake(_triplet_with(masked=False), "vjp", passes=("forward",)),
        "negative_does_not_pull_the_anchor": Mistake(_triplet_with(of_negative=0.0), "vjp", passes=("forward",)),
        "squared_distances": Mistake(
            lambda a, p, n: torch.relu(1 + ((a - p) ** 2).sum(-1) - ((a - n) ** 2).sum(-1)), "forward"
        ),
    },
)
