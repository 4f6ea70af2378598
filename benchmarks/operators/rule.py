"""The rule by which the operators of the survey were chosen, so that nobody chose them by how they fare.

The differentiable entries of op_db, PyTorch's own list of operators, are sorted by name and cut into a hundred groups
of five or six. Of each group the third entry is taken; if it is in `PASSED_OVER`, the next one of the group, and after
the last one the first and the second. A group that is passed over as a whole leaves its place to the next group.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

GROUPS = 100
START = 2

# Why an entry was not taken where it would have been its turn. Those after the one that was taken were not looked at.
_COPIES = "copies or casts: its derivative is that of the identity"
_RANDOM = "is random"
_IN_COLLECTION = "is in the collection of the suite"
_NO_COUNTERPART = "JAX has no function with a derivative for it that fits in a line or two"
_INTERNAL = "is not public, or is a backward"
_ZERO = "its derivative is zero"
_MEMORY = "is about memory and not about numbers"

PASSED_OVER: dict[str, str] = {
    **dict.fromkeys(
        [
            "alias_copy",
            "atleast_3d",
            "cdouble",
            "cfloat",
            "chalf",
            "clone",
            "contiguous",
            "double",
            "expand_copy",
            "float",
            "half",
            "permute_copy",
            "reshape",
            "reshape_as",
            "resolve_conj",
            "slice",
            "t_copy",
            "unflatten",
            "unfold_copy",
            "unsafe_chunk",
            "unsafe_split",
            "view_as",
        ],
        _COPIES,
    ),
    **dict.fromkeys(
        [
            "bernoulli",
            "normal",
            "normal.number_mean",
            "nn.functional.alpha_dropout",
            "nn.functional.dropout2d",
            "nn.functional.dropout3d",
            "nn.functional.feature_alpha_dropout.without_train",
            "nn.functional.fractional_max_pool2d",
            "nn.functional.fractional_max_pool3d",
            "nn.functional.rrelu",
        ],
        _RANDOM,
    ),
    **dict.fromkeys(
        [
            "cumsum",
            "log_softmax",
            "log_softmax.with_dtype",
            "logdet",
            "native_layer_norm",
            "nn.functional.bilinear",
            "nn.functional.kl_div",
            "nn.functional.max_pool1d",
            "nn.functional.max_pool2d",
            "nn.functional.max_pool3d",
            "nn.functional.mish",
            "nn.functional.normalize",
            "var",
            "var.unbiased",
        ],
        _IN_COLLECTION,
    ),
    **dict.fromkeys(
        [
            "_segment_reduce.lengths",
            "_segment_reduce.offsets",
            "grid_sampler_3d",
            "istft",
            "linalg.svd",
            "linalg.householder_product",
            "nn.functional.interpolate.bicubic",
            "nn.functional.linear_cross_entropy.chunked",
            "nn.functional.max_unpool2d",
            "nn.functional.max_unpool3d",
            "nn.functional.max_unpool1d",
            "nn.functional.max_unpool2d.grad",
            "nn.functional.max_unpool3d.grad",
            "nn.functional.max_unpool1d.grad",
            "nn.functional.multi_head_attention_forward",
            "nn.functional.multilabel_margin_loss",
            "mode",
            "native_group_norm",
            "ormqr",
            "sparse.mm.reduce",
            "sparse.sampled_addmm",
            "float_power",
        ],
        _NO_COUNTERPART,
    ),
    **dict.fromkeys(
        [
            "_softmax_backward_data",
            "_unsafe_masked_index",
            "_batch_norm_with_update",
            "_native_batch_norm_legit",
            "max_pool2d_with_indices_backward",
            "native_dropout_backward",
            "torch.ops.aten._efficient_attention_forward",
            "torch.ops.aten._flash_attention_forward",
            "torch.ops.aten._safe_softmax.default",
        ],
        _INTERNAL,
    ),
    **dict.fromkeys(["ceil", "fill", "floor", "nn.functional.one_hot"], _ZERO),
    **dict.fromkeys(["as_strided", "as_strided.partial_views", "as_strided_copy", "as_strided_scatter"], _MEMORY),
}


def chosen(names: Sequence[str], passed_over: Container[str] = PASSED_OVER) -> list[str]:
    """The operators that the rule takes of these, which are all names of op_db that are differentiable.

    `passed_over`: those that leave their place to the next of their group.

    Raises:
        ValueError: the last groups leave places that no group is there to take.
    """
    names, taken, places = sorted(set(names)), [], 0
    for i in range(GROUPS):
        group = names[i * len(names) // GROUPS : (i + 1) * len(names) // GROUPS]
        in_order = [name for name in group[START:] + group[:START] if name not in passed_over]
        places += 1
        taken += in_order[:places]
        places -= len(in_order[:places])
    if places:
        raise ValueError(f"{places} operators are missing after the last group")
    return taken
