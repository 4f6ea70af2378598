"""liger-kernel: gelu(a) b, gelu by its approximation with tanh, as a Triton kernel, here in Triton's interpreter."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import jax
from liger_kernel.ops import LigerGELUMulFunction

from gradparity import OpSpec

spec = OpSpec("gelu_mul", lambda a, b: jax.nn.gelu(a, approximate=True) * b, "(n,d),(n,d)->(n,d)", sizes="n >= 1, d >= 1", dtypes=["float32", "bfloat16"])


def candidate(a, b):
    return LigerGELUMulFunction.apply(a, b)
