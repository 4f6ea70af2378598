# gradparity check term.py --quick --only vjp
import jax
import torch

from gradparity import OpSpec

spec = OpSpec("softmax", primal=jax.nn.softmax, signature="(n,m)->(n,m)")


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, y_bar):
        (y,) = ctx.saved_tensors
        return y * y_bar  # wrong: minus y times the sum of y * y_bar


candidate = Softmax.apply
