"""liger-kernel: RMSNorm as a Triton kernel, here in Triton's interpreter."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import jax.numpy as jnp
from liger_kernel.ops import LigerRMSNormFunction

from gradparity import OpSpec


def norm(x, w):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w


spec = OpSpec("rms_norm", norm, "(n,d),(d)->(n,d)", sizes="n >= 1, d >= 1", dtypes=["float32", "bfloat16"])


def candidate(x, w):
    return LigerRMSNormFunction.apply(x, w, 1e-6)
