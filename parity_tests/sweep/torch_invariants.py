"""The functions of `invariants.INVARIANTS` in PyTorch: what does not depend on choices that operators leave open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


def _of_eigh(arguments: Mapping[str, Any], values: torch.Tensor, vectors: torch.Tensor) -> Tensors:
    if not vectors.numel():
        return (values,)
    return values, (vectors * values.tanh().unsqueeze(-2)) @ vectors.mH


def _of_eig(arguments: Mapping[str, Any], values: torch.Tensor, vectors: torch.Tensor | None = None) -> Tensors:
    return tuple((values**k).sum(-1) for k in range(1, 4))


def _of_svd(arguments: Mapping[str, Any], U: torch.Tensor, S: torch.Tensor, Vh: torch.Tensor) -> Tensors:
    if not U.numel() or not Vh.numel():
        return (S,)
    k = S.shape[-1]
    return S, (U[..., :, :k] * S.unsqueeze(-2)) @ Vh[..., :k, :]


def _of_qr(arguments: Mapping[str, Any], Q: torch.Tensor, R: torch.Tensor) -> Tensors:
    gram = R.mH @ R
    return (gram, Q @ R) if Q.numel() else (gram,)


TORCH_INVARIANTS: Mapping[str, Callable[..., Tensors]] = {
    "aten::_linalg_eigh": _of_eigh,
    "aten::linalg_eig": _of_eig,
    "aten::linalg_eigvals": _of_eig,
    "aten::_linalg_svd": _of_svd,
    "aten::linalg_qr": _of_qr,
}
