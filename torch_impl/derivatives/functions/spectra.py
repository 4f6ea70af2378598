"""Derivatives of singular values, eigenvalues and the matrix exponential.

Gradients are for the real inner product Re tr(Ḡᴴ dA). Vectors of a complex matrix are defined up to a phase; what the
cotangents say of it must cancel.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual


def _differences(x: Tensor) -> Tensor:
    """x_j - x_i, and one on the diagonal, where nothing is divided."""
    found = x.unsqueeze(-2) - x.unsqueeze(-1)
    return found + torch.eye(x.shape[-1], dtype=found.dtype)


def _without_diagonal(x: Tensor) -> Tensor:
    return x - torch.diag_embed(x.diagonal(dim1=-2, dim2=-1))


def _imaginary_diagonal(x: Tensor) -> Tensor:
    return 1j * x.diagonal(dim1=-2, dim2=-1).imag


@manual
def svd_backward(
    u_bar: Tensor | None, s_bar: Tensor | None, vh_bar: Tensor | None, u: Tensor, s: Tensor, vh: Tensor
) -> Tensor | None:
    """svd_backward: Uᴴ dA V gives dS on its diagonal, and off it turns U and V into each other's directions."""
    if u_bar is None and s_bar is None and vh_bar is None:
        return None
    inner = torch.zeros([*s.shape, s.shape[-1]], dtype=u.dtype)
    if s_bar is not None:
        inner = inner + torch.diag_embed(s_bar)
    gaps = _differences(s * s)
    if u_bar is not None:
        turn = u.mH @ u_bar
        inner = inner + (turn - turn.mH) * s.unsqueeze(-2) / gaps * _off(s)
        if u.is_complex():
            inner = inner + torch.diag_embed(_imaginary_diagonal(turn) / s)
    if vh_bar is not None:
        turn = vh @ vh_bar.mH
        inner = inner + s.unsqueeze(-1) * (turn - turn.mH) / gaps * _off(s)
        if u.is_complex() and u_bar is None:
            inner = inner - torch.diag_embed(_imaginary_diagonal(turn) / s)
    found = u @ inner @ vh
    if u_bar is not None and u.shape[-2] > u.shape[-1]:
        scaled = u_bar / s.unsqueeze(-2)
        found = found + (scaled - u @ (u.mH @ scaled)) @ vh
    if vh_bar is not None and vh.shape[-1] > vh.shape[-2]:
        scaled = vh_bar / s.unsqueeze(-1)
        found = found + u @ (scaled - (scaled @ vh.mH) @ vh)
    return found


def _off(s: Tensor) -> Tensor:
    return 1 - torch.eye(s.shape[-1], dtype=s.dtype)


@manual
def linalg_svd_jvp(
    a_dot: Tensor, u: Tensor, s: Tensor, vh: Tensor, full_matrices: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """linalg_svd_jvp: see `svd_backward`; the phase that is free is shared between U and V."""
    k = s.shape[-1]
    wide_u, wide_vh = u, vh
    u, vh = u[..., :, :k], vh[..., :k, :]
    inner = u.mH @ a_dot @ vh.mH
    diagonal = inner.diagonal(dim1=-2, dim2=-1)
    s_dot = diagonal.real if diagonal.is_complex() else diagonal
    right, left = inner * s.unsqueeze(-2), s.unsqueeze(-1) * inner
    gaps = _differences(s * s)
    turn_u, turn_v = (right + right.mH) / gaps * _off(s), (left + left.mH) / gaps * _off(s)
    if u.is_complex():
        phase = torch.diag_embed(_imaginary_diagonal(inner) / (2 * s))
        turn_u, turn_v = turn_u + phase, turn_v - phase
    u_dot, vh_dot = u @ turn_u, turn_v.mH @ vh
    if u.shape[-2] > k:
        scaled = (a_dot @ vh.mH) / s.unsqueeze(-2)
        u_dot = u_dot + scaled - u @ (u.mH @ scaled)
    if vh.shape[-1] > k:
        scaled = (u.mH @ a_dot) / s.unsqueeze(-1)
        vh_dot = vh_dot + scaled - (scaled @ vh.mH) @ vh
    if full_matrices:
        u_dot = torch.cat([u_dot, torch.zeros_like(wide_u[..., :, k:])], -1)
        vh_dot = torch.cat([vh_dot, torch.zeros_like(wide_vh[..., k:, :])], -2)
    return u_dot, s_dot, vh_dot


@manual
def linalg_eig_backward(
    l_bar: Tensor | None,
    v_bar: Tensor | None,
    values: Tensor,
    v: Tensor,
    is_hermitian: bool,
) -> Tensor | None:
    """linalg_eig_backward: V⁻¹ dA V has dL on its diagonal, and over the gaps off it turns V."""
    if l_bar is None and v_bar is None:
        return None
    inner = torch.zeros_like(v) if l_bar is None else torch.diag_embed(l_bar).to(v.dtype)
    if v_bar is not None:
        turn = v.mH @ v_bar
        gaps = _differences(values)
        if is_hermitian:
            inner = inner + _without_diagonal((turn - turn.mH) / 2 / gaps)
        else:
            # The vectors keep the length one
            real = torch.diag_embed(turn.diagonal(dim1=-2, dim2=-1).real).to(v.dtype)
            inner = inner + _without_diagonal((turn - (v.mH @ v) @ real) / gaps.conj())
    if is_hermitian:
        return v @ inner @ v.mH
    return torch.linalg.solve(v.mH, inner @ v.mH)


@manual
def linalg_eig_jvp(a_dot: Tensor, values: Tensor, v: Tensor, is_hermitian: bool) -> tuple[Tensor, Tensor]:
    """linalg_eig_jvp: see `linalg_eig_backward`."""
    a_dot = a_dot.to(v.dtype)
    inner = v.mH @ a_dot @ v if is_hermitian else torch.linalg.solve(v, a_dot @ v)
    diagonal = inner.diagonal(dim1=-2, dim2=-1)
    l_dot = diagonal.real if is_hermitian and diagonal.is_complex() else diagonal
    v_dot = v @ _without_diagonal(inner / _differences(values))
    if not is_hermitian:
        v_dot = v_dot - v * (v.conj() * v_dot).sum(-2, keepdim=True).real
    return l_dot, v_dot


@manual
def linalg_matrix_exp_differential(self: Tensor, direction: Tensor, adjoint: bool) -> Tensor:
    """linalg_matrix_exp_differential: exp of [[A, E], [0, A]] has the derivative at A along E at its top right."""
    a = self.mH if adjoint else self
    n = a.shape[-1]
    top = torch.cat([a, direction], -1)
    bottom = torch.cat([torch.zeros_like(a), a], -1)
    return torch.linalg.matrix_exp(torch.cat([top, bottom], -2))[..., :n, n:]
