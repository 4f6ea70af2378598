"""attn in PyTorch, with every way of giving it a derivative: the code that is judged. Imports torch, never JAX.

`attn_native_implicit` is `torch.ops.gradparity.attn_implicit`, `attn_native` is `torch.ops.gradparity.attn`. Touching
either name compiles (once) and loads both, see `torch_impl.native.build.load`; importing this package does not.
"""

from typing import TYPE_CHECKING

from torch_impl import nn as nn
from torch_impl._attn_composite import attn_composite as attn_composite
from torch_impl._attn_function import ATTN_FUNCTION_LIMITS as ATTN_FUNCTION_LIMITS
from torch_impl._attn_function import attn_function as attn_function
from torch_impl._dot_product_attention import dot_product_attention as dot_product_attention

if TYPE_CHECKING:
    from torch._ops import OpOverloadPacket

    attn_native: OpOverloadPacket
    """attn as `torch.ops.gradparity.attn`: with formulas of its own in derivatives.yaml."""

    attn_native_implicit: OpOverloadPacket
    """attn as `torch.ops.gradparity.attn_implicit`: autograd differentiates the operators that it calls."""

_NATIVE = {"attn_native": "attn", "attn_native_implicit": "attn_implicit"}


def __getattr__(name: str) -> object:
    if name not in _NATIVE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import torch

    from torch_impl.native.build import load

    load()
    return getattr(torch.ops.gradparity, _NATIVE[name])


def __dir__() -> list[str]:
    return [*globals(), *_NATIVE]
