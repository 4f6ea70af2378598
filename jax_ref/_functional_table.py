"""The functions of torch.nn.functional that one operator of `jax_ref.aten` computes: a row each."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
MODES = {
    "mode": {"bilinear": 0, "nearest": 1, "bicubic": 2},
    "padding_mode": {"zeros": 0, "border": 1, "reflection": 2},
}


class Row(NamedTuple):
    """A function of PyTorch's by the operator that computes it.

    Attributes:
        parameters: as in Python's signature.
        operator: the operator's name; that of the function if it is empty.
        renamed: the operator's names of parameters, by those of the function; `input` is also `self`.
        fixed: arguments of the operator that the function does not have.
    """

    parameters: str
    operator: str = ""
    renamed: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}


_UNARY = ["relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid", "tanh", "sigmoid"]
_CONV = "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1"
_CONV_TRANSPOSE = "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1"
_AVG_POOL = "input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True"
_MAX_POOL = "input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False"
_STATISTICS = "weight=None, bias=None, {}, momentum=0.1, eps=1e-05"
_LOSS = "input, target, *, reduction='mean'"
_SLIDING = "kernel_size, dilation=1, padding=0, stride=1"

TABLE: dict[str, Row] = {
    **{name: Row("input") for name in _UNARY},
    "elu": Row("input, alpha=1.0"),
    "celu": Row("input, alpha=1.0"),
    "gelu": Row("input, approximate='none'"),
    "glu": Row("input, dim=-1"),
    "hardshrink": Row("input, lambd=0.5"),
    "softshrink": Row("input, lambd=0.5"),
    "hardtanh": Row("input, min_val=-1.0, max_val=1.0"),
    "leaky_relu": Row("input, negative_slope=0.01"),
    "logsigmoid": Row("input", "log_sigmoid"),
    "prelu": Row("input, weight"),
    "softplus": Row("input, beta=1, threshold=20"),
    "threshold": Row("input, threshold, value"),
    "softmax": Row("input, dim, *, dtype=None"),
    "log_softmax": Row("input, dim, *, dtype=None"),
    "linear": Row("input, weight, bias=None"),
    **{f"conv{n}d": Row(_CONV) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": Row(_CONV_TRANSPOSE) for n in (1, 2, 3)},
    "conv_tbc": Row("input, weight, bias, pad=0"),
    "unfold": Row(f"input, {_SLIDING}", "im2col"),
    "fold": Row(f"input, output_size, {_SLIDING}", "col2im"),
    "avg_pool1d": Row(_AVG_POOL),
    **{f"avg_pool{n}d": Row(f"{_AVG_POOL}, divisor_override=None") for n in (2, 3)},
    **{f"max_pool{n}d": Row(_MAX_POOL, f"max_pool{n}d_with_indices") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": Row("input, output_size") for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": Row("input, output_size, return_indices=False") for n in (1, 2, 3)},
    "layer_norm": Row("input, normalized_shape, weight=None, bias=None, eps=1e-05"),
    "rms_norm": Row("input, normalized_shape, weight=None, eps=None"),
    "group_norm": Row("input, num_groups, weight=None, bias=None, eps=1e-05"),
    "batch_norm": Row(
        f"input, running_mean, running_var, {_STATISTICS.format('training=False')}", fixed={"cudnn_enabled": False}
    ),
    "instance_norm": Row(
        f"input, running_mean=None, running_var=None, {_STATISTICS.format('use_input_stats=True')}",
        fixed={"cudnn_enabled": False},
    ),
    "scaled_dot_product_attention": Row(
        "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False"
    ),
    "pixel_shuffle": Row("input, upscale_factor"),
    "pixel_unshuffle": Row("input, downscale_factor"),
    "channel_shuffle": Row("input, groups"),
    "native_channel_shuffle": Row("input, groups"),
    "pad": Row("input, pad, mode='constant', value=None"),
    "affine_grid": Row("theta, size, align_corners=False", "affine_grid_generator"),
    "grid_sample": Row(
        "input, grid, mode='bilinear', padding_mode='zeros', align_corners=False",
        "grid_sampler",
        {"mode": "interpolation_mode"},
    ),
    "cosine_similarity": Row("x1, x2, dim=1, eps=1e-08"),
    "pairwise_distance": Row("x1, x2, p=2.0, eps=1e-06, keepdim=False"),
    "pdist": Row("input, p=2", "_pdist_forward"),
    "mse_loss": Row(_LOSS),
    "l1_loss": Row(_LOSS),
    "soft_margin_loss": Row(_LOSS),
    "multilabel_margin_loss": Row(_LOSS),
    "huber_loss": Row("input, target, reduction='mean', delta=1.0"),
    "smooth_l1_loss": Row(f"{_LOSS}, beta=1.0"),
    "binary_cross_entropy": Row("input, target, weight=None, *, reduction='mean'"),
    "binary_cross_entropy_with_logits": Row("input, target, weight=None, *, reduction='mean', pos_weight=None"),
    "nll_loss": Row("input, target, weight=None, *, ignore_index=-100, reduction='mean'", "nll_loss_nd"),
    "cross_entropy": Row(
        "input, target, weight=None, *, ignore_index=-100, reduction='mean', label_smoothing=0.0", "cross_entropy_loss"
    ),
    "poisson_nll_loss": Row("input, target, log_input=True, full=False, *, eps=1e-08, reduction='mean'"),
    "hinge_embedding_loss": Row("input, target, margin=1.0, *, reduction='mean'"),
    "multi_margin_loss": Row("input, target, p=1, margin=1.0, weight=None, *, reduction='mean'"),
    "margin_ranking_loss": Row("input1, input2, target, margin=0, *, reduction='mean'"),
    "cosine_embedding_loss": Row("input1, input2, target, margin=0, *, reduction='mean'"),
    "triplet_margin_loss": Row(
        "anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, *, reduction='mean'"
    ),
    "ctc_loss": Row(
        "log_probs, targets, input_lengths, target_lengths, blank=0, reduction='mean', zero_infinity=False"
    ),
}


# With those that are written out in `jax_ref.functional`.
NAMES = (*TABLE, "dropout", "embedding", "kl_div", "normalize", "softmin", "softsign", "tanhshrink")


def signature(row: Row) -> inspect.Signature:
    """Return the parameters of a row, without types."""
    kind, found = inspect.Parameter.POSITIONAL_OR_KEYWORD, []
    for each in row.parameters.split(", "):
        name, _, default = each.partition("=")
        if name == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            value = ast.literal_eval(default) if default else inspect.Parameter.empty
            found.append(inspect.Parameter(name, kind, default=value))
    return inspect.Signature(found)


def parameter_of(row: Row, name: str, operator: Callable[..., Any]) -> str:
    """Return the name that the operator has for a parameter."""
    renamed = row.renamed.get(name, name)
    return "self" if renamed == "input" and "input" not in inspect.signature(operator).parameters else renamed
