"""Derivatives of activation functions, of dropout and softmax, and of their backward functions."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from torch_impl.derivatives.errors import DerivativeNotImplemented
from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.elementary import Number


@manual
def infinitely_differentiable_silu_backward(bar: Tensor, self: Tensor) -> Tensor:
    """infinitely_differentiable_silu_backward: of x σ(x)."""
    weight = self.sigmoid()
    return bar * (weight * (1 + self * (1 - weight))).conj()


@manual
def infinitely_differentiable_mish_backward(bar: Tensor, self: Tensor) -> Tensor:
    """infinitely_differentiable_mish_backward: of x tanh(log(1 + e^x))."""
    value = torch.nn.functional.softplus(self).tanh()
    return bar * (value + self * self.sigmoid() * (1 - value * value))


@manual
def gelu_double_backward(bar: Tensor, output_bar: Tensor, self: Tensor, approximate: str) -> Tensor:
    """gelu_double_backward: the second derivative of x Φ(x), or of its approximation by tanh."""
    if approximate != "tanh":
        density = (-0.5 * self * self).exp() / math.sqrt(2 * math.pi)
        return bar * output_bar * density * (2 - self * self)
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    value = (scale * (self + cubic * self**3)).tanh()
    slope, bend = scale * (1 + 3 * cubic * self * self), scale * 6 * cubic * self
    open_ = 1 - value * value
    return bar * output_bar * (open_ * slope + 0.5 * self * open_ * (bend - 2 * value * slope * slope))


@manual
def elu_double_backward(
    bar: Tensor,
    output_bar: Tensor,
    alpha: Number,
    scale: Number,
    input_scale: Number,
    is_result: bool,
    self_or_result: Tensor,
) -> Tensor:
    """elu_double_backward: only the exponential side bends; its slope is linear in the result."""
    below = self_or_result < 0
    if is_result:
        return bar * output_bar * input_scale * below
    product = bar * output_bar * input_scale
    slope = torch.ops.aten.elu_backward(product, alpha, scale, input_scale, False, self_or_result)
    return slope * below


@manual
def log_sigmoid_double_backward(bar: Tensor, self: Tensor) -> Tensor:
    """log_sigmoid_double_backward: of log σ(x) the second derivative is -σ(x) (1 - σ(x))."""
    weight = self.sigmoid()
    return bar * (weight - 1) * weight


@manual
def softplus_double_backward(bar: Tensor, self: Tensor, beta: Number, threshold: Number) -> Tensor:
    """softplus_double_backward: beta σ(βx) (1 - σ(βx)), and zero where the function is linear."""
    scaled = self * beta
    weight = scaled.sigmoid()
    return bar * weight * (1 - weight) * (scaled < threshold) * beta


def _halves(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    value, gate = x.chunk(2, dim)
    return value, gate.sigmoid()


@manual
def glu_double_backward_grad_output(bar: Tensor, self: Tensor, dim: int) -> Tensor:
    """glu_double_backward_grad_output: of (a, b) -> a σ(b) the JVP along bar."""
    value, gate = _halves(self, dim)
    along_value, along_gate = bar.chunk(2, dim)
    return along_value * gate + along_gate * value * gate * (1 - gate)


@manual
def glu_double_backward(bar: Tensor, output_bar: Tensor, self: Tensor, dim: int) -> Tensor:
    """glu_double_backward: the derivatives of the gradient of a σ(b), contracted with bar."""
    value, gate = _halves(self, dim)
    along_value, along_gate = bar.chunk(2, dim)
    slope = gate * (1 - gate) * output_bar
    bend = slope * (1 - 2 * gate) * value
    return torch.cat([along_gate * slope, along_value * slope + along_gate * bend], dim)


@manual
def softmax_double_backward(bar: Tensor, output_bar: Tensor, dim: int, output: Tensor) -> Tensor:
    """softmax_double_backward: of y (g - Σ g y) with respect to y, contracted with bar."""
    mean = (output_bar * output).sum(dim, keepdim=True)
    return bar * (output_bar - mean) - (bar * output).sum(dim, keepdim=True) * output_bar


@manual
def _fused_dropout_backward(bar: Tensor, mask: Tensor, kept_share: float) -> Tensor:
    """_fused_dropout_backward."""
    return bar if kept_share == 1 else bar * (mask * (1.0 / kept_share))


@manual
def infinitely_differentiable_native_dropout_backward(bar: Tensor, mask: Tensor, scale: Number) -> Tensor:
    """infinitely_differentiable_native_dropout_backward."""
    return bar * (mask.to(bar.dtype) * scale)


@manual
def native_dropout_double_backward(bar: Tensor, output_bar: Tensor, mask: Tensor, scale: float) -> Tensor:
    """native_dropout_double_backward: dropout's backward is linear in the cotangent."""
    return bar.to(output_bar.dtype) * (mask.to(output_bar.dtype) * scale)


@manual
def error_for_max_pool2d_double_backward() -> Tensor:
    """error_for_max_pool2d_double_backward: PyTorch's own refusal.

    Raises:
        DerivativeNotImplemented: always.
    """
    raise DerivativeNotImplemented("PyTorch has no double backward of max_pool2d without its indices")


@manual
def warn_backwards(bar: Tensor) -> Tensor:
    """warn_backwards: an identity that warns, for PyTorch's own tests."""
    warnings.warn("Warn from backward", stacklevel=2)
    return bar
