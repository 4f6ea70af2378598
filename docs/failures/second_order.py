# gradparity check second_order.py --quick --only vjp_of_vjp
import jax.numpy as jnp
import torch

from gradparity import OpSpec

spec = OpSpec("gauss", primal=lambda x: jnp.exp(-x * x), signature="(n,m)->(n,m)")


class Gauss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.exp(-x * x)
        slope = -2 * x * y
        ctx.save_for_backward(slope)  # wrong: a saved intermediate is a constant to autograd
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (slope,) = ctx.saved_tensors
        return slope * y_bar


candidate = Gauss.apply
