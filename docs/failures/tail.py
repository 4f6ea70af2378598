# gradparity check tail.py --quick --only vjp
import torch

from gradparity import OpSpec

spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)", sizes="n >= 5, m >= 6")


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, y_bar):
        (x,) = ctx.saved_tensors
        x_bar = torch.zeros_like(x)
        whole = x.shape[1] // 4 * 4  # wrong: a tail of fewer than 4 columns is left out
        x_bar[:, :whole] = (2 * x * y_bar)[:, :whole]
        return x_bar


candidate = Square.apply
