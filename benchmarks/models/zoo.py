"""The hundred models of `models.toml`, small and with random weights, and what each is called with."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_map

from benchmarks.models import configurations


class Example(NamedTuple):
    """A model in eval mode, and what it is called with."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


_NAMES = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
_KINDS = {name: kind for kind, names in _NAMES["transformers"].items() for name in names}
_NAMES["transformers"] = list(_KINDS)
MODELS = tuple(f"{family}/{name}" for family, names in _NAMES.items() for name in names)
_PIXELS = {
    "inception_v3": 96,
    "inception_resnet_v2": 96,
    "test_vit": 160,
    "vitamin_small_224": 224,
    "maxvit_t": 224,
    "efficientformer_l1": 224,
    "nest_tiny": 224,
    "levit_128s": 224,
}
_PIXELS |= {"beit_base_patch16_224": 224, "coat_tiny": 224, "swinv2_tiny_window8_256": 256, "vit_b_16": 224}


def _torchvision(name: str) -> Example:
    _register_what_torchvision_has()
    from torchvision import models  # pyright: ignore[reportMissingImports]

    return Example(models.get_model(name), (_picture(name),))


def _timm(name: str) -> Example:
    _register_what_torchvision_has()
    import timm  # pyright: ignore[reportMissingImports]

    return Example(timm.create_model(name), (_picture(name),))


def _transformers(name: str) -> Example:
    _register_what_torchvision_has()
    return Example(configurations.model(name, _KINDS[name]), (), configurations.batch(name, _KINDS[name]))


def _picture(name: str) -> torch.Tensor:
    pixels = _PIXELS.get(name, 64)
    return torch.randn(1, 3, pixels, pixels)


def _register_what_torchvision_has() -> None:
    """Name the two operators of torchvision that its import needs.

    Its compiled part does not load where PyTorch is built for CPUs and the wheel is for CUDA; no model here calls it.
    """
    if not hasattr(torch.ops.torchvision, "nms"):
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _diffusers(name: str) -> Example:
    _register_what_torchvision_has()
    import diffusers  # pyright: ignore[reportMissingImports]

    two = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
    heads = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 1, "sample_size": 8, "patch_size": 2}
    x, t = torch.randn(2, 4, 8, 8), torch.tensor([3, 5])
    config, call = {
        "UNet2DModel": (
            two
            | {"in_channels": 4, "out_channels": 4, "attention_head_dim": 4}
            | {"down_block_types": ("DownBlock2D", "AttnDownBlock2D")}
            | {"up_block_types": ("AttnUpBlock2D", "UpBlock2D")},
            {"sample": x, "timestep": t},
        ),
        "UNet2DConditionModel": (
            two
            | {"cross_attention_dim": 8, "attention_head_dim": 4}
            | {"down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D")}
            | {"up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")},
            {"sample": x, "timestep": t, "encoder_hidden_states": torch.randn(2, 5, 8)},
        ),
        "DiTTransformer2DModel": (
            heads | {"in_channels": 4, "num_embeds_ada_norm": 10},
            {"hidden_states": x, "timestep": t, "class_labels": t},
        ),
        "SD3Transformer2DModel": (
            heads
            | {"in_channels": 4, "out_channels": 4, "joint_attention_dim": 16, "caption_projection_dim": 16}
            | {"pooled_projection_dim": 8, "pos_embed_max_size": 8},
            {"hidden_states": x, "timestep": t}
            | {"encoder_hidden_states": torch.randn(2, 5, 16), "pooled_projections": torch.randn(2, 8)},
        ),
        "PixArtTransformer2DModel": (
            heads | {"in_channels": 4, "out_channels": 8, "cross_attention_dim": 16, "caption_channels": 8},
            {"hidden_states": x, "timestep": t, "encoder_hidden_states": torch.randn(2, 5, 8)}
            | {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}},
        ),
        "AutoencoderKL": (
            two | {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
            {"sample": torch.randn(2, 3, 16, 16)},
        ),
    }[name]
    return Example(getattr(diffusers, name)(**config), (), call)


def _torch_geometric(name: str) -> Example:
    from torch_geometric.nn import models  # pyright: ignore[reportMissingImports]

    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]])
    how: dict[str, Any] = {"in_channels": 3, "hidden_channels": 8, "num_layers": 2, "out_channels": 4}
    if name == "PNA":
        how |= {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"]}
        how |= {"deg": torch.tensor([0, 4, 2])}
    return Example(getattr(models, name)(**how), (torch.randn(6, 3), edges))


def _nn(name: str) -> Example:
    x = torch.randn(5, 2, 8)
    if name in ("RNN", "GRU", "LSTM"):
        return Example(getattr(nn, name)(8, 6, num_layers=2, bidirectional=name != "RNN"), (x,))
    if name == "MultiheadAttention":
        return Example(nn.MultiheadAttention(8, 2), (x, x, x))
    wide = {"dim_feedforward": 16, "batch_first": True}
    ends = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    x = x.transpose(0, 1).contiguous()
    if name == "TransformerEncoder":
        layer = nn.TransformerEncoderLayer(8, 2, **wide)
        return Example(
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (x,), {"src_key_padding_mask": ends}
        )
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    both = nn.Transformer(8, 2, num_encoder_layers=1, num_decoder_layers=1, **wide)
    return Example(both, (x, x.flip(0)), {"tgt_mask": mask, "tgt_is_causal": True})


_MAKERS: Mapping[str, Callable[[str], Example]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
    "diffusers": _diffusers,
    "torch_geometric": _torch_geometric,
    "torch.nn": _nn,
}


def made(name: str) -> Example:
    """A model by "family/name" in float64, with weights none of which is zero, and its arguments."""
    family, _, own = name.partition("/")
    torch.manual_seed(0)
    model, args, kwargs = _MAKERS[family](own)
    model = model.eval().double()
    for x in model.parameters():
        x.data += 0.02 * torch.randn_like(x)
    args, kwargs = tree_map(_double, (args, dict(kwargs)))
    return Example(model, args, kwargs)


def _double(x: Any) -> Any:
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x
