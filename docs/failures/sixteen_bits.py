# gradparity check sixteen_bits.py --quick --only low_precision
import jax.numpy as jnp
import torch

from gradparity import OpSpec

spec = OpSpec(
    "scores",
    primal=lambda q, k: jnp.tanh(q @ k.T),
    signature="(n,d),(m,d)->(n,m)",
    sizes="n % 16 == 0, m % 16 == 0, d = 64",
    dtypes=["bfloat16"],
)


class Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k):
        y = torch.tanh(q.float() @ k.float().T)
        ctx.save_for_backward(q, k, y)
        return y.to(q.dtype)

    @staticmethod
    def backward(ctx, y_bar):
        q, k, y = ctx.saved_tensors
        p = y_bar.float() * (1 - y * y)
        return (0.97 * p @ k.float()).to(q.dtype), (p.T @ q.float()).to(k.dtype)  # wrong: 0.97


candidate = Scores.apply
