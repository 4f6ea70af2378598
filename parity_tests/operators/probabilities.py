"""Probabilities: softmax, its logarithm, cross-entropy with integer labels, and losses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function, right, saving


def wide(rng, shape):
    """Numbers some way into both tails."""
    return 8 * rng.standard_normal(shape)


# Compositions, not torch.softmax and torch.log_softmax, whose jvp autograd cannot differentiate.


def _softmax(x):
    p = torch.exp(x - x.detach().amax(-1, keepdim=True))
    return p / p.sum(-1, keepdim=True)


def _softmax_backward(at, saved, bars):
    y, g = at("y", saved[0]), at("y_bar", bars[0])
    total = at("sum", at("summands", g * y).sum(-1, keepdim=True))
    return (at("x_bar", y * (g - total)),)


def _softmax_forward(at, x):
    y = torch.softmax(x, -1)
    return (y,), (y,)


def _softmax_vjp(x, w):
    return _softmax_backward(right, (torch.softmax(x, -1),), (w,))[0]


def _softmax_saved(x):
    p = torch.softmax(x, -1)
    return p, (p,)


def _remembered(calls):
    """A backward whose every second call is wrong."""

    def backward(x, w):
        calls.append(_softmax_vjp(x, w))
        return calls[-1] if len(calls) % 2 else 2 * calls[-1]

    return backward


_SOFTMAX = Formulas("softmax", sites.rows(1, 2.0), _softmax_forward, _softmax_backward, sites.ROWS)
softmax = Operator(
    OpSpec("softmax", lambda x: jax.nn.softmax(x, axis=-1), "(n,3)->(n,3)"),
    _softmax,
    {
        "diagonal_only": Mistake(function(_softmax, lambda x, w: w * _softmax(x) * (1 - _softmax(x))), "vjp"),
        "inner_product_over_rows": Mistake(
            function(_softmax, lambda x, w: _softmax(x) * (w - (_softmax(x) * w).sum(0))), "vjp", passes=("forward",)
        ),
        "output_saved_as_intermediate": Mistake(
            saving(_softmax_saved, lambda p, w: p.detach() * (w - (p.detach() * w).sum(-1, keepdim=True))),
            "vjp_of_vjp",
            passes=("vjp",),
        ),
        "backward_keeps_state": Mistake(function(_softmax, _remembered([])), "purity"),
        "jvp_of_the_diagonal": Mistake(
            function(_softmax, _softmax_vjp, lambda x, d: d * _softmax(x) * (1 - _softmax(x))),
            "adjoint",
            passes=("vjp",),
        ),
    }
    | _SOFTMAX.planted(
        sites.left_out("sum", "the term with the sum is left out"),
        sites.last_block("summands", "the last block of columns is left out of the sum", axis=1),
        ("the sum is that of the row before", "order", {"sum": lambda x: x.roll(1, 0)}),
        sites.factor("sum", 0.5, "a factor 2 is missing in the sum"),
        sites.stale_row("y", "the normalizer of one row is that of the block before: its y is 10 % too large"),
        ("the last column of y is masked", "mask", {"y": lambda y: torch.cat([y[:, :-1], 0 * y[:, -1:]], 1)}),
        sites.first_row_for_all("y_bar"),
        sites.half("x_bar"),
        sites.entry("x_bar"),
        sites.doubled_tile("x_bar"),
        sites.negated_column("x_bar"),
        sites.slight("x_bar"),
    ),
    _SOFTMAX,
)


def _log_softmax(x):
    shifted = x - x.detach().amax(-1, keepdim=True)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()


log_softmax = Operator(
    OpSpec("log_softmax", lambda x: jax.nn.log_softmax(8 * x, axis=-1), "(n,3)->(n,3)"),
    lambda x: _log_softmax(8 * x),
    {
        "logarithm_of_softmax": Mistake(lambda x: torch.softmax(8 * x, -1).log(), "forward", "float16"),
        "sum_of_the_cotangent_missing": Mistake(
            function(lambda x: _log_softmax(8 * x), lambda x, w: 8 * (w - torch.softmax(8 * x, -1))), "vjp"
        ),
        "scale_missing": Mistake(
            function(
                lambda x: _log_softmax(8 * x), lambda x, w: w - torch.softmax(8 * x, -1) * w.sum(-1, keepdim=True)
            ),
            "vjp",
            passes=("forward",),
        ),
    },
)


# Cross-entropy of each row, with integer labels.


def _cross_entropy(x, label):
    return -jnp.take_along_axis(jax.nn.log_softmax(x, axis=-1), label[:, None], axis=-1)[:, 0]


def _cross_entropy_torch(x, label):
    return -_log_softmax(x).gather(-1, label[:, None])[:, 0]


def _cross_entropy_with(gradient):
    return function(_cross_entropy_torch, lambda x, label, w: (gradient(x, label, w), None))


def _one_hot(x, label):
    return functional.one_hot(label, x.shape[-1]).to(x.dtype)


cross_entropy = Operator(
    OpSpec("cross_entropy", _cross_entropy, "(n,c),(n)->(n)", domains={"label": integer(0, "c")}),
    _cross_entropy_torch,
    {
        "divided_by_the_batch": Mistake(
            _cross_entropy_with(lambda x, label, w: w[:, None] * (_softmax(x) - _one_hot(x, label)) / max(len(x), 1)),
            "vjp",
        ),
        "cotangent_ignored": Mistake(
            _cross_entropy_with(lambda x, label, w: _softmax(x) - _one_hot(x, label)), "vjp", passes=("forward",)
        ),
        "label_not_subtracted": Mistake(_cross_entropy_with(lambda x, label, w: w[:, None] * _softmax(x)), "vjp"),
        "label_zero_ignored": Mistake(
            lambda x, label: functional.cross_entropy(x, label, reduction="none", ignore_index=0), "forward"
        ),
        "labels_smoothed": Mistake(
            lambda x, label: functional.cross_entropy(x, label, reduction="none", label_smoothing=0.01), "forward"
        ),
    },
)

# kl_div of probabilities q against log-probabilities x: q (log q - x)


def _kl_with(of_q):
    return function(lambda x, q: functional.kl_div(x, q, reduction="none"), lambda x, q, w: (-q * w, of_q(x, q) * w))


kl_div = Operator(
    OpSpec("kl_div", lambda x, q: q * (jnp.log(q) - x), "(n,m),(n,m)->(n,m)", domains={"q": "unit"}),
    lambda x, q: q * (q.log() - x),
    {
        "one_missing": Mistake(_kl_with(lambda x, q: q.log() - x), "vjp", passes=("forward",)),
        "target_is_a_constant": Mistake(_kl_with(lambda x, q: torch.zeros_like(q)), "vjp", passes=("forward",)),
        "arguments_swapped": Mistake(lambda x, q: x.exp() * (x - q.log()), "forward"),
    },
)

# binary cross-entropy with logits: max(x, 0) - x t + log(1 + exp(-|x|))


def _bce(x, t):
    return jnp.logaddexp(x, 0.0) - x * t


def _bce_torch(x, t):
    return x.clamp(min=0) - x * t + torch.log1p(torch.exp(-x.abs()))


bce = Operator(
    OpSpec("bce_with_logits", _bce, "(n,m),(n,m)->(n,m)", domains={"x": wide, "t": "unit"}, constants=["t"]),
    _bce_torch,
    {
        "target_added": Mistake(
            function(_bce_torch, lambda x, t, w: (w * (torch.sigmoid(x) + t), None)), "vjp", passes=("forward",)
        ),
        "of_the_probability": Mistake(
            function(_bce_torch, lambda x, t, w: (w * (x.sigmoid() - t) / (x.sigmoid() * (1 - x.sigmoid())), None)),
            "vjp",
        ),
        "logarithm_of_the_probability": Mistake(
            lambda x, t: -(t * x.sigmoid().log() + (1 - t) * (1 - x.sigmoid()).log()), "forward", "float32"
        ),
    },
)

# huber: x²/2 up to δ = 0.7, which no 16-bit number is, δ (|x| - δ/2) beyond


def _huber(x):
    return jnp.where(jnp.abs(x) < 0.7, x * x / 2, 0.7 * (jnp.abs(x) - 0.35))


def _huber_torch(x):
    return torch.where(x.abs() < 0.7, x * x / 2, 0.7 * (x.abs() - 0.35))


huber = Operator(
    OpSpec("huber", _huber, "(n,m)->(n,m)"),
    _huber_torch,
    {
        "slope_of_one": Mistake(
            function(_huber_torch, lambda x, w: w * torch.where(x.abs() < 0.7, x, x.sign())), "vjp", passes=("forward",)
        ),
        "sign_missing": Mistake(
            function(_huber_torch, lambda x, w: w * torch.where(x.abs() < 0.7, x, 0.7)), "vjp", passes=("forward",)
        ),
        "smooth_l1": Mistake(lambda x: functional.smooth_l1_loss(x, 0 * x, reduction="none", beta=0.7), "forward"),
    },
)


# Cross-entropy with label smoothing, of each row

SMOOTHING = 0.1


def _logits_and_labels(rng, sizes):
    return [*sites.rows(1, 2.0)(rng, sizes), rng.integers(0, sizes["m"], sizes["n"])]


def _label_smoothing(x, labels):
    log_p = jax.nn.log_softmax(x, axis=-1)
    return -(1 - SMOOTHING) * log_p[jnp.arange(x.shape[0]), labels] - SMOOTHING * log_p.mean(-1)


def _label_smoothing_forward(at, x, labels):
    lse = torch.logsumexp(x, -1)
    chosen = x.gather(1, labels[:, None])[:, 0]
    return (lse - (1 - SMOOTHING) * chosen - SMOOTHING * x.mean(-1),), (x, labels, lse)


def _label_smoothing_backward(at, saved, bars):
    (x, labels, lse), g = saved, at("loss_bar", bars[0])
    p = at("softmax", torch.exp(x - at("lse", lse)[:, None]))
    one_hot = at("one-hot", torch.nn.functional.one_hot(labels, x.shape[1]).to(x.dtype))
    target = at("label term", (1 - SMOOTHING) * one_hot) + at("smoothing", torch.full_like(p, SMOOTHING / x.shape[1]))
    return (at("x_bar", g[:, None] * (p - target)),)


label_smoothing = by_formulas(
    _label_smoothing,
    Formulas(
        "cross entropy with label smoothing",
        _logits_and_labels,
        _label_smoothing_forward,
        _label_smoothing_backward,
        sites.ROWS,
    ),
    sites.first_row_for_all("loss_bar"),
    sites.left_out("label term", "the term with the label is left out"),
    sites.left_out("smoothing", "the term with the smoothing is left out"),
    sites.shifted("one-hot", "the label is one too large", axis=1),
    ("the label's weight is 1 in spite of smoothing", "factor", {"label term": lambda t: t / (1 - SMOOTHING)}),
    ("the saved logsumexp is stale by 0.1 in every row", "stale", {"lse": lambda lse: lse + 0.1}),
    ("the last block of columns is masked", "mask", {"softmax": sites.last_block_masked}),
    sites.stale_row("softmax", "the normalizer of one row is that of the block before: its softmax is 10 % too large"),
    sites.half("x_bar"),
    sites.zero_row("x_bar"),
    sites.entry("x_bar"),
    sites.slight("x_bar"),
)
