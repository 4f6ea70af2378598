"""Mistakes to plant in the backward of attn, for PyTorch and JAX alike, and the two frameworks' ways to hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

Mask = Callable[[tuple[int, ...]], np.ndarray]


def _right_D(A: Any) -> Any:
    return 1 - A * A  # (4)


def _as_it_is(x: Any) -> Any:
    return x


def _masked(index: Callable[[int, int], Any], factor: float) -> Mask:
    """`factor` at the index, which depends on the two sizes, 1 elsewhere."""

    def mask(shape: tuple[int, ...]) -> np.ndarray:
        x = np.ones(shape)
        x[index(*shape)] = factor
        return x

    return mask


@dataclass(frozen=True)
class Fault:
    """A planted fault of a backward: in D, in the cotangent of attn, or a factor on a result or on A in (12)."""

    name: str
    D: Callable[[Any], Any] = _right_D
    attn_bar: Callable[[Any], Any] = _as_it_is
    factors: Mapping[str, Mask] = field(default_factory=dict)  # of q_bar, k_bar, v_bar, or A in v_bar

    def backward(self, convert: Callable[[np.ndarray], Any], *args: Any) -> tuple[Any, Any, Any]:
        """q_bar, k_bar, v_bar at (q, k, v, A, output_bar, attn_bar), of tensors or JAX arrays.

        One line for both, since what is planted must be the same in both, and nothing here judges or is judged: the
        judges know nothing of it.
        """
        q, k, v, A, output_bar, attn_bar = args

        def times(name: str, x: Any) -> Any:
            return x * convert(self.factors[name](tuple(x.shape))) if name in self.factors else x

        P = self.D(A) * (self.attn_bar(attn_bar) + output_bar @ v.T)  # (8), (9)
        v_bar = times("A", A).T @ output_bar  # (12)
        return times("q_bar", P @ k), times("k_bar", P.T @ q), times("v_bar", v_bar)  # (10), (11)


NONE = Fault("none")
FAULTS = (
    Fault("one entry of k_bar 1.5 times too large", factors={"k_bar": _masked(lambda m, d: (m // 2, d // 2), 1.5)}),
    Fault("one row of q_bar zero", factors={"q_bar": _masked(lambda n, d: n // 2, 0.0)}),
    Fault(
        "one tile of k_bar doubled",
        factors={"k_bar": _masked(lambda m, d: np.s_[m // 2 : m // 2 + max(1, m // 8), : d // 2], 2.0)},
    ),
    Fault("a factor 2 is missing in q_bar", factors={"q_bar": _masked(lambda n, d: np.s_[:], 0.5)}),
    Fault("D = 1 - A, a factor 1 + A is missing", D=lambda A: 1 - A),
    Fault("D = 0 near saturation, for |A| > 0.9", D=lambda A: _right_D(A) * (abs(A) < 0.9)),
    Fault("D rounded to 20 bits", D=lambda A: (_right_D(A) * 2**20).round() / 2**20),
    Fault("the last query is left out of v_bar", factors={"A": _masked(lambda n, m: n - 1, 0.0)}),
    Fault("attn's cotangent is ignored", attn_bar=lambda x: 0 * x),
    Fault("attn's cotangent is transposed", attn_bar=lambda x: x.T),
    Fault("one column of k_bar has the wrong sign", factors={"k_bar": _masked(lambda m, d: np.s_[:, 0], -1.0)}),
    Fault("v_bar 0.1 % too large", factors={"v_bar": _masked(lambda m, e: np.s_[:], 1.001)}),
)


def in_torch(fault: Fault) -> Callable:
    """attn as an autograd.Function with this fault."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            attn = torch.tanh(q @ k.T)
            ctx.save_for_backward(q, k, v, attn)
            return attn @ v, attn

        @staticmethod
        def backward(ctx, *bars):
            device = bars[0].device
            return fault.backward(lambda mask: torch.from_numpy(mask).to(device), *ctx.saved_tensors, *bars)

    return Planted.apply


def in_jax(fault: Fault) -> Callable:
    """attn as a jax.custom_vjp with this fault."""

    @jax.custom_vjp
    def planted(q, k, v):
        attn = jnp.tanh(q @ k.T)
        return attn @ v, attn

    def forward(q, k, v):
        output, attn = planted(q, k, v)
        return (output, attn), (q, k, v, attn)

    def backward(residuals, bars):
        return fault.backward(jnp.asarray, *residuals, *bars)

    planted.defvjp(forward, backward)
    return planted
