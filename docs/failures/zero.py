# gradparity check zero.py --quick --only points
import jax.numpy as jnp
import torch

from gradparity import OpSpec

spec = OpSpec("sinc", primal=jnp.sinc, signature="(n)->(n)")


class Sinc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.sinc(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        x, y = ctx.saved_tensors
        return y_bar * (torch.cos(torch.pi * x) - y) / x  # wrong: 0 / 0 at x = 0


candidate = Sinc.apply
