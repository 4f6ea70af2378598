"""liger-kernel: silu(a) b, as a Triton kernel, here in Triton's interpreter."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import jax
from liger_kernel.ops import LigerSiLUMulFunction

from gradparity import OpSpec

spec = OpSpec("silu_mul", lambda a, b: jax.nn.silu(a) * b, "(n,d),(n,d)->(n,d)", sizes="n >= 1, d >= 1", dtypes=["float32", "bfloat16"])


def candidate(a, b):
    return LigerSiLUMulFunction.apply(a, b)
