"""Products, convolutions, linear algebra, transforms and attention."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mlx.core as mx
import mlx.nn as nn

from benchmarks.mlx_sweep._operator import full

SQUARE = "(n,n)->(n,n)"
KEPT = "n >= 1, c >= 1, o >= 1"


def _convolution(x, w, stride=1, padding=0, dilation=1, groups=1):
    axes = ("NLC", "OLI", "NLC") if x.ndim == 3 else ("NHWC", "OHWI", "NHWC")
    every = x.ndim - 2
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride,) * every,
        [(padding, padding)] * every,
        rhs_dilation=(dilation,) * every,
        dimension_numbers=axes,
        feature_group_count=groups,
        precision="highest",
    )


def _transposed(x, w, stride):
    (size,) = w.shape[1:2]
    return jax.lax.conv_general_dilated(
        x,
        jnp.flip(w, 1),
        (1,),
        [(size - 1, size - 1)],
        lhs_dilation=(stride,),
        dimension_numbers=("NLC", "OLI", "NLC"),
        precision="highest",
    )


def _attention(q, k, v):
    return jax.nn.softmax(q @ k.T * 0.5, -1) @ v


def _attention_in_mlx(q, k, v):
    return mx.fast.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], scale=0.5)[0, 0]


def _rope(x):
    """Rotary embeddings by halves, of base 10000."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** -(jnp.arange(half) / half)
    angles = jnp.arange(x.shape[-2])[:, None] * rates
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


def _rope_in_mlx(x):
    return mx.fast.rope(x[None], x.shape[-1], traditional=False, base=10000.0, scale=1.0, offset=0)[0]


OPERATORS = (
    full("matmul", mx.matmul, lambda x, y: x @ y, "(n,k),(k,m)->(n,m)"),
    full("matmul, batched", mx.matmul, lambda x, y: x @ y, "(b,n,k),(b,k,m)->(b,n,m)"),
    full("matmul by a vector", mx.matmul, lambda x, y: x @ y, "(n,k),(k)->(n)"),
    full(
        "addmm",
        lambda c, x, y: mx.addmm(c, x, y, 0.5, 2.0),
        lambda c, x, y: 2 * c + 0.5 * (x @ y),
        "(n,m),(n,k),(k,m)->(n,m)",
    ),
    full("inner", mx.inner, lambda x, y: jnp.inner(x, y), "(n,k),(m,k)->(n,m)"),
    full("outer", mx.outer, lambda x, y: jnp.outer(x, y), "(n),(m)->(n,m)"),
    full(
        "tensordot", lambda x, y: mx.tensordot(x, y, 2), lambda x, y: jnp.tensordot(x, y, 2), "(n,k,l),(k,l,m)->(n,m)"
    ),
    full(
        "einsum",
        lambda x, y: mx.einsum("nk,nkm->m", x, y),
        lambda x, y: jnp.einsum("nk,nkm->m", x, y),
        "(n,k),(n,k,m)->(m)",
    ),
    full("kron", mx.kron, lambda x, y: jnp.kron(x, y), "(n),(m)->(k)", sizes="k = n * m"),
    full("vecdot", mx.vecdot, lambda x, y: jnp.sum(x * y, -1), "(n,d),(n,d)->(n)"),
    full("linalg.cross", mx.linalg.cross, lambda x, y: jnp.cross(x, y), "(n,3),(n,3)->(n,3)"),
    full(
        "hadamard_transform",
        lambda x: mx.hadamard_transform(x, 1.0),
        lambda x: x @ jnp.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], x.dtype),
        "(n,4)->(n,4)",
    ),
    full(
        "convolve",
        lambda x, y: mx.convolve(x, y),
        lambda x, y: jnp.convolve(x, y, precision="highest"),
        "(n),(m)->(k)",
        sizes="n >= 1, m >= 1, k = n + m - 1",
    ),
    full("conv1d", mx.conv1d, _convolution, "(n,l,c),(o,3,c)->(n,k,o)", sizes=f"{KEPT}, l >= 3, k = l - 2"),
    full(
        "conv1d, stride 2, padding 1",
        lambda x, w: mx.conv1d(x, w, 2, 1),
        lambda x, w: _convolution(x, w, 2, 1),
        "(n,l,c),(o,3,c)->(n,k,o)",
        sizes=f"{KEPT}, l >= 1, k = (l - 1) // 2 + 1",
    ),
    full(
        "conv1d, two groups",
        lambda x, w: mx.conv1d(x, w, 1, 1, 1, 2),
        lambda x, w: _convolution(x, w, 1, 1, 1, 2),
        "(n,l,c),(o,3,h)->(n,l,o)",
        sizes=f"{KEPT}, l >= 1, c % 2 == 0, o % 2 == 0, h = c // 2",
    ),
    full(
        "conv1d, two groups, stride 2",
        lambda x, w: mx.conv1d(x, w, 2, 1, 1, 2),
        lambda x, w: _convolution(x, w, 2, 1, 1, 2),
        "(n,l,c),(o,3,h)->(n,k,o)",
        sizes=f"{KEPT}, l >= 1, c % 2 == 0, o % 2 == 0, h = c // 2, k = (l - 1) // 2 + 1",
    ),
    full(
        "conv2d, dilation 2",
        lambda x, w: mx.conv2d(x, w, 1, 2, 2),
        lambda x, w: _convolution(x, w, 1, 2, 2),
        "(n,l,k,c),(o,3,3,c)->(n,l,k,o)",
        sizes=f"{KEPT}, l >= 1, k >= 1",
    ),
    full(
        "conv2d, stride 2",
        lambda x, w: mx.conv2d(x, w, 2, 1),
        lambda x, w: _convolution(x, w, 2, 1),
        "(n,l,k,c),(o,3,3,c)->(n,i,j,o)",
        sizes=f"{KEPT}, l >= 1, k >= 1, i = (l - 1) // 2 + 1, j = (k - 1) // 2 + 1",
    ),
    full(
        "conv_transpose1d, stride 2",
        lambda x, w: mx.conv_transpose1d(x, w, 2),
        lambda x, w: _transposed(x, w, 2),
        "(n,l,c),(o,3,c)->(n,k,o)",
        sizes=f"{KEPT}, l >= 1, k = 2*l + 1",
    ),
    full(
        "linalg.inv",
        lambda x: mx.linalg.inv(x, stream=mx.cpu),
        lambda x: jnp.linalg.inv(x),
        SQUARE,
        domains={"x": "well-conditioned"},
        sizes="n >= 1",
    ),
    full(
        "linalg.tri_inv",
        lambda x: mx.linalg.tri_inv(x, stream=mx.cpu),
        lambda x: jnp.linalg.inv(jnp.tril(x)),
        SQUARE,
        domains={"x": "lower"},
        sizes="n >= 1",
    ),
    full(
        "linalg.solve",
        lambda x, y: mx.linalg.solve(x, y, stream=mx.cpu),
        lambda x, y: jnp.linalg.solve(x, y),
        "(n,n),(n,m)->(n,m)",
        domains={"x": "well-conditioned"},
        sizes="n >= 1, m >= 1",
    ),
    full(
        "linalg.det",
        lambda x: mx.linalg.det(x, stream=mx.cpu),
        lambda x: jnp.linalg.det(x),
        "(n,n)->()",
        domains={"x": "well-conditioned"},
        sizes="n >= 1",
    ),
    full(
        "linalg.slogdet",
        lambda x: mx.linalg.slogdet(x, stream=mx.cpu)[1],
        lambda x: jnp.linalg.slogdet(x)[1],
        "(n,n)->()",
        domains={"x": "well-conditioned"},
        sizes="n >= 1",
    ),
    full(
        "linalg.cholesky",
        lambda x: mx.linalg.cholesky(x, stream=mx.cpu),
        lambda x: jnp.linalg.cholesky(x),
        SQUARE,
        domains={"x": "definite"},
        sizes="n >= 1",
    ),
    full(
        "linalg.pinv",
        lambda x: mx.linalg.pinv(x, stream=mx.cpu),
        lambda x: jnp.linalg.inv(x),
        SQUARE,
        domains={"x": "well-conditioned"},
        sizes="n >= 1",
    ),
    full(
        "linalg.eigvalsh",
        lambda x: mx.linalg.eigvalsh(x, stream=mx.cpu),
        lambda x: jnp.linalg.eigvalsh(x),
        "(n,n)->(n)",
        domains={"x": "symmetric"},
        sizes="n >= 1",
    ),
    full(
        "fft.rfft",
        lambda x: mx.fft.rfft(x),
        lambda x: jnp.fft.rfft(x),
        "(n,d)->(n,k)",
        sizes="n >= 1, d >= 1, k = d // 2 + 1",
    ),
    full(
        "fft.fft of real numbers",
        lambda x: mx.fft.fft(x),
        lambda x: jnp.fft.fft(x),
        "(n,d)->(n,d)",
        sizes="n >= 1, d >= 1",
    ),
    full(
        "fft.irfft after rfft",
        lambda x: mx.fft.irfft(mx.fft.rfft(x) * 2, x.shape[-1]),
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2, x.shape[-1]),
        "(n,d)->(n,d)",
        sizes="n >= 1, d >= 1",
    ),
    full(
        "fast.scaled_dot_product_attention",
        _attention_in_mlx,
        _attention,
        "(n,d),(m,d),(m,e)->(n,e)",
        sizes="n >= 1, m >= 1, d >= 1, e = d",
    ),
    full("fast.rope", _rope_in_mlx, _rope, "(h,n,d)->(h,n,d)", sizes="h >= 1, n >= 1, d >= 2, d % 2 == 0"),
    full(
        "Bilinear",
        lambda x, w, y: mx.sum((x @ w) * y, -1),
        lambda x, w, y: jnp.sum((x @ w) * y, -1),
        "(n,k),(k,m),(n,m)->(n)",
    ),
    full(
        "AvgPool1d",
        lambda x: nn.AvgPool1d(2, 2)(x),
        lambda x: x.reshape(x.shape[0], -1, 2, x.shape[2]).mean(2),
        "(n,l,c)->(n,k,c)",
        sizes="n >= 1, l >= 2, l % 2 == 0, c >= 1, k = l // 2",
    ),
    full(
        "MaxPool1d",
        lambda x: nn.MaxPool1d(2, 2)(x),
        lambda x: x.reshape(x.shape[0], -1, 2, x.shape[2]).max(2),
        "(n,l,c)->(n,k,c)",
        sizes="n >= 1, l >= 2, l % 2 == 0, c >= 1, k = l // 2",
    ),
)
