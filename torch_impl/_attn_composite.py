"""attn in plain PyTorch operations; every derivative is autograd's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from torch_impl._validate import validate

if TYPE_CHECKING:
    from jaxtyping import Inexact
    from torch import Tensor


def attn_composite(
    q: Inexact[Tensor, "n d"], k: Inexact[Tensor, "m d"], v: Inexact[Tensor, "m e"]
) -> tuple[Inexact[Tensor, "n e"], Inexact[Tensor, "n m"]]:
    """output = attn v, attn = tanh(q kᵀ), equations (1) to (3) of derivation/attn.md.

    Args:
        q: queries (n, d), of float64, float32, bfloat16, float16, complex128 or complex64.
        k: keys (m, d), same dtype. v: values (m, e), same dtype. Any size may be 0 or 1; batch axes: `torch.vmap`.

    Returns:
        output (n, e) and attn (n, m), in the dtype of the inputs.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size; see `torch_impl._validate`.
    """
    validate(q, k, v)
    attn = torch.tanh(q @ k.mT)  # (1), (2)
    return attn @ v, attn  # (3)
