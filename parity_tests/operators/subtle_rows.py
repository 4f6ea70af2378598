"""Ten operators whose mistakes are near a rounding of 16 bits: those of rows. Those of sequences: `subtle_sequences`.

Five mistakes each, most of them below 3 % of a gradient and a fifth below one: a term with a small coefficient, a mean
over one entry too many, an epsilon, a sum that is added up in bfloat16.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, by_formulas

ALPHA, LIMIT = 1.702, 7.0
SMOOTHING, Z_LOSS = 0.1, 1e-4
EPSILON = 1e-6
GROUP = 16


# The gated linear unit of gpt-oss: both halves are clamped, the gate from above only.
def _gate_and_up(rng, sizes):
    return [3 * rng.standard_normal((sizes["n"], sizes["m"])) for _ in range(2)]


def _clamped_glu(a, b):
    g, u = jnp.minimum(a, LIMIT), jnp.clip(b, -LIMIT, LIMIT)
    return (u + 1) * g * jax.nn.sigmoid(ALPHA * g)


def _clamped_glu_forward(at, a, b):
    g, u = a.clamp(max=LIMIT), b.clamp(-LIMIT, LIMIT)
    return ((u + 1) * (g * torch.sigmoid(ALPHA * g)),), (a, b)


def _clamped_glu_backward(at, saved, bars):
    (a, b), (y_bar,) = saved, bars
    g, u = a.clamp(max=LIMIT), b.clamp(-LIMIT, LIMIT)
    s = torch.sigmoid(ALPHA * g)
    slope = s + at("alpha", ALPHA * g * s * (1 - s))
    a_bar = y_bar * at("u + 1", u + 1) * slope * (a <= LIMIT)
    inside = at("lower clamp", b >= -LIMIT) & (b <= LIMIT)
    return at("a_bar", a_bar), at("b_bar", y_bar * (g * s) * inside)


clamped_glu = by_formulas(
    _clamped_glu,
    Formulas("clamped GLU", _gate_and_up, _clamped_glu_forward, _clamped_glu_backward, sites.ROWS),
    ("the lower clamp lets the gradient of b pass", "mask", {"lower clamp": torch.ones_like}),
    sites.factor("alpha", 1 / ALPHA, "alpha is left out of the derivative of the sigmoid"),
    sites.factor("alpha", 1.7 / ALPHA, "alpha is 1.7 in the derivative of the sigmoid"),
    ("1 is not added to u in a_bar", "term", {"u + 1": lambda x: x - 1}),
    sites.last_one("b_bar", "the last row of b_bar is zero"),
)


# Cross entropy with label smoothing and the square of the logarithm of the normalizer, for each row.
def _logits_and_targets(rng, sizes):
    return [2 * rng.standard_normal((sizes["n"], sizes["m"])), rng.integers(0, sizes["m"], sizes["n"])]


def _smoothed(x, t):
    lse = jax.scipy.special.logsumexp(x, -1)
    picked = jnp.take_along_axis(x, t[:, None], -1)[:, 0]
    return lse - (1 - SMOOTHING) * picked - SMOOTHING * x.mean(-1) + Z_LOSS * lse**2


def _smoothed_forward(at, x, t):
    lse = torch.logsumexp(x, -1)
    picked = x.gather(-1, t[:, None])[:, 0]
    y = lse - (1 - SMOOTHING) * picked - SMOOTHING * x.mean(-1) + Z_LOSS * lse**2
    return (y,), (x, t, lse)


def _smoothed_backward(at, saved, bars):
    (x, t, lse), (y_bar,) = saved, bars
    p = torch.exp(x - lse[:, None])
    of_z = 1 + at("z-loss", 2 * Z_LOSS * lse)[:, None]
    smoothed = at("smoothing", torch.full_like(p, SMOOTHING / x.shape[-1]))
    target = torch.zeros_like(p).scatter_(-1, t[:, None], 1 - SMOOTHING)
    return (at("x_bar", at("y_bar", y_bar)[:, None] * (of_z * at("p", p) - smoothed - target)),)


smoothed_with_z_loss = by_formulas(
    _smoothed,
    Formulas("smoothed cross entropy", _logits_and_targets, _smoothed_forward, _smoothed_backward, sites.ROWS),
    sites.left_out("z-loss", "the term of the z-loss is left out of x_bar"),
    sites.factor("z-loss", 0.5, "a factor 2 is missing in the term of the z-loss"),
    (
        "the smoothing divides by one class less",
        "size",
        {"smoothing": lambda x: x * (x.shape[-1] / (x.shape[-1] - 1))},
    ),
    ("the smoothing is left out of x_bar", "term", {"smoothing": torch.zeros_like}),
    sites.stale_row("p", "the normalizer of one row is 1 % too small", 1.01),
)


# Residual addition and RMS norm with 1 + w; the sum is an output, too.
def _rows_residual_and_weight(rng, sizes):
    n, m = sizes["n"], sizes["m"]
    return [rng.standard_normal((n, m)), rng.standard_normal((n, m)), 0.2 * rng.standard_normal(m)]


def _added_norm(x, r, w):
    h = x + r
    return h / jnp.sqrt((h * h).mean(-1, keepdims=True) + EPSILON) * (1 + w), h


def _added_norm_forward(at, x, r, w):
    h = x + r
    rstd = torch.rsqrt((h * h).mean(-1, keepdim=True) + EPSILON)
    return (h * rstd * (1 + w), h), (h, w, rstd)


def _added_norm_backward(at, saved, bars):
    (h, w, rstd), (y_bar, h_bar) = saved, bars
    rstd = at("rstd", rstd)
    normalized = h * rstd
    g = y_bar * at("1 + w", 1 + w)
    mean = at("mean", (g * normalized).mean(-1, keepdim=True))
    x_bar = rstd * (g - normalized * mean) + at("h_bar", h_bar)
    return x_bar, x_bar, at("summands of w_bar", y_bar * normalized).sum(0)


added_norm = by_formulas(
    _added_norm,
    Formulas("residual and RMS norm", _rows_residual_and_weight, _added_norm_forward, _added_norm_backward, sites.ROWS),
    sites.in_bfloat16("summands of w_bar"),
    ("1.01 is added to the weight in x_bar", "formula", {"1 + w": lambda x: x + 0.01}),
    ("the mean divides by one column less", "size", {"mean": lambda x: x * (32 / 31)}),
    sites.ignored("h_bar"),
    sites.stale_row("rstd", "the saved root of one row is 1 % too large", 1.01),
)


# The Kullback-Leibler divergence of two rows of logits, differentiated by both.
def _two_logits(rng, sizes):
    return [1.5 * rng.standard_normal((sizes["n"], sizes["m"])) for _ in range(2)]


def _divergence(s, t):
    log_p, log_q = jax.nn.log_softmax(t), jax.nn.log_softmax(s)
    return (jnp.exp(log_p) * (log_p - log_q)).sum(-1)


def _divergence_forward(at, s, t):
    log_p, log_q = torch.log_softmax(t, -1), torch.log_softmax(s, -1)
    y = (torch.exp(log_p) * (log_p - log_q)).sum(-1)
    return (y,), (log_p, log_q)


def _divergence_backward(at, saved, bars):
    (log_p, log_q), (y_bar,) = saved, bars
    p, q = torch.exp(log_p), torch.exp(log_q)
    apart = at("log p", log_p, p) - log_q
    kl = at("divergence", (p * apart).sum(-1, keepdim=True))
    g = y_bar[:, None]
    return at("s_bar", g * (at("q", q) - p)), at("t_bar", g * p * (apart - kl))


divergence = by_formulas(
    _divergence,
    Formulas("divergence of logits", _two_logits, _divergence_forward, _divergence_backward, sites.ROWS),
    ("1e-3 is added to p in its logarithm in t_bar", "epsilon", {"log p": lambda x, p: torch.log(p + 1e-3)}),
    sites.left_out("divergence", "the divergence of the row is left out of t_bar"),
    (
        "the normalizer of q is one without the last column",
        "sum",
        {"q": lambda q: q / (1 - q[:, -1:]).clamp(min=0.01)},
    ),
    sites.factor("divergence", 0.9, "the divergence of the row is 10 % too small in t_bar"),
    sites.stale_row("q", "the normalizer of one row is 1 % too small", 1.01),
)


# Layer norm without weights, times 1 + scale, plus shift, one scale and one shift for all rows (adaLN of one image).
def _modulated_inputs(rng, sizes):
    n, m = sizes["n"], sizes["m"]
    return [1 + 2 * rng.standard_normal((n, m)), 0.3 * rng.standard_normal(m), 0.3 * rng.standard_normal(m)]


def _modulated(x, s, b):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + EPSILON) * (1 + s) + b


def _modulated_forward(at, x, s, b):
    centered = x - x.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + EPSILON)
    normalized = centered * rstd
    return (normalized * (1 + s) + b,), (normalized, s, rstd)


def _modulated_backward(at, saved, bars):
    (normalized, s, rstd), (y_bar,) = saved, bars
    rstd = at("rstd", rstd, normalized)
    g = y_bar * at("1 + s", 1 + s)
    of_mean = at("mean of g", g.mean(-1, keepdim=True))
    of_slope = at("mean of g x", (g * normalized).mean(-1, keepdim=True))
    x_bar = rstd * (g - of_mean - normalized * of_slope)
    s_bar = at("summands of s_bar", y_bar * normalized).sum(0)
    return x_bar, s_bar, at("summands of b_bar", y_bar).sum(0)


def _of_one_column_less(rstd: torch.Tensor, normalized: torch.Tensor) -> torch.Tensor:
    m = normalized.shape[-1]
    return rstd * ((m - 1) / m) ** 0.5


modulated = by_formulas(
    _modulated,
    Formulas("modulated layer norm", _modulated_inputs, _modulated_forward, _modulated_backward, sites.ROWS),
    sites.in_bfloat16("summands of s_bar"),
    sites.in_bfloat16("summands of b_bar"),
    ("the root of the backward is that of m - 1 columns", "size", {"rstd": _of_one_column_less}),
    sites.left_out("mean of g", "the mean of the cotangent is left out of x_bar"),
    sites.last_block("summands of s_bar", "the last block of rows is left out of s_bar"),
)


# A product with integers of 4 bits, each group of a row with its scale.
def _quantized(rng, sizes):
    n, m, k = sizes["n"], sizes["m"], sizes["k"]
    scales = 0.05 * rng.uniform(0.5, 1.5, (m, k // GROUP))
    return [rng.standard_normal((n, k)), scales, rng.integers(0, 16, (m, k))]


def _four_bits(x, s, q):
    weights = (q - 8).astype(x.dtype).reshape(*s.shape, GROUP) * s[..., None]
    return x @ weights.reshape(q.shape).T


def _four_bits_forward(at, x, s, q):
    weights = ((q - 8).to(x.dtype).reshape(*s.shape, GROUP) * s[..., None]).reshape(q.shape)
    return (x @ weights.T,), (x, s, q)


def _four_bits_backward(at, saved, bars):
    (x, s, q), (y_bar,) = saved, bars
    integers = at("integers", (q - 8).to(x.dtype)).reshape(*s.shape, GROUP)
    weights = (integers * at("scales", s)[..., None]).reshape(q.shape)
    of_weights = at("rows", y_bar).T @ x
    s_bar = at("summands of s_bar", of_weights.reshape(integers.shape) * integers).sum(-1)
    return at("x_bar", y_bar @ weights), s_bar


four_bits = by_formulas(
    _four_bits,
    Formulas(
        "4-bit linear",
        _quantized,
        _four_bits_forward,
        _four_bits_backward,
        {
            "small": {"n": 8, "m": 16, "k": 32},
            "medium": {"n": 64, "m": 64, "k": 64},
            "kernel": {"n": 256, "m": 128, "k": 256},
        },
    ),
    ("the zero point is 7.9 in the backward", "formula", {"integers": lambda x: x + 0.1}),
    ("the scales are those of the group before", "index", {"scales": lambda x: x.roll(1, -1)}),
    sites.last_one("rows", "the last row is left out of s_bar"),
    sites.last_one("summands of s_bar", "the last integer of each group is left out of s_bar", axis=-1),
    sites.stale_row("scales", "the scales of one row are 5 % too large in x_bar", 1.05),
)
