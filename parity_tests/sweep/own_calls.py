"""Calls of the operators that PyTorch's own samples do not make: copies, functional variants, old names, backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from parity_tests.sweep.operators import is_operator, operator_of
from parity_tests.sweep.recorded_calls import RecordedCall, as_numpy, as_torch

SOURCE = "a call of our own"


def _numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _calls() -> dict[str, tuple[Any, ...]]:
    """The arguments of each operator, by its name, with its overload if it has one."""
    return {
        **_normalization(),
        **_convolution(),
        **_resampling(),
        **_indexing(),
        **_layers(),
        **_bits_and_complex(),
        **_quantization(),
    }


def _normalization() -> dict[str, tuple[Any, ...]]:
    x, y, image = _numbers(4, 6), _numbers(4, 6, seed=1), _numbers(2, 3, 7, 6)
    of_channels = (*(_numbers(3, seed=i) for i in range(3)), _numbers(3, seed=3).square() + 0.5)
    return {
        "_batch_norm_no_update": (image, *of_channels, 0.1, 1e-5),
        "_batch_norm_with_update": (image, *of_channels, 0.1, 1e-5),
        "_batch_norm_with_update_functional": (image, *of_channels, 0.1, 1e-5),
        "_fused_rms_norm": (x, [6], y[0], 1e-5),
        "_fused_rms_norm_backward": (y, x, [6], (x.square().mean(-1, True) + 1e-5).rsqrt(), y[0], [True, True]),
        "_masked_softmax": (x, y > 0.5, 1, 2),
        "_weight_norm_interface": (x, y[:1].exp(), 1),
        "_native_batch_norm_legit_functional": (image, *of_channels, True, 0.1, 1e-5),
        "_native_batch_norm_legit_no_training": (image, *of_channels, 0.1, 1e-5),
    }


def _convolution() -> dict[str, tuple[Any, ...]]:
    image, volume, bias = _numbers(2, 3, 7, 6), _numbers(2, 3, 5, 6, 4), _numbers(4, seed=2)
    weights, back = _numbers(4, 3, 3, 2, seed=1), _numbers(3, 4, 3, 2, seed=1)
    weights_3d, back_3d = _numbers(4, 3, 2, 3, 2, seed=1), _numbers(3, 4, 2, 3, 2, seed=1)
    of_each, of_each_3d = _numbers(6, 1, 3, 2, seed=1), _numbers(6, 1, 2, 3, 2, seed=1)
    sequence, over_time = _numbers(6, 2, 3), _numbers(3, 3, 4, seed=1)
    kernel, stride, padding, one, none = [3, 2], [2, 1], [1, 0], [1, 1], [0, 0]
    kernel_3d, stride_3d, padding_3d, ones, zeros = [2, 3, 2], [2, 1, 1], [1, 0, 1], [1, 1, 1], [0, 0, 0]
    flags = (False, False, False, False)
    return {
        "_conv_depthwise2d": (image, of_each, kernel, _numbers(6), stride, padding, one),
        "_convolution": (image, weights, bias, stride, padding, one, False, none, 1, *flags),
        "_slow_conv2d_backward.output_mask": (
            *(_numbers(2, 4, 4, 5, seed=3), image, weights, kernel, stride, padding),
            [True, True, True],
        ),
        "_slow_conv2d_forward": (image, weights, kernel, bias, stride, padding),
        "conv_depthwise3d": (volume, of_each_3d, kernel_3d, _numbers(6), stride_3d, padding_3d, ones),
        "conv_tbc": (sequence, over_time, bias, 1),
        "conv_tbc_backward": (_numbers(6, 2, 4), sequence, over_time, bias, 1),
        "slow_conv3d": (volume, weights_3d, kernel_3d, bias, stride_3d, padding_3d),
        "slow_conv3d_forward": (volume, weights_3d, kernel_3d, bias, stride_3d, padding_3d),
        "slow_conv_dilated2d": (image, weights, kernel, bias, stride, padding, [1, 2]),
        "slow_conv_dilated3d": (volume, weights_3d, kernel_3d, bias, ones, padding_3d, [2, 1, 1]),
        "slow_conv_transpose2d": (image, back, kernel, bias, stride, padding, [1, 0], one),
        "slow_conv_transpose3d": (volume, back_3d, kernel_3d, bias, stride_3d, padding_3d, zeros, ones),
        "thnn_conv2d": (image, weights, kernel, bias, stride, padding),
    }


def _resampling() -> dict[str, tuple[Any, ...]]:
    x, y = _numbers(1, 2, 5, 6), _numbers(1, 2, 3, 9)
    return {
        "_upsample_bicubic2d_aa": (x, [3, 9], False),
        "_upsample_bicubic2d_aa_backward": (y, [3, 9], [1, 2, 5, 6], False),
        "_upsample_lanczos2d_aa": (x, [3, 9], False),
        "_upsample_lanczos2d_aa_backward": (y, [3, 9], [1, 2, 5, 6], False),
        "affine_grid_generator": (_numbers(2, 2, 3), [2, 1, 4, 5], False),
        "affine_grid_generator_backward": (_numbers(2, 4, 5, 2), [2, 1, 4, 5], False),
    }


def _indexing() -> dict[str, tuple[Any, ...]]:
    x, y, rows = _numbers(4, 6), _numbers(4, 6, seed=1), torch.tensor([0, 2, 2])
    return {
        "_pad_circular": (_numbers(2, 3, 7, 6), [1, 2, 2, 0]),
        "_pad_enum": (_numbers(2, 3, 7, 6), [1, 2, 0, 1], 1),
        "_embedding_bag": (x, rows, torch.tensor([0, 1, 1]), False, 1),
        "_index_put_impl": (x, [rows], _numbers(3, 6, seed=4), True),
        "_lazy_clone": (x,),
        "_neg_view": (x,),
        "_pack_padded_sequence": (_numbers(3, 2, 4), torch.tensor([3, 2]), False),
        "_reshape_alias": (x, [3, 8], [8, 1]),
        "_reshape_copy": (x, [3, 8]),
        "_unsafe_index.Tensor": (x, [None, rows]),
        "_unsafe_index_put": (x, [rows], _numbers(3, 6, seed=4), True),
        "concat": ([x, y], 1),
        "contiguous": (x.T,),
        "copy": (x, y[0]),
        "detach_copy": (x,),
        "lift": (x,),
        "native_channel_shuffle": (_numbers(2, 6, 3, 2), 3),
        "select_copy.int": (x, 1, -2),
        "slice_copy.Tensor": (x, 1, 1, -1, 2),
        "slice_inverse": (x, y, 1, 0, 6, 1),
        "split_copy.Tensor": (x, 4, 1),
        "unsafe_split_with_sizes": (x, [1, 3, 2], 1),
    }


def _layers() -> dict[str, tuple[Any, ...]]:
    x, heads = _numbers(4, 6), [_numbers(1, 2, 4, 3, seed=i) for i in range(3)]
    classes, pixels = torch.tensor([1, 0, 5, 2]), torch.tensor([[[0, 2], [1, 1]], [[2, 2], [0, 1]]])
    return {
        "_scaled_dot_product_attention_math": (*heads, None, 0.0, True),
        "inverse": (x[:, :4],),
        "max_pool2d_backward": (_numbers(2, 3, 3, 3), _numbers(2, 3, 7, 6), [2, 2], [2, 3], [0, 1], [1, 1], False),
        "nll_loss": (x, classes, x[0].exp()),
        "nll_loss2d": (_numbers(2, 3, 2, 2), pixels, _numbers(3).exp()),
        "rrelu_with_noise": (x, torch.zeros_like(x), 0.1, 0.3, False),
        "rrelu_with_noise_functional": (x, torch.zeros_like(x), 0.1, 0.3, False),
        "zero": (x,),
        "vander": (_numbers(5), 3, True),
    }


def _quantization() -> dict[str, tuple[Any, ...]]:
    x, step, zero = _numbers(4, 6), torch.tensor([0.25]), torch.tensor([1])
    steps, bounds = torch.tensor([0.25, 0.5, 0.125, 1.0]), (-3, 3)  # of float32, in which the kernels compute
    return {
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": (x, step, zero.int(), zero, *bounds),
        "fake_quantize_per_channel_affine_cachemask": (x, steps, torch.tensor([0, 1, 0, -1]).int(), 0, *bounds),
        "fake_quantize_per_tensor_affine_cachemask": (x, 0.25, 1, *bounds),
    }


def _bits_and_complex() -> dict[str, tuple[Any, ...]]:
    ints, others = torch.tensor([1, 5, 6, 12]), torch.tensor([3, 1, 2, 4])
    z = _numbers(4, 6, dtype=torch.complex128)
    return {
        "_conj_copy": (z,),
        "bitwise_left_shift.Tensor": (ints, others),
        "bitwise_or.Tensor": (ints, others),
        "bitwise_right_shift.Tensor": (ints, others),
        "bitwise_xor.Tensor": (ints, others),
        "conj": (z,),
        "imag": (z,),
        "view_as_complex_copy": (_numbers(4, 2),),
        "view_as_real_copy": (z,),
    }


# What PyTorch has for other devices only, by operators that it has here.
_OTHERWISE: dict[str, Callable[..., Any]] = {
    "_conv_depthwise2d": lambda x, weight, _, bias, *geometry: torch.ops.aten.conv2d(
        x, weight, bias, *geometry, x.shape[1]
    ),
    "conv_depthwise3d": lambda x, weight, _, bias, *geometry: torch.ops.aten.conv3d(
        x, weight, bias, *geometry, x.shape[1]
    ),
    "_fused_rms_norm_backward": lambda grad, x, shape, _, weight, __: torch.autograd.functional.vjp(
        lambda x, weight: torch.nn.functional.rms_norm(x, shape, weight, 1e-5), (x, weight), grad
    )[1],
    "max_pool2d_backward": lambda grad, x, *geometry: torch.autograd.functional.vjp(
        lambda x: torch.nn.functional.max_pool2d(x, *geometry), x, grad
    )[1],
}


def own_names() -> set[str]:
    """Return the operators that are called here, without overloads and without "aten::"."""
    return {name.partition(".")[0] for name in _calls()}


def own_calls() -> Iterator[RecordedCall]:
    """Yield a call of each operator that no OpInfo reaches, and that this PyTorch has, with PyTorch's results."""
    for name, given in _calls().items():
        if not is_operator(name):
            continue
        operator = operator_of(name)
        schema = operator._schema
        arguments = {a.name: as_numpy(value) for a, value in zip(schema.arguments, given, strict=False)}
        copies = map(as_torch, arguments.values())  # since some write to their arguments
        results = _OTHERWISE[name](*copies) if name in _OTHERWISE else operator(*copies)
        returned = tuple(results) if isinstance(results, list | tuple) else (results,)
        yield RecordedCall(f"aten::{name}", arguments, tuple(map(as_numpy, returned)), SOURCE)
