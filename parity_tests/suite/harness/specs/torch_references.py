"""References of the kinds that authors of kernels hold, as PyTorch code, each with its inputs in one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rms_norm(x: Tensor, w: Tensor, eps: float = 1e-6) -> Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * w


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def layer_norm_by_hand(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt() * w + b


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 2, w, b)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("nd,md->nm", q, k) / math.sqrt(q.shape[-1])
    mask = torch.ones_like(scores, dtype=torch.bool).tril()
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def attention_with_bias(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    scores = q @ k.mT * 0.5 + bias
    return torch.softmax(scores, dim=-1) @ v, torch.logsumexp(scores, dim=-1)


def soft_capped_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(5.0 * torch.tanh(q @ k.T / 5.0), dim=-1, dtype=torch.float32).to(q.dtype) @ v


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state, out = q.new_zeros(k.shape[1], v.shape[1]), []
    for i in range(q.shape[0]):
        state = state + torch.outer(k[i], v[i])
        out.append(q[i] @ state)
    return torch.stack(out)


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return (F.silu(x @ gate) * (x @ up)) @ down


def geglu(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return a * F.gelu(b, approximate="tanh")


def rotary(x: Tensor, positions: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    frequencies = 10000.0 ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    angles = positions[:, None] * frequencies
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1).to(x.dtype)


def rotary_by_complex_numbers(x: Tensor, angles: Tensor) -> Tensor:
    turned = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target, label_smoothing=0.1)


def cross_entropy_by_hand(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    lse = torch.logsumexp(logits, -1)
    loss = lse - logits.gather(-1, target[:, None]).squeeze(-1)
    return loss.mean() + 1e-2 * (lse**2).mean(), lse


def shrunk_at_masks(x: Tensor) -> Tensor:
    y = x * x.abs()
    y[x.abs() < 0.5] = 0.0
    y[x.sum(-1) < 0] = 1.0
    return y


def fused_linear_jsd(x: Tensor, w: Tensor, y: Tensor) -> Tensor:
    p, q = (x @ w.T).log_softmax(-1), y.log_softmax(-1)
    m = torch.logaddexp(p, q) - math.log(2)
    return 0.5 * (F.kl_div(m, p, log_target=True, reduction="sum") + F.kl_div(m, q, log_target=True, reduction="sum"))


def dpo_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    return -F.logsigmoid(0.1 * (chosen - rejected)).mean()


def soft_routing(x: Tensor, router: Tensor, experts: Tensor) -> Tensor:
    weights = torch.softmax(x @ router, dim=-1)
    return torch.einsum("ne,nd,edf->nf", weights, x, experts)


def routing_to_two(x: Tensor, router: Tensor, experts: Tensor) -> Tensor:
    values, chosen = torch.topk(x @ router, 2, dim=-1)
    gates = values.softmax(-1)
    out = torch.zeros(x.shape[0], experts.shape[-1], dtype=x.dtype)
    for expert in range(experts.shape[0]):
        gate = (gates * (chosen == expert)).sum(-1, keepdim=True)
        out += gate * (x @ experts[expert])
    return out


def selective_scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    delta = F.softplus(delta)
    state = torch.zeros(u.shape[1], a.shape[1], dtype=torch.float32, device=u.device)
    out = []
    for i in range(u.shape[0]):
        state = torch.exp(delta[i, :, None] * -torch.exp(a)) * state + (delta[i] * u[i])[:, None] * b[i]
        out.append((state * c[i]).sum(-1))
    return torch.stack(out)


def causal_convolution(x: Tensor, w: Tensor) -> Tensor:
    return F.conv1d(F.pad(x, (2, 0))[None], w[:, None], groups=x.shape[0])[0]


def convolution(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv2d(x, w, b, stride=2, padding=1))


def segment_sum(x: Tensor, segment: Tensor) -> Tensor:
    return torch.zeros(3, x.shape[1], dtype=x.dtype).index_add_(0, segment, x)


def segment_softmax(x: Tensor, segment: Tensor) -> Tensor:
    largest = x.new_full((3,), -torch.inf).scatter_reduce(0, segment, x, "amax").detach()
    e = torch.exp(x - largest[segment])
    return e / torch.zeros_like(largest).scatter_add(0, segment, e)[segment]


def dequantised_product(x: Tensor, codes: Tensor, scale: Tensor) -> Tensor:
    return x @ ((codes.to(torch.float16) - 8) * scale[:, None]).T


def packed_dequantisation(packed: Tensor, scale: Tensor) -> Tensor:
    codes = torch.stack((packed & 0xF, packed >> 4), -1).flatten(-2)
    return (codes.to(scale.dtype) - 8.0) * scale[:, None]


def embedding_bag(indices: Tensor, table: Tensor) -> Tensor:
    return F.embedding(indices, table).mean(1)


def straight_through(x: Tensor) -> Tensor:
    return x * x + (torch.round(x) - x).detach()


def scaled_by_a_constant_maximum(x: Tensor) -> Tensor:
    with torch.no_grad():
        largest = x.abs().amax()
    return x / largest


class Gated(NamedTuple):
    value: Tensor
    gate: Tensor


def tree(params: dict[str, Tensor], xs: list[Tensor]) -> Gated:
    gate = torch.sigmoid(xs[0] @ params["w"] + params["b"])
    return Gated(gate * xs[1], gate)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2, bias=False)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x))) * self.scale


def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], dim=0) for x in (k, v))
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v


def windowed_attention_with_alibi(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    distance = torch.arange(q.shape[0])[:, None] - torch.arange(k.shape[0])
    scores = q @ k.T - 0.25 * distance.abs()
    return torch.where((distance >= 0) & (distance < 3), scores, -torch.inf).softmax(-1) @ v


def low_rank_adapted(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return F.linear(x, w) + 2.0 * (x @ a.T) @ b.T


def squared_relu(x: Tensor) -> Tensor:
    return F.relu(x).square()


def focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=-1)
    picked = log_p[torch.arange(logits.shape[0]), target]
    return -((1 - picked.exp()) ** 2 * picked).mean()


def contrastive_loss(a: Tensor, b: Tensor) -> Tensor:
    similar = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / 0.5
    return F.cross_entropy(similar, torch.arange(a.shape[0]))


def batch_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, w, b, training=True)


def gated_recurrence(x: Tensor, gate: Tensor) -> Tensor:
    a, h, out = torch.sigmoid(gate), torch.zeros_like(x[0]), []
    for t in range(x.shape[0]):
        h = a[t] * h + torch.sqrt(1 - a[t] ** 2) * x[t]
        out.append(h)
    return torch.stack(out)


def upsampling(x: Tensor, w: Tensor) -> Tensor:
    return F.conv_transpose1d(x, w, stride=2, padding=1)


def mean_pooling(x: Tensor, mask: Tensor) -> Tensor:
    kept = mask[..., None].to(x.dtype)
    return (x * kept).sum(1) / kept.sum(1).clamp(min=1.0)


# Each reference with its inputs, and further fields of its OpSpec.
CASES: dict[str, tuple[Callable, str, dict[str, Any]]] = {
    "rms_norm": (rms_norm, "x: (n,d), w: (d)", {}),
    "layer_norm": (layer_norm, "x: (n,d), w: (d), b: (d)", {}),
    "layer_norm_by_hand": (layer_norm_by_hand, "x: (n,d), w: (d), b: (d)", {"sizes": "n >= 1, d >= 1"}),
    "group_norm": (group_norm, "x: (n,c,l), w: (c), b: (c)", {"sizes": "c % 2 == 0, l >= 1, c >= 2"}),
    "causal_attention": (causal_attention, "q: (n,d), k: (n,d), v: (n,e)", {}),
    "sdpa": (sdpa, "q: (h,n,d), k: (h,m,d), v: (h,m,e)", {}),
    "attention_with_bias": (attention_with_bias, "q: (n,d), k: (m,d), v: (m,e), bias: (n,m)", {}),
    "soft_capped_attention": (soft_capped_attention, "q: (n,d), k: (m,d), v: (m,e)", {}),
    "linear_attention": (linear_attention, "q: (n,d), k: (n,d), v: (n,e)", {}),
    "swiglu": (swiglu, "x: (n,d), gate: (d,h), up: (d,h), down: (h,d)", {}),
    "geglu": (geglu, "x: (n,d)", {"sizes": "d % 2 == 0"}),
    "rotary": (rotary, "x: (n,d), positions: (n) integer(0,64)", {"sizes": "d % 2 == 0"}),
    "rotary_by_complex_numbers": (rotary_by_complex_numbers, "x: (n,d), angles: (n,h)", {"sizes": "d = 2*h"}),
    "cross_entropy": (cross_entropy, "logits: (n,c), target: (n) integer(0,c)", {}),
    "cross_entropy_by_hand": (cross_entropy_by_hand, "logits: (n,c), target: (n) integer(0,c)", {}),
    "shrunk_at_masks": (shrunk_at_masks, "x: (n,d)", {}),
    "fused_linear_jsd": (fused_linear_jsd, "x: (n,d), w: (c,d), y: (n,c)", {}),
    "dpo_loss": (dpo_loss, "chosen: (n), rejected: (n)", {}),
    "soft_routing": (soft_routing, "x: (n,d), router: (d,e), experts: (e,d,f)", {}),
    "routing_to_two": (routing_to_two, "x: (n,d), router: (d,e), experts: (e,d,f)", {"sizes": "e>=2"}),
    "selective_scan": (selective_scan, "u: (l,d), delta: (l,d), a: (d,n), b: (l,n), c: (l,n)", {}),
    "causal_convolution": (causal_convolution, "x: (c,l), w: (c,3)", {}),
    "convolution": (convolution, "x: (b,c,h,w), w: (k,c,3,3), b: (k)", {}),
    "segment_sum": (segment_sum, "x: (n,d), segment: (n) integer(0,3)", {}),
    "segment_softmax": (segment_softmax, "x: (n), segment: (n) integer(0,3)", {}),
    "dequantised_product": (dequantised_product, "x: (n,d), codes: (m,d) integer(0,16), scale: (m)", {}),
    "packed_dequantisation": (packed_dequantisation, "packed: (m,d) integer(0,256), scale: (m)", {}),
    "embedding_bag": (embedding_bag, "indices: (n,k) integer(0,v), table: (v,d)", {}),
    "straight_through": (straight_through, "x: (n)", {}),
    "scaled_by_a_constant_maximum": (scaled_by_a_constant_maximum, "x: (n)", {}),
    "mlp": (Mlp(), "x: (n,3)", {}),
    "tree": (tree, "w: (d,e), b: (e), x: (n,d), y: (n,e)", {"arguments": ({"w": "w", "b": "b"}, ["x", "y"])}),
    "grouped_query_attention": (
        grouped_query_attention,
        "q: (h,n,d), k: (g,m,d), v: (g,m,e)",
        {"sizes": "h = 2*g, g >= 1, d >= 1"},
    ),
    "windowed_attention_with_alibi": (windowed_attention_with_alibi, "q: (n,d), k: (n,d), v: (n,e)", {}),
    "low_rank_adapted": (low_rank_adapted, "x: (n,d), w: (k,d), a: (r,d), b: (k,r)", {}),
    "squared_relu": (squared_relu, "x: (n,d)", {}),
    "focal_loss": (focal_loss, "logits: (n,c), target: (n) integer(0,c)", {}),
    "contrastive_loss": (contrastive_loss, "a: (n,d), b: (n,d)", {"sizes": "n >= 1, d >= 1"}),
    "batch_norm": (batch_norm, "x: (n,c,l), w: (c), b: (c)", {"sizes": "n >= 2, l >= 1"}),
    "gated_recurrence": (gated_recurrence, "x: (l,d), gate: (l,d)", {}),
    "upsampling": (upsampling, "x: (b,c,l), w: (c,k,4)", {}),
    "mean_pooling": (mean_pooling, "x: (b,n,d), mask: (b,n) boolean", {}),
}
