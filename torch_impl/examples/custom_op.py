"""A third-party library, outside of PyTorch, as an operator: torch.compile and torch.export see it as one node."""

import math

import scipy.special
import torch
from torch import Tensor


@torch.library.custom_op("gradparity_examples_scipy::phi", mutates_args=())
def phi_integral(x: Tensor) -> Tensor:
    """Φ, by SciPy."""
    return torch.from_numpy(scipy.special.ndtr(x.numpy(force=True), order="C")).to(x)


@phi_integral.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)  # the shape and dtype, for who traces


def _setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _backward(ctx, y_bar: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return y_bar * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


phi_integral.register_autograd(_backward, setup_context=_setup_context)
phi_integral.register_vmap(lambda info, in_dims, x: (phi_integral(x), in_dims[0]))


def gelu(x: Tensor) -> Tensor:
    """x Φ(x), for x of any shape, in float64 or float32.

    Not in forward mode: `register_autograd` takes no JVP, and PyTorch then silently drops the tangent of an input that
    does not require grad.
    """
    return x * phi_integral(x)
