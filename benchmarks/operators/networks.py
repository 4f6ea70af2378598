"""Operators of torch.nn.functional: convolutions, pooling, interpolation, losses, attention."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from torch.nn import functional

from benchmarks.operators._case import SECOND_ORDER, Defect, case
from parity_tests.harness.specs.domains import integer

_EPSILON = "13. binary_cross_entropy: derivatives"
EPSILON = (
    Defect(
        _EPSILON,
        ("p_bar", "p_bar_dot", "p_dot_bar", "output_bar_bar", "output_dot_dot"),
        (*SECOND_ORDER, "functorch"),
        ("float64",),
    ),
    Defect(
        _EPSILON,
        ("p_bar", "t_bar", "output_bar_bar"),
        ("points", "points_second_order"),
        ("float64",),
        ("is tiny", "is subnormal"),
    ),
    Defect("23. binary_cross_entropy: digits lost in float16", ("t_bar",), ("vjp_of_jvp",), ("float16",)),
)


def plus_or_minus_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """The target of a pair."""
    return rng.choice([-1.0, 1.0], shape)


def _cosine_embedding_loss(x, y, target):
    epsilon = float(np.float32(1e-12))  # as PyTorch has it, whatever the format
    norms = jnp.sqrt((jnp.sum(x * x, 1) + epsilon) * (jnp.sum(y * y, 1) + epsilon))
    cosine = jnp.sum(x * y, 1) / norms
    return jnp.mean(jnp.where(target > 0, 1 - cosine, jnp.maximum(0, cosine - 0.1)))


def _multi_margin_loss(x, target):
    rows = jnp.arange(len(target))
    margins = jnp.maximum(0, 1 - x[rows, target][:, None] + x)
    return jnp.mean(jnp.sum(margins.at[rows, target].set(0), 1) / x.shape[1])


def _linear_cross_entropy(x, w, target):
    return -jnp.mean(jax.nn.log_softmax(x @ w.T)[jnp.arange(len(target)), target])


def _attention(q, k, v):
    # Not jax.nn.dot_product_attention, which computes in float32: docs/found.md, 14.
    return jax.nn.softmax(jnp.matmul(q, k.swapaxes(2, 3)) / np.sqrt(q.shape[3])) @ v


CASES = (
    case(
        "nn.functional.adaptive_avg_pool2d",
        lambda x: x.reshape(*x.shape[:2], 2, 2, 3, 2).mean((3, 5)),
        lambda x: functional.adaptive_avg_pool2d(x, (2, 3)),
        "(b,c,4,6)->(b,c,2,3)",
    ),
    case(
        "nn.functional.avg_pool1d",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 3), (1, 1, 2), "VALID") / 3,
        lambda x: functional.avg_pool1d(x, 3, 2),
        "(b,c,8)->(b,c,3)",
    ),
    case(
        "nn.functional.binary_cross_entropy",
        lambda p, t: -jnp.mean(t * jnp.log(p) + (1 - t) * jnp.log1p(-p)),
        functional.binary_cross_entropy,
        "(n,m),(n,m)->()",
        *EPSILON,
        domains={"p": "unit", "t": "unit"},
    ),
    case(
        "nn.functional.conv1d",
        lambda x, w, c: lax.conv_general_dilated(x, w, (1,), [(1, 1)]) + c[:, None],
        lambda x, w, c: functional.conv1d(x, w, c, padding=1),
        "(b,i,n),(o,i,3),(o)->(b,o,n)",
        Defect(
            "30. Convolution: the gradient of the weight in 16 bits",
            ("w_bar",),
            ("vjp", "low_precision"),
            ("bfloat16", "float16"),  # in bfloat16 on processors that end with AVX2
        ),
    ),
    case(
        "nn.functional.cosine_embedding_loss",
        _cosine_embedding_loss,
        lambda x, y, target: functional.cosine_embedding_loss(x, y, target, margin=0.1),
        "(n,d),(n,d),(n)->()",
        domains={"target": plus_or_minus_one},
        constants=["target"],
    ),
    case(
        "nn.functional.embedding_bag",
        lambda w, index: w[index].mean(1),
        lambda w, index: functional.embedding_bag(index, w, mode="mean"),
        "(n,d),(b,k)->(b,d)",
        domains={"index": integer(0, "n")},
    ),
    case(
        "nn.functional.interpolate.bilinear",
        lambda x: jax.image.resize(x, (*x.shape[:2], 6, 8), "linear", antialias=False),
        lambda x: functional.interpolate(x, (6, 8), mode="bilinear"),
        "(b,c,3,4)->(b,c,6,8)",
    ),
    case("nn.functional.l1_loss", lambda x, y: jnp.mean(jnp.abs(x - y)), functional.l1_loss, "(n,m),(n,m)->()"),
    case(
        "nn.functional.linear_cross_entropy",
        _linear_cross_entropy,
        lambda x, w, target: functional.linear_cross_entropy(x, w, target),  # PyTorch 2.11 does not have it
        "(n,d),(k,d),(n)->()",
        domains={"target": integer(0, "k")},
    ),
    case(
        "nn.functional.mse_loss",
        lambda x, y: jnp.mean((x - y) ** 2),
        functional.mse_loss,
        "(n,m),(n,m)->()",
        Defect(
            "104. mse_loss, smooth_l1_loss, huber_loss: a vmap inside of a vmap that batches one argument only",
            ("vmap",),
            ("vmap",),
            at=("in_dims (0, None) inside of a vmap with in_dims (-1, -1)",),
        ),
    ),
    case(
        "nn.functional.multi_margin_loss",
        _multi_margin_loss,
        functional.multi_margin_loss,
        "(n,k),(n)->()",
        domains={"target": integer(0, "k")},
    ),
    case(
        "nn.functional.poisson_nll_loss",
        lambda x, target: jnp.mean(jnp.exp(x) - target * x),
        functional.poisson_nll_loss,
        "(n,m),(n,m)->()",
        domains={"target": "positive"},
    ),
    case(
        "nn.functional.scaled_dot_product_attention",
        _attention,
        functional.scaled_dot_product_attention,
        "(b,h,n,d),(b,h,m,d),(b,h,m,d)->(b,h,n,d)",
    ),
    case(
        "nn.functional.upsample_nearest",
        lambda x: jnp.repeat(x, 2, 2),
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
        "(b,c,n)->(b,c,k)",
        sizes="k = 2*n",
    ),
)
