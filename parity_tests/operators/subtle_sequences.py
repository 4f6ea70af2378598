"""Ten operators whose mistakes are near a rounding of 16 bits: those of sequences and segments; see `subtle_rows`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from parity_tests.operators import sites
from parity_tests.operators.operator import Fault, Formulas, by_formulas

CAP = 5.0
BLOCK = 16
SEGMENTS = 8


# Causal attention whose scores are capped by tanh; the logarithm of the normalizer is an output, too.
def _capped_inputs(rng, sizes):
    n, d = sizes["n"], sizes["d"]
    return [1.5 * rng.standard_normal((n, d)), 1.5 * rng.standard_normal((n, d)), rng.standard_normal((n, d))]


def _capped(q, k, v):
    s = CAP * jnp.tanh(q @ k.T * (q.shape[1] ** -0.5 / CAP))
    s = jnp.where(jnp.tril(jnp.ones(s.shape, bool)), s, -jnp.inf)
    lse = jax.scipy.special.logsumexp(s, -1)
    return jnp.exp(s - lse[:, None]) @ v, lse


def _scores(q, k):
    return CAP * torch.tanh(q @ k.T * (q.shape[1] ** -0.5 / CAP))


def _causal(n: int) -> torch.Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def _capped_forward(at, q, k, v):
    s = _scores(q, k).masked_fill(~_causal(len(q)), -torch.inf)
    lse = torch.logsumexp(s, -1)
    output = torch.exp(s - lse[:, None]) @ v
    return (output, lse), (q, k, v, lse, output)


def _online_forward(at, q, k, v):
    """Block by block of keys, with the running maximum and normalizer of FlashAttention."""
    largest = torch.full_like(q[:, :1], -1e4)  # far below any score, and a number of both formats
    total, output = torch.zeros_like(largest), torch.zeros_like(v)
    allowed = _causal(len(q))
    for first in range(0, len(k), BLOCK):
        s = _scores(q, k[first : first + BLOCK]).masked_fill(~allowed[:, first : first + BLOCK], -torch.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        kept, p = torch.exp(largest - new), torch.exp(s - new)
        total, output, largest = (
            total * kept + p.sum(-1, keepdim=True),
            output * kept + p @ v[first : first + BLOCK],
            new,
        )
    output, lse = output / total, (largest + torch.log(total))[:, 0]
    return (output, lse), (q, k, v, lse, output)


def _capped_backward(at, saved, bars):
    (q, k, v, lse, output), (output_bar, lse_bar) = saved, bars
    scale, s = q.shape[1] ** -0.5, _scores(q, k)
    p = at("p", torch.exp(s - lse[:, None]).masked_fill(~_causal(len(q)), 0.0))
    delta = at("summands of delta", output_bar * output).sum(-1, keepdim=True) - at("lse_bar", lse_bar)[:, None]
    s_bar = p * (output_bar @ v.T - delta) * at("slope of the cap", 1 - (s / CAP) ** 2) * scale
    v_bar = at("queries of v_bar", p).T @ output_bar
    return at("q_bar", s_bar @ k), at("queries of k_bar", s_bar).T @ q, v_bar


_OF_ATTENTION: tuple[Fault, ...] = (
    ("the derivative of the cap is left out", "factor", {"slope of the cap": torch.ones_like}),
    sites.ignored("lse_bar"),
    sites.last_block("summands of delta", "the last block of columns is left out of delta", axis=1),
    sites.last_one("queries of v_bar", "the last query is left out of v_bar"),
    sites.stale_row("p", "the normalizer of one row is 5 % too small", 1.05),
)
_OF_QUERIES = {"small": {"n": 8, "d": 16}, "medium": {"n": 64, "d": 64}, "kernel": {"n": 256, "d": 64}}
capped = by_formulas(
    _capped,
    Formulas("capped attention", _capped_inputs, _capped_forward, _capped_backward, _OF_QUERIES),
    *_OF_ATTENTION,
)
online = by_formulas(
    _capped,
    Formulas("capped attention, online softmax", _capped_inputs, _online_forward, _capped_backward, _OF_QUERIES),
    *_OF_ATTENTION[:2],
    ("the mask of the backward leaves out the diagonal", "mask", {"p": lambda p: p.tril(-1)}),
    sites.last_one("queries of k_bar", "the last query is left out of k_bar"),
    sites.factor("q_bar", 1.01, "q_bar is 1 % too large"),
)


# One step of the gated delta rule for a batch of states: S <- a (S - b (S k) kᵀ) + b v kᵀ, read by S q.
def _state_and_step(rng, sizes):
    n, d, e = sizes["n"], sizes["d"], sizes["e"]
    k = rng.standard_normal((n, d))
    k /= (k * k).sum(-1, keepdims=True) ** 0.5
    return [
        rng.standard_normal((n, e, d)), rng.standard_normal((n, d)), k, rng.standard_normal((n, e)),
        rng.uniform(0.8, 0.99, n), rng.uniform(0.2, 0.9, n),
    ]  # fmt: skip


def _delta_rule(S, q, k, v, a, b):
    kept = S - b[:, None, None] * jnp.einsum("ned,nd->ne", S, k)[:, :, None] * k[:, None]
    new = a[:, None, None] * kept + b[:, None, None] * v[:, :, None] * k[:, None]
    return jnp.einsum("ned,nd->ne", new, q), new


def _delta_rule_forward(at, S, q, k, v, a, b):
    a_, b_, k_ = a[:, None, None], b[:, None, None], k[:, None]
    Sk = torch.bmm(S, k[:, :, None])
    new = a_ * (S - b_ * Sk * k_) + b_ * v[:, :, None] * k_
    return (torch.bmm(new, q[:, :, None])[:, :, 0], new), (S, q, k, v, a, b, new)


def _delta_rule_backward(at, saved, bars):
    (S, q, k, v, a, b, new), (y_bar, new_bar) = saved, bars
    a_, b_, k_ = a[:, None, None], b[:, None, None], k[:, None]
    Sk = torch.bmm(S, k[:, :, None])
    T = at("new_bar", new_bar) + y_bar[:, :, None] * q[:, None]  # the cotangent of the new state
    Tk = torch.bmm(T, k[:, :, None])
    kept = S - b_ * Sk * k_
    S_bar = a_ * (T - b_ * Tk * k_)
    a_bar = at("summands of a_bar", (T * kept).flatten(1)).sum(1)
    b_bar = (Tk * (v[:, :, None] - at("a of b_bar", a_) * Sk)).sum((1, 2))
    w = v[:, :, None] - a_ * Sk
    k_bar = b[:, None] * (torch.bmm(T.mT, w) - a_ * torch.bmm(at("state of k_bar", S).mT, Tk))[:, :, 0]
    q_bar = torch.bmm(new.mT, y_bar[:, :, None])[:, :, 0]
    return S_bar, q_bar, k_bar, at("v_bar", b[:, None] * Tk[:, :, 0]), a_bar, b_bar


delta_rule = by_formulas(
    _delta_rule,
    Formulas(
        "gated delta rule, a step",
        _state_and_step,
        _delta_rule_forward,
        _delta_rule_backward,
        {
            "small": {"n": 4, "d": 8, "e": 8},
            "medium": {"n": 16, "d": 32, "e": 32},
            "kernel": {"n": 32, "d": 64, "e": 64},
        },
    ),
    sites.in_bfloat16("summands of a_bar", axis=1),
    sites.ignored("new_bar"),
    ("the decay is left out of b_bar", "factor", {"a of b_bar": torch.ones_like}),
    sites.left_out("state of k_bar", "a term is left out of k_bar"),
    sites.last_one("summands of a_bar", "the last column is left out of a_bar", axis=1),
)


# The weighted mean of the rows of each segment; a segment that has no rows is 0.
def _segments(rng, sizes):
    n, m = sizes["n"], sizes["m"]
    return [rng.standard_normal((n, m)), rng.uniform(0.2, 1.0, n), rng.integers(0, SEGMENTS, n)]


def _weighted_means(x, w, place):
    totals = jnp.zeros(SEGMENTS, w.dtype).at[place].add(w)
    sums = jnp.zeros((SEGMENTS, x.shape[1]), x.dtype).at[place].add(w[:, None] * x)
    empty = totals == 0
    return jnp.where(empty[:, None], 0.0, sums / jnp.where(empty, 1.0, totals)[:, None])


def _weighted_means_forward(at, x, w, place):
    one_hot = torch.nn.functional.one_hot(place, SEGMENTS).to(x.dtype)
    totals = (one_hot * w[:, None]).sum(0)
    totals = torch.where(totals == 0, torch.ones_like(totals), totals)
    y = one_hot.T @ (w[:, None] * x) / totals[:, None]
    return (y,), (x, w, place, totals, y)


def _weighted_means_backward(at, saved, bars):
    (x, w, place, totals, y), (y_bar,) = saved, bars
    of_row = (y_bar / at("totals", totals)[:, None])[place]
    apart = x - at("mean", y)[place]
    return at("x_bar", w[:, None] * of_row), at("summands of w_bar", of_row * apart).sum(-1)


weighted_means = by_formulas(
    _weighted_means,
    Formulas(
        "weighted means of segments",
        _segments,
        _weighted_means_forward,
        _weighted_means_backward,
        {"small": {"n": 16, "m": 16}, "medium": {"n": 64, "m": 64}, "kernel": {"n": 512, "m": 128}},
    ),
    sites.left_out("mean", "the mean of the segment is left out of w_bar"),
    sites.in_bfloat16("summands of w_bar", axis=1),
    sites.last_one("summands of w_bar", "the last column is left out of w_bar", axis=1),
    sites.stale_row("totals", "the total of one segment is 1 % too large", 1.01),
    sites.last_one("x_bar", "the last row of x_bar is zero"),
)


# A selective scan: h[t] = exp(-t_[t] A) h[t-1] + t_[t] b[t] x[t], read by c[t]; one state for each channel and entry.
def _selective_inputs(rng, sizes):
    n, m, s = sizes["n"], sizes["m"], sizes["s"]
    return [
        rng.standard_normal((n, m)), rng.uniform(0.05, 0.5, (n, m)), rng.uniform(0.2, 1.0, (m, s)),
        rng.standard_normal((n, s)), rng.standard_normal((n, s)),
    ]  # fmt: skip


def _selective_scan(x, t, A, b, c):
    def step(h, row):
        x_, t_, b_, c_ = row
        h = jnp.exp(-t_[:, None] * A) * h + (t_ * x_)[:, None] * b_
        return h, (h * c_).sum(-1)

    return jax.lax.scan(step, jnp.zeros(A.shape, x.dtype), (x, t, b, c))[1]


def _selective_scan_forward(at, x, t, A, b, c):
    h, states, outputs = torch.zeros_like(A), [], []
    for x_, t_, b_, c_ in zip(x, t, b, c, strict=True):
        h = torch.exp(-t_[:, None] * A) * h + (t_ * x_)[:, None] * b_
        states.append(h)
        outputs.append((h * c_).sum(-1))
    return (torch.stack(outputs),), (x, t, A, b, c, torch.stack(states))


def _selective_scan_backward(at, saved, bars):
    (x, t, A, b, c, states), (y_bar,) = saved, bars
    before = at("states before", torch.cat([torch.zeros_like(states[:1]), states[:-1]]))
    decays = torch.exp(-t[:, :, None] * A)
    h_bar, h_bars = torch.zeros_like(A), []
    for i in reversed(range(len(x))):
        h_bar = h_bar + y_bar[i][:, None] * c[i]
        h_bars.append(h_bar)
        h_bar = at("decay", decays[i]) * h_bar
    h_bar = torch.stack(h_bars[::-1])
    decayed = h_bar * before * decays
    of_inputs = (h_bar * b[:, None]).sum(-1)
    t_bar = x * of_inputs - at("term of the decay in t_bar", (decayed * A).sum(-1))
    A_bar = -at("summands of A_bar", t[:, :, None] * decayed).sum(0)
    b_bar = (h_bar * (t * x)[:, :, None]).sum(1)
    c_bar = at("summands of c_bar", y_bar[:, :, None] * states).sum(1)
    return at("x_bar", t * of_inputs), t_bar, A_bar, b_bar, c_bar


selective_scan = by_formulas(
    _selective_scan,
    Formulas(
        "selective scan",
        _selective_inputs,
        _selective_scan_forward,
        _selective_scan_backward,
        {
            "small": {"n": 12, "m": 4, "s": 4},
            "medium": {"n": 48, "m": 16, "s": 8},
            "kernel": {"n": 48, "m": 64, "s": 16},
        },
    ),
    sites.in_bfloat16("summands of A_bar"),
    sites.factor("term of the decay in t_bar", 0.95, "the term of the decay is 5 % too small in t_bar"),
    sites.shifted("states before", "the state is that of two steps before"),
    sites.last_one("summands of c_bar", "the last channel is left out of c_bar", axis=1),
    sites.factor("decay", 0.99, "the decay is 1 % too strong in the backward"),
)
