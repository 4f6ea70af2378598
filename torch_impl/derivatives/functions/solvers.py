"""Derivatives of linear systems: their solutions, inverses, pseudo-inverses, least squares and determinants."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.cumulative import others
from torch_impl.derivatives.functions.factorizations import solve_triangular

Pair = tuple[Tensor | None, Tensor | None]


def _triangle(x: Tensor, upper: bool, unit: bool) -> Tensor:
    """The entries that a triangular solver reads."""
    return x.triu(int(unit)) if upper else x.tril(-int(unit))


@manual
def cholesky_inverse_backward(bar: Tensor, factor: Tensor, upper: bool, inverse: Tensor) -> Tensor:
    """cholesky_inverse_backward: X = (L Lᴴ)⁻¹ has dX = -X (dL Lᴴ + L dLᴴ) X."""
    inner = -(inverse @ (bar + bar.mH) @ inverse)
    return factor @ inner if upper else inner @ factor


@manual
def cholesky_inverse_jvp(factor: Tensor, factor_dot: Tensor, inverse: Tensor, upper: bool) -> Tensor:
    """cholesky_inverse_jvp."""
    half = factor_dot.mH @ factor if upper else factor_dot @ factor.mH
    return -(inverse @ (half + half.mH) @ inverse)


@manual
def cholesky_solve_backward(
    bar: Tensor | None, self: Tensor, factor: Tensor, result: Tensor, upper: bool, mask: Sequence[bool]
) -> Pair:
    """cholesky_solve_backward: of X = A⁻¹B with A = L Lᴴ."""
    if bar is None:
        return None, None
    b_bar = torch.cholesky_solve(bar, factor, upper)
    a_bar = -(b_bar @ result.mH)
    a_bar = a_bar + a_bar.mH
    return b_bar if mask[0] else None, (factor @ a_bar if upper else a_bar @ factor) if mask[1] else None


@manual
def cholesky_solve_jvp(x: Tensor, factor: Tensor, factor_dot: Tensor, b_dot: Tensor, upper: bool) -> Tensor:
    """cholesky_solve_jvp: dX = A⁻¹(dB - dA X)."""
    half = factor_dot.mH @ factor if upper else factor_dot @ factor.mH
    return torch.cholesky_solve(b_dot - (half + half.mH) @ x, factor, upper)


@manual
def triangular_solve_backward(
    x_bar: Tensor | None,
    clone_bar: Tensor | None,
    b: Tensor,
    a: Tensor,
    x: Tensor,
    upper: bool,
    transpose: bool,
    unit: bool,
    mask: Sequence[bool],
) -> Pair:
    """triangular_solve_backward: of A X = B or Aᵀ X = B, and of the copy of A that comes along."""
    if x_bar is None:
        return None, clone_bar
    system = a.mT if transpose else a
    b_bar = solve_triangular(system.mH, x_bar, upper=upper is transpose, unit=unit)
    of_system = -(b_bar @ x.mH)
    a_bar = _triangle(of_system.mT if transpose else of_system, upper, unit)
    return b_bar if mask[0] else None, a_bar if clone_bar is None else a_bar + clone_bar


@manual
def triangular_solve_jvp(
    x: Tensor, a: Tensor, a_dot: Tensor, b_dot: Tensor, upper: bool, transpose: bool, unit: bool
) -> Tensor:
    """triangular_solve_jvp: dX = A⁻¹(dB - dA X)."""
    a_dot = _triangle(a_dot, upper, unit)
    system, system_dot = (a.mT, a_dot.mT) if transpose else (a, a_dot)
    return solve_triangular(system, b_dot - system_dot @ x, upper=upper is not transpose, unit=unit)


@manual
def linalg_solve_triangular_backward(
    bar: Tensor | None, a: Tensor, x: Tensor, upper: bool, left: bool, unit: bool, mask: Sequence[bool]
) -> Pair:
    """linalg_solve_triangular_backward: of A X = B, or X A = B where not left."""
    if bar is None:
        return None, None
    b_bar = solve_triangular(a.mH, bar, not upper, left, unit)
    a_bar = _triangle(-(b_bar @ x.mH if left else x.mH @ b_bar), upper, unit)
    return a_bar if mask[0] else None, b_bar if mask[1] else None


@manual
def linalg_solve_triangular_forward_AD(
    a_dot: Tensor, b_dot: Tensor, a: Tensor, x: Tensor, upper: bool, left: bool, unit: bool
) -> Tensor:
    """linalg_solve_triangular_forward_AD: dX = A⁻¹(dB - dA X)."""
    a_dot = _triangle(a_dot, upper, unit)
    return solve_triangular(a, b_dot - (a_dot @ x if left else x @ a_dot), upper, left, unit)


def _columns(a: Tensor, b: Tensor) -> bool:
    """Whether a right-hand side is a vector, or a batch of vectors, rather than of matrices."""
    return b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])


@manual
def linalg_solve_backward(
    bar: Tensor | None, x: Tensor, a: Tensor, lu: Tensor, pivots: Tensor, left: bool, b_wanted: bool
) -> Pair:
    """linalg_solve_backward: of A X = B, or X A = B where not left."""
    if bar is None:
        return None, None
    vector = _columns(a, x)
    lifted, lifted_x = (bar.unsqueeze(-1), x.unsqueeze(-1)) if vector else (bar, x)
    b_bar = torch.linalg.solve(a.mH, lifted, left=left)
    a_bar = -(b_bar @ lifted_x.mH) if left else -(lifted_x.mH @ b_bar)
    return a_bar, (b_bar.squeeze(-1) if vector else b_bar) if b_wanted else None


@manual
def linalg_solve_jvp(a_dot: Tensor, b_dot: Tensor, x: Tensor, lu: Tensor, pivots: Tensor, left: bool) -> Tensor:
    """linalg_solve_jvp: dX = A⁻¹(dB - dA X)."""
    vector = _columns(a_dot, x)
    lifted, lifted_dot = (x.unsqueeze(-1), b_dot.unsqueeze(-1)) if vector else (x, b_dot)
    right = lifted_dot - (a_dot @ lifted if left else lifted @ a_dot)
    found = torch.linalg.lu_solve(lu, pivots, right, left=left)
    return found.squeeze(-1) if vector else found


@manual
def linalg_lu_solve_LU(bar: Tensor, lu: Tensor, pivots: Tensor, x: Tensor, left: bool, adjoint: bool) -> Tensor:
    """linalg_lu_solve_LU: the gradient of A = P L U, parted into those of L and U."""
    b_bar = torch.linalg.lu_solve(lu, pivots, bar, left=left, adjoint=not adjoint)
    first, second = (x, b_bar.mH) if adjoint else (b_bar, x.mH)
    a_bar = -(first @ second if left else second @ first)
    p, lower, upper = torch.lu_unpack(lu, pivots)
    inner = p.mT @ a_bar
    return (inner @ upper.mH).tril(-1) + (lower.mH @ inner).triu()


@manual
def linalg_lu_solve_jvp(
    x: Tensor, lu: Tensor, pivots: Tensor, lu_dot: Tensor, b_dot: Tensor, left: bool, adjoint: bool
) -> Tensor:
    """linalg_lu_solve_jvp: dA = P (dL U + L dU)."""
    p, lower, upper = torch.lu_unpack(lu, pivots)
    a_dot = p @ (lu_dot.tril(-1) @ upper + lower @ lu_dot.triu())
    a_dot = a_dot.mH if adjoint else a_dot
    right = b_dot - (a_dot @ x if left else x @ a_dot)
    return torch.linalg.lu_solve(lu, pivots, right, left=left, adjoint=adjoint)


@manual
def pinv_backward(bar: Tensor, pinv: Tensor, a: Tensor) -> Tensor:
    """pinv_backward: dA⁺ = -A⁺ dA A⁺ + A⁺A⁺ᴴ dAᴴ (I - AA⁺) + (I - A⁺A) dAᴴ A⁺ᴴA⁺, where the rank stays."""
    adjoint = pinv.mH
    left = bar.mH @ pinv @ adjoint
    right = adjoint @ pinv @ bar.mH
    return -(adjoint @ bar @ adjoint) + (left - a @ (pinv @ left)) + (right - (right @ pinv) @ a)


@manual
def pinv_jvp(a: Tensor, pinv: Tensor, a_dot: Tensor) -> Tensor:
    """pinv_jvp: see `pinv_backward`."""
    left = pinv @ pinv.mH @ a_dot.mH
    right = a_dot.mH @ pinv.mH @ pinv
    return -(pinv @ a_dot @ pinv) + (left - left @ a @ pinv) + (right - pinv @ (a @ right))


@manual
def linalg_lstsq_solution_jvp(a: Tensor, b: Tensor, a_dot: Tensor, b_dot: Tensor) -> Tensor:
    """linalg_lstsq_solution_jvp: X = A⁺B."""
    pinv = torch.linalg.pinv(a)
    vector = _columns(a, b)
    b, b_dot = (b.unsqueeze(-1), b_dot.unsqueeze(-1)) if vector else (b, b_dot)
    found = pinv_jvp(a, pinv, a_dot) @ b + pinv @ b_dot
    return found.squeeze(-1) if vector else found


@manual
def linalg_lstsq_residuals_jvp(
    a: Tensor, b: Tensor, a_dot: Tensor, b_dot: Tensor, x: Tensor, residuals: Tensor
) -> Tensor:
    """linalg_lstsq_residuals_jvp: of ‖AX - B‖², which has no slope in X where X is best."""
    if residuals.numel() == 0:
        return torch.zeros_like(residuals)
    off, off_dot = a @ x - b, a_dot @ x - b_dot
    product = off.conj() * off_dot
    return 2 * (product.real if product.is_complex() else product).sum(-2)


@manual
def linalg_lstsq_backward(
    x_bar: Tensor | None,
    residuals_bar: Tensor | None,
    a: Tensor,
    b: Tensor,
    x: Tensor,
    mask: Sequence[bool],
) -> Pair:
    """linalg_lstsq_backward: of the solution A⁺B and of the residuals ‖AX - B‖²."""
    if x_bar is None and residuals_bar is None:
        return None, None
    vector = _columns(a, b)
    rhs, solution = (b.unsqueeze(-1), x.unsqueeze(-1)) if vector else (b, x)
    a_bar, b_bar = torch.zeros_like(a), torch.zeros_like(rhs)
    if x_bar is not None:
        pinv = torch.linalg.pinv(a)
        lifted = x_bar.unsqueeze(-1) if vector else x_bar
        a_bar = a_bar + pinv_backward(lifted @ rhs.mH, pinv, a)
        b_bar = b_bar + pinv.mH @ lifted
    if residuals_bar is not None and residuals_bar.numel():
        pull = 2 * (a @ solution - rhs) * residuals_bar.unsqueeze(-2)
        a_bar, b_bar = a_bar + pull @ solution.mH, b_bar - pull
    return a_bar if mask[0] else None, (b_bar.squeeze(-1) if vector else b_bar) if mask[1] else None


def _cofactors(a: Tensor) -> Tensor:
    """conj(det A) A⁻ᴴ, which is defined where A is singular, too."""
    u, s, vh = torch.linalg.svd(a)
    phase = (torch.linalg.det(u) * torch.linalg.det(vh)).conj()
    return phase[..., None, None] * ((u * others(s, -1).unsqueeze(-2)) @ vh)


@manual
def linalg_det_backward(bar: Tensor | None, det: Tensor, a: Tensor, lu: Tensor, pivots: Tensor) -> Tensor | None:
    """linalg_det_backward: d det A = det A tr(A⁻¹ dA)."""
    return None if bar is None else bar[..., None, None] * _cofactors(a)


@manual
def linalg_det_jvp(a_dot: Tensor, det: Tensor, lu: Tensor, pivots: Tensor, transposed: bool) -> Tensor:
    """linalg_det_jvp: the factors may be those of the transpose."""
    p, lower, upper = torch.lu_unpack(lu, pivots)
    a = p @ lower @ upper
    return (_cofactors(a.mT if transposed else a).conj() * a_dot).sum([-2, -1])


@manual
def slogdet_backward(
    sign_bar: Tensor | None, log_bar: Tensor | None, a: Tensor, sign: Tensor, lu: Tensor, pivots: Tensor
) -> Tensor | None:
    """slogdet_backward: d log det A = tr(A⁻¹ dA), whose imaginary part turns the sign."""
    if sign_bar is None and log_bar is None:
        return None
    total = torch.zeros_like(sign) if log_bar is None else log_bar.to(sign.dtype)
    if sign.is_complex() and sign_bar is not None:
        total = total - 1j * (sign_bar.conj() * sign).imag
    eye = torch.eye(a.shape[-1], dtype=a.dtype)
    if torch.is_grad_enabled():  # the factors have no derivatives
        return torch.linalg.solve(a.mH, total[..., None, None] * eye)
    transposed = a.is_contiguous() and not a.is_complex()
    return torch.linalg.lu_solve(lu, pivots, total[..., None, None] * eye, adjoint=not transposed)


@manual
def slogdet_jvp(lu: Tensor, pivots: Tensor, a_dot: Tensor, sign: Tensor, transposed: bool) -> tuple[Tensor, Tensor]:
    """slogdet_jvp: the factors may be those of the transpose."""
    trace = torch.linalg.lu_solve(lu, pivots, a_dot, adjoint=transposed).diagonal(dim1=-2, dim2=-1).sum(-1)
    if not sign.is_complex():
        return torch.zeros_like(sign), trace
    return 1j * trace.imag * sign, trace.real
