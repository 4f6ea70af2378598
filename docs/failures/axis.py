# gradparity check axis.py --quick --only vjp
import torch

from gradparity import OpSpec

spec = OpSpec("center", primal=lambda x: x - x.mean(1, keepdims=True), signature="(n,m)->(n,m)")


class Center(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x - x.mean(1, keepdim=True)

    @staticmethod
    def backward(ctx, y_bar):
        return y_bar - y_bar.mean(0, keepdim=True)  # wrong: the mean is over axis 1


candidate = Center.apply
