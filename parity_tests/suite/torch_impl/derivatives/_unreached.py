"""Formulas that no call here reaches, or that are not evaluated, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from parity_tests.suite.torch_impl.derivatives._comparison import Mode

_COMPOSITE = "autograd differentiates what the operator is made of; the formula is for nested tensors or MPS"
_DEVICE = "the kernel is of another device than the CPU: CUDA, cuDNN, MIOpen, MPS, XPU"
_LAYOUT = "its tensors are mkldnn's"
_NESTED = "its tensors are nested"
_SPARSE = "its tensors are sparse"
_COMPLEX = "PyTorch itself refuses: its list of operators whose gradients hold for complex outputs lacks it"
_WHOLE = "the input is a mask or a buffer of bytes, which has no gradient"
_SHAPE = "PyTorch itself refuses: the tangent of its formula has another shape than the result; docs/found.md, 60"

UNREACHED: Mapping[Mode, Mapping[str, str]] = {
    "vjp": {
        **dict.fromkeys(
            ("chunk", "linear", "linear_backward", "matmul", "max_pool2d", "max_pool2d_backward"), _COMPOSITE
        ),
        **dict.fromkeys(("cudnn_*", "_cudnn_*", "miopen_*", "_mps_*", "mps_*", "_lstm_mps", "_thnn_*"), _DEVICE),
        **dict.fromkeys(("_conv_depthwise2d", "conv_depthwise3d", "convolution*_overrideable"), _DEVICE),
        **dict.fromkeys(("_flash_attention_forward", "_efficient_attention_forward", "_fused_dropout"), _DEVICE),
        **dict.fromkeys(("_grouped_mm", "_pin_memory", "_scaled_dot_product_*"), _DEVICE),
        **dict.fromkeys(("to_mkldnn", "mkldnn_*", "_mkldnn_reshape", "_nnpack_spatial_convolution"), _LAYOUT),
        **dict.fromkeys(("_nested_*", "to_padded_tensor"), _NESTED),
        **dict.fromkeys(("_sparse_*", "sparse_compressed_tensor.*", "_to_sparse*", "_to_dense", "_coalesce"), _SPARSE),
        **dict.fromkeys(("values", "values_copy"), _SPARSE),
        **dict.fromkeys(("_conj_copy", "view_as_complex_copy"), _COMPLEX),
        **dict.fromkeys(("native_dropout_backward", "batch_norm_backward"), _WHOLE),
        "_embedding_bag_dense_backward": "it is not implemented, and embedding_bag's backward calls it below autograd",
        "_fake_quantize_learnable_*": "the kernel takes float32 only",
        "_fused_moving_avg_obs_fq_helper": "it updates the statistics of a quantization observer in place",
        "_grid_sampler_2d_cpu_fallback*": "PyTorch calls it within grid_sampler_2d only",
        "lift_fresh_copy": "PyTorch makes constants of a trace with it, which have no gradient",
    },
    "jvp": {
        **dict.fromkeys(("norm.Scalar", "norm.ScalarOpt_dtype", "_foreach_norm.Scalar"), _SHAPE),
        **dict.fromkeys(("cudnn_batch_norm", "miopen_batch_norm"), _DEVICE),
        **dict.fromkeys(("lift", "lift_fresh", "lift_fresh_copy"), "it takes no tangent"),
        "max_pool2d_backward": _COMPOSITE,
    },
}

NOT_EVALUATED: Mapping[str, str] = {
    "grid_sampler_2d_double_backward": "a second derivative of the interpolation, in three modes",
    "grid_sampler_3d_double_backward": "a second derivative of the interpolation, in three modes",
    "sparse_mask_backward": _SPARSE,
    "sparse_sampled_addmm_backward": _SPARSE,
}


def reason_of(mode: Mode, name: str) -> str | None:
    """The pattern under which an operator's formulas are known not to be reached."""
    return next((pattern for pattern in UNREACHED[mode] if fnmatchcase(name, pattern)), None)
