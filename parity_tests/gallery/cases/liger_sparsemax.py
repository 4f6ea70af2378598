"""liger-kernel: sparsemax as a Triton kernel, here in Triton's interpreter."""

import os

os.environ["TRITON_INTERPRET"] = "1"

from entmax_sparsemax import projection
from liger_kernel.ops import LigerSparsemaxFunction

from gradparity import OpSpec

spec = OpSpec("sparsemax", projection, "(n,d)->(n,d)", sizes="n >= 1, d >= 1", dtypes=["float32", "bfloat16"])


def candidate(x):
    return LigerSparsemaxFunction.apply(x, -1)
