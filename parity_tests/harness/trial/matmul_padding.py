"""Whether PyTorch's own matrix product reads what lies behind a row: docs/found.md, 40."""

from __future__ import annotations

import functools

import torch


@functools.cache
def matmul_reads_behind_rows() -> bool:
    """True if the product of bfloat16 matrices on this CPU multiplies what lies behind a row by 0.

    So oneDNN does on processors with AMX where a row has an odd number of entries: NaN and infinities in memory that
    is no part of the matrix come through, and finite numbers do not.
    """
    wide = torch.full((32, 34), float("nan"), dtype=torch.bfloat16)
    wide[:, :31] = 1
    return bool((wide[:, :31] @ torch.ones(31, 32, dtype=torch.bfloat16)).isnan().any())
