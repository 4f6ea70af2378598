# gradparity check factor.py --quick --only vjp
import jax.numpy as jnp
import torch

from gradparity import OpSpec

spec = OpSpec(
    "scores",
    primal=lambda q, k: q @ k.T / jnp.sqrt(q.shape[1]),
    signature="(n,d),(m,d)->(n,m)",
)


class Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k):
        ctx.save_for_backward(q, k)
        return q @ k.T / q.shape[1] ** 0.5

    @staticmethod
    def backward(ctx, y_bar):
        q, k = ctx.saved_tensors
        return y_bar @ k / q.shape[1] ** 0.5, y_bar.T @ q  # wrong: the second one is not divided


candidate = Scores.apply
