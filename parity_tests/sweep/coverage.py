"""Which operators of ATen `jax_ref.aten` has, by family, and which of the core it does not have: docs/aten.md."""

from __future__ import annotations

from collections import Counter

import torch

from jax_ref import aten

_DRAWN = "draws random numbers"
_SIZES = "returns a size, which is Python's in JAX"
MISSING = {  # of the core, with the reason
    "_embedding_bag": "returns offsets and counts that only its own backward reads; `embedding` and a sum are the same",
    "_local_scalar_dense": "returns a number of Python's",
    "empty": "has no values",
    "empty_strided": "has no values",
    "native_dropout": _DRAWN,
    "rand": _DRAWN,
    "randn": _DRAWN,
    "randperm": _DRAWN,
    "resize_": "writes to its input",
    "sym_is_contiguous": "is about memory",
    "sym_numel": _SIZES,
    "sym_size": _SIZES,
    "sym_storage_offset": _SIZES,
    "sym_stride": _SIZES,
}

# Those that no sample of float64 calls: variants of others, what only complex numbers or other devices need.
NOT_REACHED = frozenset(
    [
        "_batch_norm_no_update",
        "_batch_norm_with_update",
        "_batch_norm_with_update_functional",
        "_conj_copy",
        "_conv_depthwise2d",
        "_convolution",
        "_fused_rms_norm",
        "_fused_rms_norm_backward",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
        "_pad_circular",
        "_pad_enum",
        "_reshape_alias",
        "_scaled_dot_product_attention_math",
        "_slow_conv2d_forward",
        "_unsafe_index",
        "_unsafe_index_put",
        "_upsample_bicubic2d_aa",
        "_upsample_bicubic2d_aa_backward",
        "_upsample_lanczos2d_aa",
        "_upsample_lanczos2d_aa_backward",
        "affine_grid_generator",
        "affine_grid_generator_backward",
        "bitwise_left_shift",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "concat",
        "conj",
        "contiguous",
        "conv_depthwise3d",
        "conv_tbc",
        "conv_tbc_backward",
        "copy",
        "detach_copy",
        "imag",
        "inverse",
        "max_pool2d_backward",
        "native_channel_shuffle",
        "nll_loss",
        "nll_loss2d",
        "rrelu_with_noise",
        "select_copy",
        "slice_copy",
        "slow_conv3d",
        "slow_conv3d_forward",
        "slow_conv_dilated2d",
        "slow_conv_dilated3d",
        "slow_conv_transpose2d",
        "slow_conv_transpose3d",
        "split_copy",
        "thnn_conv2d",
        "unsafe_split_with_sizes",
        "vander",
        "view_as_complex_copy",
        "view_as_real_copy",
    ]
)


def packets() -> set[str]:
    """Return the operators of `jax_ref.aten`, without overloads and without "aten::"."""
    return {name.removeprefix("aten::").partition(".")[0] for name in aten.OPERATORS}


def core() -> set[str]:
    """Return the operators of the core ATen IR, which PyTorch marks with a tag."""
    found = set()
    for full in torch._C._dispatch_get_all_op_names():  # torch.ops lists what was asked for only
        name, _, overload = full.removeprefix("aten::").partition(".")
        if (
            full.startswith("aten::")
            and torch.Tag.core in getattr(getattr(torch.ops.aten, name), overload or "default").tags
        ):
            found.add(name)
    return found


def as_markdown() -> str:
    """Return the page."""
    by_family: dict[str, list[str]] = {}
    for name in aten.OPERATORS:
        by_family.setdefault(aten.OPERATORS.family(name), []).append(name.removeprefix("aten::"))
    counts = Counter({family: len({n.partition(".")[0] for n in names}) for family, names in by_family.items()})
    rows = [
        f"| `{family}` | {counts[family]} | {', '.join(sorted({n.partition('.')[0] for n in names}))} |"
        for family, names in sorted(by_family.items())
    ]
    missing = [f"| `{name}` | {reason} |" for name, reason in MISSING.items()]
    return "\n".join(
        [
            "# ATen's operators in JAX",
            "",
            f"`jax_ref.aten` has {len(packets())} operators of ATen as plain JAX functions, among them",
            f"{len(core() & packets())} of the {len(core())} of the core ATen IR. PyTorch's own samples (OpInfo) call",
            f"{len(packets() - NOT_REACHED)} of them. They are certified: their values against PyTorch's, JAX's JVP of",
            "them against differences, and the VJP against the JVP.",
            "",
            "Not called, and not certified here: " + ", ".join(f"`{name}`" for name in sorted(NOT_REACHED)) + ".",
            "",
            "| family | operators | |",
            "|---|---|---|",
            *rows,
            "",
            "## What the core has besides",
            "",
            "| operator | why it is not here |",
            "|---|---|",
            *missing,
            "",
        ]
    )
