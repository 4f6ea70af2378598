"""Derivatives of the Cholesky, LU and QR factorizations and of products of Householder reflectors.

Gradients are for the real inner product Re tr(Ḡᴴ dA), as everywhere in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_impl.derivatives.errors import DerivativeNotImplemented
from torch_impl.derivatives.functions._registry import manual


def solve_triangular(a: Tensor, b: Tensor, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    """A⁻¹B of a triangular A, or BA⁻¹."""
    return torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)


def _half_lower(x: Tensor) -> Tensor:
    """The lower triangle with half of the diagonal."""
    return x.tril() - torch.diag_embed(x.diagonal(dim1=-2, dim2=-1)) / 2


def _half_upper(x: Tensor) -> Tensor:
    return _half_lower(x.mT).mT


@manual
def cholesky_backward(bar: Tensor, upper: bool, factor: Tensor) -> Tensor:
    """cholesky_backward: of A = L Lᴴ, where dL = L Φ(L⁻¹ dA L⁻ᴴ) with Φ the lower triangle and half the diagonal."""
    lower, lower_bar = (factor.mH, bar.mH) if upper else (factor, bar)
    inner = (lower.mH @ lower_bar).tril()
    # An imaginary part of the diagonal stays, as in PyTorch: it says nothing of a Hermitian A
    inner = (inner + inner.tril(-1).mH) / 2
    left = solve_triangular(lower.mH, inner, upper=True)
    return solve_triangular(lower, left, upper=False, left=False)


@manual
def cholesky_jvp(a_dot: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """cholesky_jvp: dL = L Φ(L⁻¹ dA L⁻ᴴ)."""
    lower = factor.mH if upper else factor
    inner = solve_triangular(lower, a_dot, upper=False)
    found = lower @ _half_lower(solve_triangular(lower.mH, inner, upper=True, left=False))
    return found.mH if upper else found


def _parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The square of a matrix at the top left, and what is beside it and below it."""
    k = min(x.shape[-2:])
    return x[..., :k, :k], x[..., :k, k:], x[..., k:, :k]


@manual
def linalg_lu_backward(
    lower_bar: Tensor | None, upper_bar: Tensor | None, p: Tensor, lower: Tensor, upper: Tensor, pivot: bool
) -> Tensor | None:
    """linalg_lu_backward: of A = P L U; what A has beside or below its square follows from the square's factors."""
    if lower_bar is None and upper_bar is None:
        return None
    lower_bar = torch.zeros_like(lower) if lower_bar is None else lower_bar
    upper_bar = torch.zeros_like(upper) if upper_bar is None else upper_bar
    l1, _, l2 = _parts(lower)
    u1, u2, _ = _parts(upper)
    l1_bar, _, l2_bar = _parts(lower_bar)
    u1_bar, u2_bar, _ = _parts(upper_bar)
    strict = (l1.mH @ l1_bar - u2_bar @ u2.mH).tril(-1)
    inner = strict + (u1_bar @ u1.mH - l2.mH @ l2_bar).triu()
    middle = solve_triangular(u1.mH, inner, upper=False, left=False)
    top = torch.cat([middle, u2_bar], -1)
    found = solve_triangular(l1.mH, top, upper=True, unit=True)
    if l2.shape[-2]:
        found = torch.cat([found, solve_triangular(u1.mH, l2_bar, upper=False, left=False)], -2)
    return p @ found if pivot else found


@manual
def linalg_lu_jvp(a_dot: Tensor, p: Tensor, lower: Tensor, upper: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
    """linalg_lu_jvp: L⁻¹ dA U⁻¹ parts into what is strictly lower, for L, and the rest, for U."""
    x_dot = p.mT @ a_dot if pivot else a_dot
    l1, _, l2 = _parts(lower)
    u1, u2, _ = _parts(upper)
    x1, x2, x3 = _parts(x_dot)
    inner = solve_triangular(u1, solve_triangular(l1, x1, upper=False, unit=True), upper=True, left=False)
    l1_dot, u1_dot = l1 @ inner.tril(-1), inner.triu() @ u1
    l2_dot = solve_triangular(u1, x3 - l2 @ u1_dot, upper=True, left=False)
    u2_dot = solve_triangular(l1, x2 - l1_dot @ u2, upper=False, unit=True)
    return torch.cat([l1_dot, l2_dot], -2), torch.cat([u1_dot, u2_dot], -1)


@manual
def lu_unpack_backward(lower_bar: Tensor | None, upper_bar: Tensor | None, rows: int, columns: int) -> Tensor | None:
    """lu_unpack_backward: L lies strictly below the diagonal of the packed matrix, U on it and above."""
    if lower_bar is None and upper_bar is None:
        return None
    k = min(rows, columns)
    like = lower_bar if lower_bar is not None else upper_bar
    assert like is not None
    found = torch.zeros([*like.shape[:-2], rows, columns], dtype=like.dtype)
    if lower_bar is not None:
        found[..., :, :k] += lower_bar.tril(-1)
    if upper_bar is not None:
        found[..., :k, :] += upper_bar.triu()
    return found


@manual
def lu_factor_ex_backward(bar: Tensor, lu: Tensor, pivots: Tensor, pivot: bool) -> Tensor | None:
    """lu_factor_ex_backward: of the packed factors."""
    p, lower, upper = torch.lu_unpack(lu, pivots, unpack_pivots=pivot)
    k = min(lu.shape[-2:])
    return linalg_lu_backward(bar[..., :, :k], bar[..., :k, :], p, lower, upper, pivot)


@manual
def lu_factor_ex_jvp(a_dot: Tensor, lu: Tensor, pivots: Tensor, pivot: bool) -> Tensor:
    """lu_factor_ex_jvp: of the packed factors."""
    p, lower, upper = torch.lu_unpack(lu, pivots, unpack_pivots=pivot)
    lower_dot, upper_dot = linalg_lu_jvp(a_dot, p, lower, upper, pivot)
    found = torch.zeros_like(lu)
    k = min(lu.shape[-2:])
    found[..., :, :k] += lower_dot
    found[..., :k, :] += upper_dot
    return found


def _refuse_complete(mode: str, rows: int, columns: int) -> None:
    if mode == "r" or (mode == "complete" and rows > columns):
        raise DerivativeNotImplemented(f"PyTorch has no derivative of QR with mode={mode!r} of this shape")


@manual
def linalg_qr_backward(q_bar: Tensor | None, r_bar: Tensor | None, q: Tensor, r: Tensor, mode: str) -> Tensor | None:
    """linalg_qr_backward: of A = Q R with the diagonal of R real, where R⁻ᴴ closes what Q and R give.

    Raises:
        DerivativeNotImplemented: Q was not computed, or has columns that A does not determine.
    """
    _refuse_complete(mode, q.shape[-2], r.shape[-1])
    if q_bar is None and r_bar is None:
        return None
    q_bar = torch.zeros_like(q) if q_bar is None else q_bar
    r_bar = torch.zeros_like(r) if r_bar is None else r_bar
    r1, r2, _ = _parts(r)
    r1_bar, r2_bar, _ = _parts(r_bar)
    # R₂ = Qᴴ A₂ of the columns beside the square
    q_bar = q_bar + q @ (r2 @ r2_bar.mH)
    triangle = _half_upper(r1_bar @ r1.mH - q.mH @ q_bar)
    first = solve_triangular(r1.mH, q_bar + q @ (triangle + triangle.mH), upper=False, left=False)
    return torch.cat([first, q @ r2_bar], -1)


@manual
def linalg_qr_jvp(a_dot: Tensor, q: Tensor, r: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """linalg_qr_jvp: Qᴴ dA R⁻¹ is a skew matrix, for Q, and an upper triangular one, for R.

    Raises:
        DerivativeNotImplemented: as `linalg_qr_backward`.
    """
    _refuse_complete(mode, q.shape[-2], r.shape[-1])
    k = min(r.shape[-2:])
    r1, r2 = r[..., :k, :k], r[..., :k, k:]
    a1, a2 = a_dot[..., :, :k], a_dot[..., :, k:]
    ratio = solve_triangular(r1, a1, upper=True, left=False)
    inner = q.mH @ ratio
    triangle = _half_upper(inner + inner.mH)
    q_dot = ratio - q @ triangle
    return q_dot, torch.cat([triangle @ r1, q.mH @ (a2 - q_dot @ r2)], -1)


def _reflectors(x: Tensor, tau: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The vectors v, one at their own place and zero above, and the matrices I - τ v vᴴ."""
    rows = x.shape[-2]
    eye = torch.eye(rows, dtype=x.dtype)
    found = []
    for i in range(tau.shape[-1]):
        v = torch.where(torch.arange(rows) > i, x[..., :, i], eye[i])
        found.append((v, eye - tau[..., i, None, None] * v.unsqueeze(-1) * v.conj().unsqueeze(-2)))
    return found


def _of_reflectors(bar: Tensor, x: Tensor, tau: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """The gradients of the reflectors' vectors and factors, where their product has the cotangent `bar`."""
    pairs = _reflectors(x, tau)
    eye = torch.eye(x.shape[-2], dtype=x.dtype)
    right = [eye[:, :columns]]
    for _, reflector in reversed(pairs[1:]):
        right.append(reflector @ right[-1])
    left, x_bar, tau_bar = bar, torch.zeros_like(x), torch.zeros_like(tau)
    for i, (v, reflector) in enumerate(pairs):
        inner = left @ right[-1 - i].mH
        column, factor = v.unsqueeze(-1), tau[..., i, None, None]
        tau_bar[..., i] = -(v.conj().unsqueeze(-2) @ inner @ column)[..., 0, 0]
        of_v = -(factor.conj() * (inner @ column) + factor * (inner.mH @ column))
        x_bar[..., :, i] = torch.where(torch.arange(x.shape[-2]) > i, of_v.squeeze(-1), torch.zeros((), dtype=x.dtype))
        left = reflector.mH @ left
    return x_bar, tau_bar


@manual
def householder_product_backward(
    bar: Tensor | None, result: Tensor, x: Tensor, tau: Tensor, flip_order: bool = False
) -> tuple[Tensor | None, Tensor | None]:
    """householder_product_backward: of a product every factor has the others around it."""
    if bar is None:
        return None, None
    return _of_reflectors(bar, x, tau, x.shape[-1])


@manual
def householder_product_jvp(x_dot: Tensor, tau_dot: Tensor, result: Tensor, x: Tensor, tau: Tensor) -> Tensor:
    """householder_product_jvp: the sum over the factors of the product in which one is replaced by its tangent."""
    pairs = _reflectors(x, tau)
    value = torch.eye(x.shape[-2], dtype=x.dtype)[:, : x.shape[-1]]
    tangent = torch.zeros_like(value)
    for i in reversed(range(len(pairs))):
        v, reflector = pairs[i]
        v_dot = torch.where(torch.arange(x.shape[-2]) > i, x_dot[..., :, i], torch.zeros((), dtype=x.dtype))
        column, column_dot = v.unsqueeze(-1), v_dot.unsqueeze(-1)
        factor, factor_dot = tau[..., i, None, None], tau_dot[..., i, None, None]
        outer = column_dot @ column.mH + column @ column_dot.mH
        tangent = reflector @ tangent - (factor_dot * column @ column.mH + factor * outer) @ value
        value = reflector @ value
    return tangent


@manual
def ormqr_backward(
    bar: Tensor | None,
    result: Tensor,
    x: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool,
    transpose: bool,
    mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """ormqr_backward: of Q C, Qᴴ C, C Q or C Qᴴ."""
    if bar is None:
        return None, None, None
    other_bar = torch.ormqr(x, tau, bar, left, not transpose) if mask[2] else None
    if not (mask[0] or mask[1]):
        return None, None, other_bar
    if left:
        q_bar = other @ bar.mH if transpose else bar @ other.mH
    else:
        q_bar = bar.mH @ other if transpose else other.mH @ bar
    x_bar, tau_bar = _of_reflectors(q_bar, x, tau, x.shape[-2])
    return x_bar, tau_bar, other_bar
