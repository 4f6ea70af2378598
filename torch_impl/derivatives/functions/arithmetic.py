"""Derivatives of arithmetic and of elementary functions, entry by entry."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.elementary import Number, handle_r_to_c


def _conj(x: Tensor | Number) -> Tensor | Number:
    return x.conj() if isinstance(x, Tensor) else x.conjugate()


@manual
def mul_tensor_backward(bar: Tensor, other: Tensor | Number, dtype: torch.dtype) -> Tensor:
    """mul_tensor_backward: d(self other) = d(self) other."""
    return handle_r_to_c(dtype, bar * _conj(other))


@manual
def div_tensor_self_backward(
    bar: Tensor, other: Tensor | Number, dtype: torch.dtype, rounding_mode: str | None = None
) -> Tensor:
    """div_tensor_self_backward: d(self / other) = d(self) / other, and zero where the quotient is rounded."""
    if rounding_mode is not None:
        return torch.zeros_like(bar, dtype=dtype)
    return handle_r_to_c(dtype, bar / _conj(other))


@manual
def div_tensor_other_backward(bar: Tensor, self: Tensor, other: Tensor, rounding_mode: str | None = None) -> Tensor:
    """div_tensor_other_backward: d(self / other) = -self / other² d(other), and zero where the quotient is rounded."""
    if rounding_mode is not None:
        return torch.zeros_like(bar, dtype=other.dtype)
    return handle_r_to_c(other.dtype, -bar * (self / other / other).conj())


@manual
def pow_backward(bar: Tensor, self: Tensor, exponent: Number) -> Tensor:
    """pow_backward: d(x^p) = p x^(p-1) dx, without 0 · 0^-1 at p = 0."""
    if exponent == 0:
        return torch.zeros_like(self)
    return handle_r_to_c(self, bar * (exponent * self.pow(exponent - 1)).conj())


@manual
def pow_backward_self(bar: Tensor, self: Tensor, exponent: Tensor) -> Tensor:
    """pow_backward_self: as pow_backward, with an exponent for each entry."""
    slope = torch.where(
        exponent == 0, torch.zeros((), dtype=bar.dtype), bar * (exponent * self.pow(exponent - 1)).conj()
    )
    return handle_r_to_c(self, slope)


@manual
def pow_backward_exponent(bar: Tensor, base: Tensor | Number, exponent: Tensor, result: Tensor) -> Tensor:
    """pow_backward_exponent: d(x^p) = x^p log x dp, which goes to zero with x where p is not negative."""
    size = exponent.real if exponent.is_complex() else exponent
    x = base if isinstance(base, Tensor) else torch.tensor(base, dtype=_wide(base))
    slope = bar * (result * x.log()).conj()
    return handle_r_to_c(exponent, torch.where((x == 0) & (size >= 0), torch.zeros((), dtype=slope.dtype), slope))


def _wide(base: Number) -> torch.dtype:
    return torch.complex128 if isinstance(base, complex) else torch.float64


@manual
def atan2_backward(
    bar: Tensor | None, self: Tensor, other: Tensor, mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """atan2_backward: the angle of (other, self) turns by (other d self - self d other) / (self² + other²)."""
    if bar is None:
        return None, None
    square = self * self + other * other
    inverse = torch.where(square == 0, torch.zeros_like(square), 1 / square)
    return bar * other * inverse if mask[0] else None, -bar * self * inverse if mask[1] else None


@manual
def angle_backward(bar: Tensor, self: Tensor) -> Tensor:
    """angle_backward: of z = x + iy the angle has the gradient (-y + ix) / |z|²; of a real number it is constant."""
    if not self.is_complex():
        return torch.where(self == 0.0, bar * 0.0, torch.zeros((), dtype=bar.dtype))
    square = self.real**2 + self.imag**2
    slope = torch.complex(-self.imag, self.real) / square
    return torch.where(square == 0, torch.zeros((), dtype=self.dtype), bar * slope)


@manual
def sgn_backward(self: Tensor, bar: Tensor, sgn: Tensor) -> Tensor:
    """sgn_backward: what of the cotangent lies across z, over |z|; its map is symmetric, so it is the JVP too."""
    if not self.is_complex():
        return torch.zeros_like(self)
    size = self.abs()
    slope = (bar - sgn * sgn * bar.conj()) / (2 * size)
    return torch.where(size == 0, torch.zeros((), dtype=self.dtype), slope)


@manual
def polar_backward(bar: Tensor | None, result: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """polar_backward: z = r e^(iθ) moves along z / |z| with r, and along iz with θ."""
    if bar is None:
        return None, None
    return (bar.conj() * result.sgn()).real, (bar.conj() * (1j * result)).real


@manual
def copysign_tensor_self_backward(bar: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """copysign_tensor_self_backward: the sign that the result has and self has not; zero at zero."""
    return bar * torch.where(self == 0, torch.zeros((), dtype=self.dtype), result / self)


@manual
def sinc_backward(bar: Tensor, self: Tensor) -> Tensor:
    """sinc_backward: the slope of sin(πx) / (πx), which is zero at x = 0."""
    angle = self * math.pi
    slope = (angle * angle.cos() - angle.sin()) / (angle * self)
    return bar * torch.where(self == 0, torch.zeros((), dtype=self.dtype), slope).conj()


@manual
def log1p_backward(bar: Tensor, self: Tensor) -> Tensor:
    """log1p_backward."""
    return bar / (self + 1).conj()


@manual
def deg2rad_backward(bar: Tensor) -> Tensor:
    """deg2rad_backward."""
    return bar * (math.pi / 180)


@manual
def rad2deg_backward(bar: Tensor) -> Tensor:
    """rad2deg_backward."""
    return bar * (180 / math.pi)


@manual
def mvlgamma_backward(bar: Tensor, self: Tensor, p: int) -> Tensor:
    """mvlgamma_backward: log Γ_p(x) is a constant and the sum of log Γ(x - j / 2) over j < p."""
    return bar * sum(((self - j / 2).digamma() for j in range(p)), torch.zeros_like(self))


@manual
def i1_backward(bar: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """i1_backward: I₁' = I₀ - I₁ / x, and 1/2 at x = 0."""
    slope = torch.special.i0(self) - result / self
    return bar * torch.where(self.abs() > torch.finfo(self.dtype).eps, slope, torch.full_like(self, 0.5))


@manual
def i1e_backward(bar: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """i1e_backward: of e^-|x| I₁(x), and 1/2 at x = 0."""
    slope = torch.special.i0e(self) - result * (self.sgn() + 1 / self)
    return bar * torch.where(self.abs() > torch.finfo(self.dtype).eps, slope, torch.full_like(self, 0.5))


@manual
def infinitely_differentiable_logit_backward(bar: Tensor, self: Tensor, eps: float | None) -> Tensor:
    """infinitely_differentiable_logit_backward: 1 / (x (1 - x)), and zero where x was clamped to [eps, 1 - eps]."""
    slope = bar / (self * (1.0 - self))
    if eps is not None:
        return torch.where((self < eps) | (self > 1.0 - eps), torch.zeros((), dtype=bar.dtype), slope)
    return torch.where((self < 0.0) | (self > 1.0), torch.full((), math.nan, dtype=bar.dtype), slope)


# From PyTorch 2.14.1 on an input that equals a bound shares its slope with it, half and half; at a number it has none.
_TIES_ARE_SPLIT = torch.__version__ >= "2.14.1"


@manual
def clamp_backward(bar: Tensor, self: Tensor, low: Tensor | float | None, high: Tensor | float | None) -> Tensor:
    """clamp_backward: the cotangent where self lies within the bounds."""
    inside = torch.ones_like(self, dtype=torch.bool)
    if low is not None:
        inside = inside & (self >= low)
    if high is not None:
        inside = inside & (self <= high)
    zero = torch.zeros((), dtype=bar.dtype)
    self_bar = torch.where(inside, bar, zero)
    for bound in (low, high) if _TIES_ARE_SPLIT else ():
        if isinstance(bound, Tensor):
            self_bar = torch.where(_share(self, low, high, bound), bar / 2, self_bar)
        elif bound is not None:
            self_bar = torch.where(self == bound, zero, self_bar)
    return self_bar


@manual
def clamp_backward_min_max(
    bar: Tensor | None, self: Tensor, low: Tensor | None, high: Tensor | None, mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """clamp_backward_min_max: a bound's gradient is the cotangent where self lies beyond; the upper bound wins."""
    if bar is None:
        return None, None
    zero = torch.zeros((), dtype=bar.dtype)
    low_bar = high_bar = None
    if low is not None and mask[0]:
        taken = self < low
        if high is not None:
            taken = taken & (low <= high if _TIES_ARE_SPLIT else low < high)
        low_bar = torch.where(taken, bar, zero)
        if _TIES_ARE_SPLIT:
            low_bar = torch.where(_share(self, low, high, low), bar / 2, low_bar)
    if high is not None and mask[1]:
        taken = self > high if low is None else (self > high) | (high < low)
        high_bar = torch.where(taken, bar, zero)
        if _TIES_ARE_SPLIT:
            high_bar = torch.where(_share(self, low, high, high), bar / 2, high_bar)
    return low_bar, high_bar


@manual
def clamp_jvp(
    self_p: Tensor,
    self_t: Tensor,
    min_p: Tensor | None,
    min_t: Tensor | None,
    max_p: Tensor | None,
    max_t: Tensor | None,
) -> Tensor:
    """clamp_jvp: the tangent of whichever of the three the result is."""
    found, value = self_t, self_p
    if min_p is not None and min_t is not None:
        found = torch.where(value < min_p, min_t, found)
        value = torch.maximum(value, min_p)
    if max_p is not None and max_t is not None:
        found = torch.where(value > max_p, max_t, found)
    for bound, tangent in ((min_p, min_t), (max_p, max_t)) if _TIES_ARE_SPLIT else ():
        if bound is not None and tangent is not None:
            found = torch.where(_share(self_p, min_p, max_p, bound), (self_t + tangent) / 2, found)
    return found


def _share(self: Tensor, low: Tensor | float | None, high: Tensor | float | None, bound: Tensor) -> Tensor:
    """Where an input equals one of its bounds, of which the lower one is below the upper one."""
    return (self == bound) if low is None or high is None else (self == bound) & (low < high)
