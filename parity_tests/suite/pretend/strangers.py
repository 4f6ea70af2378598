"""A case for the device "pretend": y = x tanh(w), right, and as people get it wrong on a device."""

import ctypes

import jax.numpy as jnp
import torch

from parity_tests import JaxCandidate, OpSpec

spec = OpSpec("product", primal=lambda x, w: x * jnp.tanh(w), signature="(n),(n)->(n)", input_names=("x", "w"))


def with_backward(backward):
    """The operator with this function (x, w, y_bar) -> x_bar, w_bar for its backward."""
    backward_ = backward

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(x, w):
            return x * torch.tanh(w)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, y_bar):
            return backward_(*ctx.saved_tensors, y_bar)

    return Product.apply


def right(x, w, y_bar):
    return y_bar * torch.tanh(w), y_bar * x * (1 - torch.tanh(w) ** 2)


def wrong(x, w, y_bar):
    return y_bar * torch.tanh(w), y_bar * x * (1 - torch.tanh(w))


def over_the_cpu(x, w, y_bar):
    x_bar, w_bar = right(x, w.cpu().to(w.device), y_bar)
    return x_bar, w_bar


def reads_on_the_host(x, w, y_bar):
    ctypes.string_at(y_bar.data_ptr(), y_bar.nbytes)
    return right(x, w, y_bar)


def by_numpy(x, w, y_bar):
    return right(x, torch.from_numpy(w.detach().numpy()), y_bar)


def mixes_devices(x, w, y_bar):
    return right(x, w, y_bar * torch.ones(y_bar.shape, dtype=y_bar.dtype))


kept = []


def keeps_memory(x, w, y_bar):
    kept.append((y_bar * 1).untyped_storage())  # which is no tensor
    return right(x, w, y_bar)


BACKWARDS = (right, wrong, over_the_cpu, reads_on_the_host, by_numpy, mixes_devices, keeps_memory)
candidates = {backward.__name__: with_backward(backward) for backward in BACKWARDS}
candidates["in_jax"] = JaxCandidate(lambda x, w: x * jnp.tanh(w))
