"""reformer-pytorch: a reversible block, whose Function computes its input again from its output."""

import jax.numpy as jnp
import torch
from reformer_pytorch.reversible import ReversibleSequence

from gradparity import OpSpec


class Tanh(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)


def block(x):
    """y1 = x1 + f(x2), y2 = x2 + g(y1): A. Gomez et al., arXiv:1707.04585; twice."""
    a, b = jnp.split(x, 2, axis=2)
    for _ in range(2):
        a = a + jnp.tanh(b)
        b = b + jnp.tanh(a)
    return jnp.concatenate([a, b], axis=2)


spec = OpSpec("reversible", block, "(b,n,d)->(b,n,d)", sizes="d % 2 == 0, d >= 2", input_names=("x",))
sequence = ReversibleSequence(torch.nn.ModuleList([torch.nn.ModuleList([Tanh(), Tanh()]) for _ in range(2)]))


def candidate(x):
    return sequence(x, arg_route=(False, False))
