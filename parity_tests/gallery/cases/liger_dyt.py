"""liger-kernel: the dynamic tanh as a Triton kernel, here in Triton's interpreter."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import jax.numpy as jnp
from liger_kernel.ops import LigerDyTFunction

from gradparity import OpSpec


def dyt(x, alpha, gamma, beta):
    """gamma tanh(alpha x) + beta: J. Zhu et al., arXiv:2503.10622."""
    return gamma * jnp.tanh(alpha[0] * x) + beta


spec = OpSpec("dyt", dyt, "(n,d),(1),(d),(d)->(n,d)", sizes="n >= 1, d >= 1", dtypes=["float32", "bfloat16"])


def candidate(x, alpha, gamma, beta):
    return LigerDyTFunction.apply(x, alpha, gamma, beta)
