"""Cotangents of eigenvectors and singular vectors that say nothing of their phases, which are not defined."""

from __future__ import annotations

from typing import Any

import torch

from torch_impl.derivatives import Entry


def free_of_phases(entry: Entry, outputs: list[Any], bars: list[Any]) -> list[Any]:
    """The cotangents without what would turn a vector's phase; PyTorch refuses others, if the vectors are complex."""
    if entry.name in ("linalg_eig", "_linalg_eigh"):
        return [bars[0], _without_turns(outputs[1], bars[1])]
    if entry.name == "_linalg_svd" and bars[0] is not None and outputs[0].is_complex():
        u, s, vh = outputs
        k = s.shape[-1]
        turns = _turns(u[..., :, :k], bars[0][..., :, :k]) + _turns(vh.mH[..., :, :k], bars[2].mH[..., :, :k])
        first = bars[0][..., :, :k] - u[..., :, :k] * (1j * turns).unsqueeze(-2)
        return [torch.cat([first, bars[0][..., :, k:]], -1).detach(), *bars[1:]]
    return bars


def _turns(vectors: torch.Tensor, bar: torch.Tensor) -> torch.Tensor:
    return (vectors.conj() * bar).sum(-2).imag


def _without_turns(vectors: torch.Tensor, bar: torch.Tensor | None) -> torch.Tensor | None:
    if bar is None or not bar.is_complex():
        return bar
    return (bar - vectors * (1j * _turns(vectors, bar)).unsqueeze(-2)).detach()
