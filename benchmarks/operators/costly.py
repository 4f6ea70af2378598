"""Three operators whose judgment takes longest: a loop, a convolution of groups, and a candidate in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch.nn import functional

import jax_ref
from benchmarks.operators._case import Case, case
from gradparity import JaxCandidate

STEPS = 40


def up_to_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of a magnitude of 1 at most."""
    return rng.uniform(-1, 1, shape)


def _contraction(z: Any, w: Any, x: Any) -> Any:
    """w z / 4 n + x, which shrinks distances to a quarter at least where |w| <= 1."""
    return w @ z * (0.25 / max(len(x), 1)) + x


def _fixed_point(w: jax.Array, x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, STEPS, lambda _, z: jnp.tanh(_contraction(z, w, x)), x)


class ImplicitLayer(torch.autograd.Function):
    """The fixed point of z = tanh(w z / 4 n + x); its derivatives know no step of forward, only where they led."""

    generate_vmap_rule = True

    @staticmethod
    def forward(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Go 40 steps, which leave 4 ** -40 of the distance."""
        z = x
        for _ in range(STEPS):
            z = torch.tanh(_contraction(z, w, x))
        return z

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        """Keep the fixed point."""
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, z_bar: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Find the fixed point of u = (1 - z²) (wᵀ u / 4 n + z_bar), by the implicit function theorem."""
        w, z = ctx.saved_tensors
        slope = 1 - z * z
        u = slope * z_bar
        for _ in range(STEPS):
            u = slope * _contraction(u, w.T, z_bar)
        return torch.outer(u, z) * (0.25 / max(len(z), 1)), u

    @staticmethod
    def jvp(ctx: Any, w_dot: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
        """Find the fixed point of z_dot = (1 - z²) (w z_dot / 4 n + w_dot z / 4 n + x_dot), by the same theorem."""
        w, z = ctx.saved_tensors
        slope, source = 1 - z * z, _contraction(z, w_dot, x_dot)
        z_dot = slope * source
        for _ in range(STEPS):
            z_dot = slope * _contraction(z_dot, w, source)
        return z_dot


COSTLY: dict[str, Case] = {
    each.spec.name: each
    for each in (
        case(
            "implicit layer of 40 steps",
            _fixed_point,
            ImplicitLayer.apply,
            "(n,n),(n)->(n)",
            input_names=("w", "x"),
            output_names=("z",),
            domains={"w": up_to_one},
        ),
        case(
            "depthwise convolution with stride",
            lambda x, w: lax.conv_general_dilated(x, w, (2, 2), [(1, 1), (1, 1)], feature_group_count=x.shape[1]),
            lambda x, w: functional.conv2d(x, w, stride=2, padding=1, groups=x.shape[1]),
            "(b,c,7,7),(c,1,3,3)->(b,c,4,4)",
            input_names=("x", "w"),
        ),
        case(
            "attn, a custom_vjp in JAX",
            jax_ref.attn_primal,
            JaxCandidate(jax_ref.attn),
            "(n,d),(m,d),(m,e)->(n,e),(n,m)",
            vjp=jax_ref.attn_vjp,
            input_names=("q", "k", "v"),
            output_names=("output", "attn"),
        ),
    )
}
