# gradparity check batch.py --quick --only vmap
import torch

from gradparity import OpSpec

spec = OpSpec("product", primal=lambda x, y: x * y * y, signature="(n),(n)->(n)")


class Product(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, z_bar):
        x, y = ctx.saved_tensors
        return y * y * z_bar, 2 * x * y * z_bar

    @staticmethod
    def vmap(info, in_dims, x, y):
        return Product.apply(x, y), 0  # wrong: the batch may be at another axis, or in one input


candidate = Product.apply
