"""Derivatives of matrix products, of convolutions and of Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_impl.derivatives.functions._registry import manual
from torch_impl.derivatives.functions.elementary import Number


def _conj(x: Number) -> Number:
    return x.conjugate()


@manual
def mm_mat1_backward(
    bar: Tensor, mat2: Tensor, sizes: Sequence[int], strides: Sequence[int], layout: torch.layout, alpha: Number
) -> Tensor:
    """mm_mat1_backward: of α A B the gradient ᾱ Ḡ Bᴴ; sizes and strides say only how PyTorch lays it out."""
    return (bar @ mat2.mH) * _conj(alpha)


@manual
def mm_mat2_backward(
    bar: Tensor, mat1: Tensor, sizes: Sequence[int], strides: Sequence[int], layout: torch.layout, alpha: Number
) -> Tensor:
    """mm_mat2_backward: of α A B the gradient ᾱ Aᴴ Ḡ."""
    return (mat1.mH @ bar) * _conj(alpha)


@manual
def _trilinear_backward(
    bar: Tensor | None,
    i1: Tensor | None,
    i2: Tensor | None,
    i3: Tensor | None,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    summed: Sequence[int],
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """_trilinear_backward: a sum of products is one in each factor; what an input lacks is summed in its gradient."""
    if bar is None:
        return None, None, None
    call = torch.ops.aten._trilinear
    of1 = call(bar, i2, i3, summed, expand2, expand3, expand1) if mask[0] else None
    of2 = call(i1, bar, i3, expand1, summed, expand3, expand2) if mask[1] else None
    of3 = call(i1, i2, bar, expand1, expand2, summed, expand3) if mask[2] else None
    return of1, of2, of3


@manual
def convolution_jvp(
    x: Tensor,
    x_dot: Tensor,
    weight: Tensor,
    weight_dot: Tensor,
    bias: Tensor | None,
    bias_dot: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """convolution_jvp: a convolution is linear in the input and in the weight."""
    how = (stride, padding, dilation, transposed, output_padding, groups)
    along_x = torch.ops.aten.convolution(x_dot, weight, None, *how)
    return along_x + torch.ops.aten.convolution(x, weight_dot, bias_dot, *how)


@manual
def _convolution_jvp(
    x: Tensor,
    x_dot: Tensor,
    weight: Tensor,
    weight_dot: Tensor,
    bias: Tensor | None,
    bias_dot: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *flags: bool,
) -> Tensor:
    """_convolution_jvp: the flags choose a kernel, and change nothing in the result."""
    how = (stride, padding, dilation, transposed, output_padding, groups)
    return convolution_jvp(x, x_dot, weight, weight_dot, bias, bias_dot, *how)


@manual
def convolution_backward_jvp_grad_bias(bar_dot: Tensor, bias_bar: Tensor) -> Tensor:
    """convolution_backward_jvp_grad_bias: the bias's gradient is a sum over all axes but the channels'."""
    return bar_dot.sum([axis for axis in range(bar_dot.dim()) if axis != 1]).reshape(bias_bar.shape)


@manual
def fft_r2c_backward(bar: Tensor, dims: Sequence[int], normalization: int, onesided: bool, size: int) -> Tensor:
    """fft_r2c_backward: the transform's conjugate transpose, of the half that was returned; its real part."""
    if onesided:
        missing = size - bar.shape[dims[-1]]
        lacking = list(bar.shape)
        lacking[dims[-1]] = missing
        bar = torch.cat([bar, torch.zeros(lacking, dtype=bar.dtype)], dims[-1])
    return torch.ops.aten._fft_c2c(bar, dims, normalization, False).real


@manual
def fft_c2r_backward(bar: Tensor, dims: Sequence[int], normalization: int) -> Tensor:
    """fft_c2r_backward: entries that stand for two of the full spectrum count twice."""
    found = torch.ops.aten._fft_r2c(bar, dims, normalization, True)
    twice = bar.shape[dims[-1]] - found.shape[dims[-1]]
    factor = torch.ones(found.shape[dims[-1]], dtype=bar.dtype)
    factor[1 : 1 + twice] = 2
    return found * factor.reshape([-1 if axis == dims[-1] % found.dim() else 1 for axis in range(found.dim())])


@manual
def embedding_dense_double_backward(bar: Tensor, indices: Tensor, padding: int) -> Tensor:
    """embedding_dense_double_backward: the rows that were looked up; the padding's row takes no part."""
    rows = bar.index_select(0, indices.reshape(-1)).reshape([*indices.shape, bar.shape[-1]])
    return rows if padding < 0 else rows.masked_fill((indices == padding).unsqueeze(-1), 0)


@manual
def _scaled_dot_product_flash_attention_for_cpu_backward(
    bar: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    dropout: float,
    causal: bool,
    mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    """_scaled_dot_product_flash_attention_for_cpu_backward, which takes an undefined cotangent when C++ calls it."""
    if bar is None:
        return None, None, None
    call = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return call(bar, query, key, value, output, logsumexp, dropout, causal, attn_mask=mask, scale=scale)
