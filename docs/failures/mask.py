# gradparity check mask.py --quick --only vjp
import jax.numpy as jnp
import torch

from gradparity import OpSpec

spec = OpSpec(
    "causal",
    primal=lambda x: jnp.tril(jnp.exp(x)),
    signature="(n,n)->(n,n)",
    sizes="n >= 5",
)


class Causal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        e = torch.exp(x)
        ctx.save_for_backward(e)
        return torch.tril(e)

    @staticmethod
    def backward(ctx, y_bar):
        (e,) = ctx.saved_tensors
        return y_bar * e  # wrong: the mask is forgotten


candidate = Causal.apply
