"""Raw pointers: a C++ kernel with its formula in derivatives.yaml, built at first use like the operators of attn."""

from pathlib import Path

import torch
from torch import Tensor

from torch_impl.native.build import load


def gelu(x: Tensor) -> Tensor:
    """x Φ(x), for x of any shape, in float64 or float32, on the CPU.

    Raises:
        ToolchainMissing: it is not compiled yet, and there is no compiler.
    """
    load(Path(__file__).parent)
    return torch.ops.gradparity_examples.gelu(x)
