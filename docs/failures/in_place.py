# gradparity check in_place.py --quick --only purity
import jax.numpy as jnp
import torch

from gradparity import OpSpec

spec = OpSpec("tanh", primal=jnp.tanh, signature="(n)->(n)", input_names=("x",))


class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return y_bar.mul_(1 - y * y)  # wrong: y_bar belongs to autograd


candidate = Tanh.apply
