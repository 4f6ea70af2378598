"""Calls that no sample of PyTorch's makes, as tensors: in-place, scalar and foreach variants, copies, kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Arguments = tuple[Any, ...]


def _x(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


def _p(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Positive entries."""
    return torch.rand(shape, dtype=dtype) + 0.2


def _z(*shape: int) -> torch.Tensor:
    return _x(*shape, dtype=torch.complex128)


def _i(*items: int) -> torch.Tensor:
    return torch.tensor(items)


_COMPARED = {
    f"{name}_.{overload}": lambda overload=overload: (_x(2, 3), 0.5 if overload == "Scalar" else _x(2, 3))
    for name in ("eq", "ge", "gt", "le", "lt", "ne")
    for overload in ("Scalar", "Tensor")
}

_POINTWISE: dict[str, Callable[[], Arguments]] = {
    "acosh_": lambda: (_p(3) + 1,),
    "asinh_": lambda: (_x(3),),
    "atanh_": lambda: (_p(3) / 2,),
    "bernoulli_.Tensor": lambda: (_x(3), torch.rand(3, dtype=torch.float64)),
    "bernoulli_.float": lambda: (_x(3), 0.5),
    "clamp_max": lambda: (_x(7), 0.3),
    "conj_physical_": lambda: (_z(3),),
    "copysign.Scalar": lambda: (_x(5), -2.0),
    "div.Scalar_mode": lambda: (_x(5), 0.7),
    "div.Tensor_mode": lambda: (_x(5), _p(5)),
    "elu_": lambda: (_x(7), 1.3, 0.9, 1.1),
    "celu_": lambda: (_x(7), 1.3),
    "fill.Tensor": lambda: (_x(3), _x()),
    "fill_.Tensor": lambda: (_x(3), _x()),
    "fill_.Scalar": lambda: (_x(3), 2.0),
    "leaky_relu_": lambda: (_x(7), 0.1),
    "add.Tensor": lambda: (_z(3), _z(3)),
    "sub.Tensor": lambda: (_z(3), _z(3)),
    "rsub.Tensor": lambda: (_z(3), _z(3)),
    "relu": lambda: (_x(7),),
    "special_zeta": lambda: (_p(5) + 1, _p(5)),  # which has no value for orders of 1 and less, as samples have
    "igamma": lambda: (_p(5), _p(5)),  # nor these of negative numbers
    "igammac": lambda: (_p(5), _p(5)),
    "lift": lambda: (_x(3),),
    "native_dropout": lambda: (_x(9), 0.4, True),
    "normal.Tensor_float": lambda: (_x(3), 0.5),
    "normal.float_Tensor": lambda: (0.5, _p(3)),
    "poisson": lambda: (_p(3),),
    "polygamma_": lambda: (_p(3), 1),
    "random_": lambda: (_x(3),),
    "random_.to": lambda: (_x(3), 9),
    "random_.from": lambda: (_x(3), 2, 9),
    "rrelu_with_noise_": lambda: (_x(7), _p(7), 0.1, 0.3, True),
    "rrelu_with_noise_functional": lambda: (_x(7), _p(7), 0.1, 0.3, False),
    "special_xlog1py.other_scalar": lambda: (_x(3), 0.7),
    "special_xlog1py.self_scalar": lambda: (0.7, _p(3)),
    "special_zeta.self_scalar": lambda: (2.5, _p(3) + 1),
    "special_zeta.other_scalar": lambda: (_p(3) + 1, 2.5),
    "threshold_": lambda: (_x(7), 0.2, 0.1),
    "xlogy.Scalar_Other": lambda: (_x(3), 0.7),
    "xlogy.Scalar_Self": lambda: (0.7, _p(3)),
    "_standard_gamma": lambda: (_p(4),),
    "_standard_gamma_grad": lambda: (_p(4), _p(4)),
    "_masked_softmax": lambda: (_x(2, 4), _x(2, 4) > 0.5, 1, 2),
    "_test_warn_in_autograd": lambda: (_x(3),),
    "_test_autograd_multiple_dispatch.fullcoverage": lambda: (_x(3),),
    "_test_autograd_multiple_dispatch_view": lambda: (_x(3),),
    # Scales that float32 holds, in which the kernels compute.
    "fake_quantize_per_tensor_affine_cachemask": lambda: (_x(9), 0.25, 1, -3, 3),
    "fake_quantize_per_channel_affine_cachemask": lambda: (
        *(_x(3, 4), torch.tensor([0.25, 0.5, 0.125]), _i(0, 1, 0).int()),
        *(0, -3, 3),
    ),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": lambda: (
        *(_x(9), torch.tensor(0.25), torch.tensor(1, dtype=torch.int32)),
        *(torch.tensor(1), -3, 3),
    ),
}

_SHAPED: dict[str, Callable[[], Arguments]] = {
    "affine_grid_generator": lambda: (_x(2, 2, 3), [2, 1, 3, 4], True),
    "as_strided_": lambda: (_x(4, 3), [2, 2], [3, 1], 1),
    "embedding_renorm_": lambda: (_x(4, 3), _i(0, 2), 1.0, 2.0),
    "norm.Scalar": lambda: (_x(4, 3), 2),
    "norm.ScalarOpt_dtype": lambda: (_x(4, 3), 2),
    "norm.ScalarOpt_dim_dtype": lambda: (_x(4, 3), 3, [1], False),
    "slice_inverse": lambda: (_x(4, 3), _x(4, 3), 0, 0, 4, 1),
    "index_copy": lambda: (_x(4, 3), 0, _i(0, 2), _x(2, 3)),
    "im2col": lambda: (_x(1, 1, 5, 5), [2, 2], [1, 1], [1, 0], [2, 1]),
    "col2im": lambda: (_x(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
    "squeeze_": lambda: (_x(2, 1, 3),),
    "squeeze_.dims": lambda: (_x(2, 1, 3, 1), [1, 3]),
    "t_": lambda: (_x(2, 3),),
    "transpose_": lambda: (_x(2, 3), 0, 1),
    "unsafe_split_with_sizes": lambda: (_x(5, 2), [2, 3], 0),
    "unsqueeze_": lambda: (_x(2, 3), 1),
    "zero_": lambda: (_x(2, 3),),
    "_euclidean_dist": lambda: (_x(4, 3), _x(2, 3)),
    "_index_put_impl_": lambda: (_x(4, 3), [_i(0, 2)], _x(2, 3), True),
    "_lazy_clone": lambda: (_x(3),),
    "_neg_view": lambda: (_x(3),),
    "_pack_padded_sequence": lambda: (_x(3, 2, 4), _i(3, 2), False),
    "_reshape_alias": lambda: (_x(2, 3), [6], [1]),
    "_reshape_copy": lambda: (_x(2, 3), [6]),
    "_unsafe_index.Tensor": lambda: (_x(4, 3), [_i(0, 2, 2)]),
    "_unsafe_index_put": lambda: (_x(4, 3), [_i(0, 2)], _x(2, 3), False),
    "_unique": lambda: (_x(4),),
    "unique_dim": lambda: (_x(4, 2), 0),
    "unique_dim_consecutive": lambda: (_x(4, 2), 0),
    "_weight_norm_interface": lambda: (_x(4, 3), _p(4, 1), 0),
}

_COPIES: dict[str, Callable[[], Arguments]] = {
    "_conj_copy": lambda: (_z(3),),
    "_neg_view_copy": lambda: (_x(3),),
    "_reshape_alias_copy": lambda: (_x(2, 3), [6], [1]),
    "_test_autograd_multiple_dispatch_view_copy": lambda: (_x(3),),
    "select_copy.int": lambda: (_x(4, 3), 1, 2),
    "slice_copy.Tensor": lambda: (_x(4, 3), 0, 1, 3),
    "split_copy.Tensor": lambda: (_x(5, 2), 2, 0),
    "squeeze_copy.dims": lambda: (_x(2, 1, 3, 1), [1, 3]),
    "view_as_complex_copy": lambda: (_x(3, 2),),
    "view_as_real_copy": lambda: (_z(3),),
}

_LAYERS: dict[str, Callable[[], Arguments]] = {
    "conv_tbc": lambda: (_x(5, 2, 3), _x(2, 3, 4), _x(4), 1),
    "reflection_pad2d": lambda: (_x(1, 4, 4), [1, 2, 1, 1]),
    "reflection_pad3d": lambda: (_x(1, 3, 3, 3), [1, 2, 1, 1, 0, 1]),
    "replication_pad3d": lambda: (_x(1, 3, 3, 3), [1, 2, 1, 1, 0, 1]),
    "upsample_nearest3d": lambda: (_x(1, 2, 2, 2, 3), [3, 4, 5]),
    "max_pool2d_backward": lambda: (_x(1, 1, 2, 2), _x(1, 1, 4, 4), [2, 2], [2, 2]),
    "mkldnn_convolution": lambda: (
        *(_x(1, 2, 5, 5, dtype=torch.float32), _x(3, 2, 3, 3, dtype=torch.float32), _x(3, dtype=torch.float32)),
        *([1, 1], [1, 1], [1, 1], 1),
    ),
    "slow_conv3d_forward": lambda: (_x(1, 2, 3, 4, 4), _x(3, 2, 2, 2, 2), [2, 2, 2], _x(3), [1, 1, 1], [0, 1, 0]),
    "slow_conv_dilated2d": lambda: (_x(1, 2, 5, 5), _x(3, 2, 2, 2), [2, 2], _x(3), [1, 1], [0, 0], [2, 2]),
    "slow_conv_dilated3d": lambda: (
        *(_x(1, 2, 4, 4, 4), _x(3, 2, 2, 2, 2), [2, 2, 2], _x(3), [1, 1, 1]),
        *([0, 0, 0], [2, 2, 2]),
    ),
    "slow_conv_transpose2d": lambda: (_x(1, 2, 4, 4), _x(2, 3, 2, 2), [2, 2], _x(3), [2, 1]),
    "slow_conv_transpose3d": lambda: (_x(1, 2, 3, 3, 3), _x(2, 3, 2, 2, 2), [2, 2, 2], _x(3), [2, 1, 1]),
    "_convolution": lambda: (
        *(_x(1, 2, 5), _x(3, 2, 3), _x(3), [1], [1], [1], False, [0], 1),
        *(False, False, False, False),
    ),
    "_grid_sampler_2d_cpu_fallback": lambda: (_x(1, 2, 4, 4), _x(1, 3, 3, 2) / 2, 0, 0, True),
    "_slow_conv2d_forward": lambda: (_x(1, 2, 5, 5), _x(3, 2, 3, 3), [3, 3], _x(3), [1, 1], [1, 1]),
    "_slow_conv2d_backward.output_mask": lambda: (
        *(_x(1, 3, 5, 5), _x(1, 2, 5, 5), _x(3, 2, 3, 3), [3, 3], [1, 1], [1, 1]),
        [True, True, True],
    ),
    "_upsample_bicubic2d_aa": lambda: (_x(1, 2, 4, 4), [6, 5], False),
    "_upsample_lanczos2d_aa": lambda: (_x(1, 2, 4, 4), [6, 5], False),
    "_upsample_nearest_exact2d": lambda: (_x(1, 2, 3, 3), [5, 4]),
    "_upsample_nearest_exact3d": lambda: (_x(1, 2, 2, 2, 3), [3, 4, 5]),
    "_adaptive_avg_pool3d_backward": lambda: (_x(2, 3, 2, 1, 2), _x(2, 3, 4, 3, 5)),
    "_scaled_dot_product_flash_attention_for_cpu": lambda: (_x(1, 2, 4, 3), _x(1, 2, 5, 3), _x(1, 2, 5, 3)),
}

_NORMALIZED: dict[str, Callable[[], Arguments]] = {
    "_batch_norm_no_update": lambda: (_x(4, 3, 2), _x(3), _x(3), _x(3), _p(3), 0.1, 1e-5),
    "_fused_rms_norm": lambda: (_x(4, 3), [3], _x(3), 1e-5),
    "_native_batch_norm_legit.no_stats": lambda: (_x(4, 3, 2), _x(3), _x(3), True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training": lambda: (_x(4, 3, 2), _x(3), _x(3), _x(3), _p(3), 0.1, 1e-5),
    "native_batch_norm_backward": lambda: (
        *(_x(4, 3, 2), _x(4, 3, 2), _x(3), _x(3), _p(3), _x(3), _p(3), False, 1e-5),
        [True, True, True],
    ),
}


_FOREACH: dict[str, Callable[[], Arguments]] = {
    "_foreach_div.List": lambda: ([_x(2), _x(3)], [_p(2), _p(3)]),
    "_foreach_pow.List": lambda: ([_p(2), _p(3)], [_x(2), _x(3)]),
    "_foreach_pow.ScalarList": lambda: ([_p(2), _p(3)], [2.0, 0.5]),
    "_foreach_pow.ScalarAndTensor": lambda: (1.7, [_x(2), _x(3)]),
    "_foreach_minimum.Scalar": lambda: ([_x(9), _x(8)], 0.1),
    "_foreach_minimum.ScalarList": lambda: ([_x(9), _x(8)], [0.1, -0.2]),
    "_foreach_maximum.Scalar": lambda: ([_x(9), _x(8)], 0.1),
    "_foreach_maximum.ScalarList": lambda: ([_x(9), _x(8)], [0.1, -0.2]),
    "_foreach_norm.Scalar": lambda: ([_x(4), _x(3)], 2),
    "_foreach_mm": lambda: ([_x(2, 3), _x(3, 2)], [_x(3, 4), _x(2, 2)]),
}

WRITTEN = {**_COMPARED, **_POINTWISE, **_SHAPED, **_COPIES, **_LAYERS, **_NORMALIZED, **_FOREACH}
# Arguments by name, of the calls above.
NAMED: dict[str, dict[str, Any]] = {
    **{name: {"alpha": 2 + 3j} for name in ("add.Tensor", "sub.Tensor", "rsub.Tensor")},
    "div.Scalar_mode": {"rounding_mode": None},
    "div.Tensor_mode": {"rounding_mode": None},
    "norm.ScalarOpt_dtype": {"dtype": torch.float64},
    "norm.ScalarOpt_dim_dtype": {"dtype": torch.float64},
}
