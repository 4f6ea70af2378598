"""Why an entry of derivatives.yaml has no calls in float64 or complex128 on a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

_DEVICE = "the kernel is of another device than the CPU: CUDA, cuDNN, MIOpen, MPS, NNPACK"
_LAYOUT = "its tensors are oneDNN's, in float32"
_NESTED = "its tensors are nested"
_SPARSE = "its tensors are sparse"
_FLOAT32 = "the kernel takes float32 only"

WITHOUT_CALLS: Mapping[str, str] = {
    **dict.fromkeys(("cudnn_*", "_cudnn_*", "miopen_*", "_mps_*", "mps_*", "_lstm_mps", "_thnn_*"), _DEVICE),
    **dict.fromkeys(("convolution*_overrideable", "_nnpack_spatial_convolution", "_pin_memory"), _DEVICE),
    **dict.fromkeys(("_flash_attention_forward", "_efficient_attention_forward", "_fused_dropout"), _DEVICE),
    **dict.fromkeys(("_scaled_dot_product_efficient_attention", "_scaled_dot_product_flash_attention"), _DEVICE),
    **dict.fromkeys(("_scaled_dot_product_cudnn_attention", "_scaled_dot_product_fused_attention_*"), _DEVICE),
    **dict.fromkeys(("to_mkldnn", "mkldnn_*", "_mkldnn_reshape"), _LAYOUT),
    **dict.fromkeys(("_nested_*", "to_padded_tensor"), _NESTED),
    **dict.fromkeys(("_sparse_*", "sparse_*", "_to_sparse*", "_to_dense", "_coalesce", "values"), _SPARSE),
    **dict.fromkeys(("_fake_quantize_learnable_*", "_grid_sampler_2d_cpu_fallback*"), _FLOAT32),
    "_fused_moving_avg_obs_fq_helper": "it updates the statistics of a quantization observer in place",
    "_embedding_bag_dense_backward": "it is not implemented, and embedding_bag's backward calls it below autograd",
    "_grouped_mm": "the kernel takes no float64",
    "linear_backward": "autograd differentiates what the operator is made of; the formula is for nested tensors or MPS",
}


def reason_without_calls(operator: str) -> str | None:
    """Return why an entry, such as "sum.dim_IntList", has no calls; None if it has some or should."""
    return next((reason for pattern, reason in WITHOUT_CALLS.items() if fnmatchcase(operator, pattern)), None)
