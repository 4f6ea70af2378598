"""memcnn: an additive coupling, whose Function computes its input again from its output."""

import warnings

import jax.numpy as jnp
import torch

from gradparity import OpSpec

with warnings.catch_warnings():  # it decorates by torch.cuda.amp, which PyTorch has renamed
    warnings.simplefilter("ignore")
    import memcnn


class Tanh(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)


def block(x):
    """y1 = x1 + f(x2), y2 = x2 + g(y1): A. Gomez et al., arXiv:1707.04585."""
    a, b = jnp.split(x, 2, axis=1)
    a = a + jnp.tanh(b)
    return jnp.concatenate([a, b + jnp.tanh(a)], axis=1)


spec = OpSpec("additive_coupling", block, "(n,d)->(n,d)", sizes="d % 2 == 0, d >= 2, n >= 1", input_names=("x",))
# With its input kept: by default it frees the memory of its input, as it says.
coupling = memcnn.InvertibleModuleWrapper(
    memcnn.AdditiveCoupling(Tanh(), Tanh()), keep_input=True, keep_input_inverse=True
)


def candidate(x):
    return coupling(x)
