"""Functions of a row: reductions, scans, orders, normalizations and losses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mlx.core as mx
import mlx.nn as nn

from benchmarks.mlx_sweep._operator import full, signs

ROWS, TO_ONE = "(n,d)->(n,d)", "(n,d)->(n)"
NORM = "(n,d),(d),(d)->(n,d)"


def _normalized(x, axes, eps=1e-5):
    centred = x - jnp.mean(x, axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + eps)


def _rms(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * w


def _batch_norm(x):
    return nn.BatchNorm(x.shape[-1], affine=False)(x)


def _group_norm(x):
    return nn.GroupNorm(2, x.shape[-1], affine=False, pytorch_compatible=True)(x)


def _group_norm_in_jax(x):
    n, length, channels = x.shape
    groups = x.reshape(n, length, 2, channels // 2)
    return _normalized(groups, (1, 3)).reshape(n, length, channels)


def _log_cosh(x, y):
    return jnp.logaddexp(x - y, y - x) - jnp.log(2.0)


def _cosine(x, y):
    norms = jnp.sqrt(jnp.sum(x * x, 1)) * jnp.sqrt(jnp.sum(y * y, 1))
    return jnp.sum(x * y, 1) / jnp.maximum(norms, 1e-8)


def _gaussian_nll(x, y, v):
    v = jnp.maximum(v, 1e-6)
    return (jnp.log(v) + jnp.square(y - x) / v) / 2


OPERATORS = (
    full("sum", lambda x: mx.sum(x, -1), lambda x: jnp.sum(x, -1), TO_ONE),
    full("mean", lambda x: mx.mean(x, -1), lambda x: jnp.mean(x, -1), TO_ONE),
    full("prod", lambda x: mx.prod(x, -1), lambda x: jnp.prod(x, -1), TO_ONE),
    full("max", lambda x: mx.max(x, -1), lambda x: jnp.max(x, -1), TO_ONE),
    full("min", lambda x: mx.min(x, -1), lambda x: jnp.min(x, -1), TO_ONE),
    full("var", lambda x: mx.var(x, -1), lambda x: jnp.var(x, -1), TO_ONE),
    full("std", lambda x: mx.std(x, -1), lambda x: jnp.std(x, -1), TO_ONE, sizes="d >= 2"),
    full("median", lambda x: mx.median(x, -1), lambda x: jnp.median(x, -1), TO_ONE),
    full("logsumexp", lambda x: mx.logsumexp(x, -1), lambda x: jax.nn.logsumexp(x, -1), TO_ONE),
    full("linalg.norm", lambda x: mx.linalg.norm(x, axis=-1), lambda x: jnp.linalg.norm(x, axis=-1), TO_ONE),
    full(
        "linalg.norm 1",
        lambda x: mx.linalg.norm(x, 1, axis=-1),
        lambda x: jnp.sum(jnp.abs(x), -1),
        TO_ONE,
    ),
    full(
        "linalg.norm inf",
        lambda x: mx.linalg.norm(x, float("inf"), axis=-1),
        lambda x: jnp.max(jnp.abs(x), -1),
        TO_ONE,
    ),
    full(
        "linalg.norm 3",
        lambda x: mx.linalg.norm(x, 3, axis=-1),
        lambda x: jnp.sum(jnp.abs(x) ** 3, -1) ** (1 / 3),
        TO_ONE,
        domains={"x": "nonzero"},
    ),
    full("cumsum", lambda x: mx.cumsum(x, -1), lambda x: jnp.cumsum(x, -1), ROWS),
    full("cumsum, reverse", lambda x: mx.cumsum(x, -1, reverse=True), lambda x: jax.lax.cumsum(x, 1, True), ROWS),
    full("cumsum, exclusive", lambda x: mx.cumsum(x, -1, inclusive=False), lambda x: jnp.cumsum(x, -1) - x, ROWS),
    full("cumprod", lambda x: mx.cumprod(x, -1), lambda x: jnp.cumprod(x, -1), ROWS),
    full("cummax", lambda x: mx.cummax(x, -1), lambda x: jax.lax.cummax(x, 1), ROWS),
    full("cummin", lambda x: mx.cummin(x, -1), lambda x: jax.lax.cummin(x, 1), ROWS),
    full("logcumsumexp", lambda x: mx.logcumsumexp(x, -1), lambda x: jax.lax.cumlogsumexp(x, 1), ROWS),
    full("softmax", lambda x: mx.softmax(x, -1), lambda x: jax.nn.softmax(x, -1), ROWS),
    full("log_softmax", lambda x: nn.log_softmax(x), lambda x: jax.nn.log_softmax(x), ROWS),
    full(
        "log_softmax, two entries", lambda x: nn.log_softmax(x), lambda x: jax.nn.log_softmax(x), ROWS, sizes="d >= 2"
    ),
    full("softmin", lambda x: nn.softmin(x), lambda x: jax.nn.softmax(-x), ROWS),
    full("sort", lambda x: mx.sort(x, -1), lambda x: jnp.sort(x, -1), ROWS),
    full(
        "topk",
        lambda x: mx.sort(mx.topk(x, 2, -1), -1),
        lambda x: jnp.sort(x, -1)[:, -2:],
        "(n,d)->(n,2)",
        sizes="d >= 2",
    ),
    full("diff", lambda x: mx.diff(x), lambda x: jnp.diff(x), "(n,d)->(n,e)", sizes="d >= 2, e = d - 1"),
    full("glu", lambda x: nn.glu(x), lambda x: jax.nn.glu(x), "(n,d)->(n,e)", sizes="d >= 2, d % 2 == 0, e = d // 2"),
    full(
        "fast.layer_norm",
        lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5),
        lambda x, w, b: _normalized(x, -1) * w + b,
        NORM,
    ),
    full("fast.rms_norm", lambda x, w: mx.fast.rms_norm(x, w, 1e-5), _rms, "(n,d),(d)->(n,d)"),
    full("BatchNorm", _batch_norm, lambda x: _normalized(x, 0), "(n,d)->(n,d)", sizes="n >= 2, d >= 1"),
    full("GroupNorm", _group_norm, _group_norm_in_jax, "(n,l,d)->(n,l,d)", sizes="n >= 1, l >= 2, d >= 2, d % 2 == 0"),
    full(
        "losses.mse_loss",
        lambda x, y: nn.losses.mse_loss(x, y, "none"),
        lambda x, y: jnp.square(x - y),
        "(n),(n)->(n)",
    ),
    full("losses.l1_loss", lambda x, y: nn.losses.l1_loss(x, y, "none"), lambda x, y: jnp.abs(x - y), "(n),(n)->(n)"),
    full(
        "losses.smooth_l1_loss",
        lambda x, y: nn.losses.smooth_l1_loss(x, y, 1.0, "none"),
        lambda x, y: jnp.where(jnp.abs(x - y) < 1, jnp.square(x - y) / 2, jnp.abs(x - y) - 0.5),
        "(n),(n)->(n)",
    ),
    full(
        "losses.huber_loss",
        lambda x, y: nn.losses.huber_loss(x, y, 1.0, "none"),
        lambda x, y: jnp.where(jnp.abs(x - y) < 1, jnp.square(x - y) / 2, jnp.abs(x - y) - 0.5),
        "(n),(n)->(n)",
    ),
    full("losses.log_cosh_loss", lambda x, y: nn.losses.log_cosh_loss(x, y, "none"), _log_cosh, "(n),(n)->(n)"),
    full(
        "losses.kl_div_loss",
        lambda x, y: nn.losses.kl_div_loss(x, y, -1, "none"),
        lambda x, y: jnp.sum(jnp.exp(y) * (y - x), -1),
        "(n,d),(n,d)->(n)",
    ),
    full(
        "losses.binary_cross_entropy",
        lambda x, y: nn.losses.binary_cross_entropy(x, y, reduction="none"),
        lambda x, y: jnp.logaddexp(0.0, x) - x * y,
        "(n),(n)->(n)",
        domains={"y": "unit"},
    ),
    full(
        "losses.binary_cross_entropy of probabilities",
        lambda x, y: nn.losses.binary_cross_entropy(x, y, with_logits=False, reduction="none"),
        lambda x, y: -(y * jnp.log(x) + (1 - y) * jnp.log1p(-x)),
        "(n),(n)->(n)",
        domains={"x": "unit", "y": "unit"},
    ),
    full(
        "losses.cross_entropy",
        lambda x, y: nn.losses.cross_entropy(x, y, reduction="none"),
        lambda x, y: -jnp.sum(jax.nn.log_softmax(x) * y, -1),
        "(n,d),(n,d)->(n)",
        domains={"y": "probabilities"},
        sizes="n >= 1, d >= 1",
    ),
    full(
        "losses.gaussian_nll_loss",
        lambda x, y, v: nn.losses.gaussian_nll_loss(x, y, v, reduction="none"),
        _gaussian_nll,
        "(n),(n),(n)->(n)",
        domains={"v": "positive"},
    ),
    full(
        "losses.hinge_loss",
        lambda x, y: nn.losses.hinge_loss(x, y, "none"),
        lambda x, y: jnp.maximum(1 - x * y, 0),
        "(n),(n)->(n)",
        domains={"y": signs},
        constants=["y"],
    ),
    full(
        "losses.cosine_similarity_loss",
        lambda x, y: nn.losses.cosine_similarity_loss(x, y),
        _cosine,
        "(n,d),(n,d)->(n)",
        sizes="n >= 1, d >= 1",
    ),
)
