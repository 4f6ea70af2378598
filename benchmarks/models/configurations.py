"""Small configurations of `transformers`: widths, depths and vocabularies that a small computer converts in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

VOCABULARY, LENGTH, IMAGE = 50, 7, 32
# Fields that are made small, in the parts of a configuration, too.
_WIDTH = (
    "hidden_size",
    "n_embd",
    "d_model",
    "dim",
    "embed_dim",
    "embedding_size",
    "projection_dim",
    "word_embed_proj_dim",
)
_INNER = ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "hidden_dim", "d_inner")
_DEPTH = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads", "decoder_attention_heads")
_SMALL: Mapping[str, Any] = {
    **dict.fromkeys(_WIDTH, 16),
    **dict.fromkeys(_INNER, 32),
    **dict.fromkeys(_DEPTH, 2),
    **dict.fromkeys(_HEADS, 2),
    "num_decoder_layers": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "d_kv": 8,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "image_size": IMAGE,
    "patch_size": 8,
    "use_cache": False,
}
_SHORT = {"conv_dim": [16] * 7, "num_conv_pos_embeddings": 4}
# By model, further fields.
OWN: Mapping[str, dict[str, Any]] = {
    "deepseek_v3": {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 16,
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "v_head_dim": 8,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 4,
        "head_dim": 4,
        "num_key_value_heads": 2,
    },
    "mamba2": {"num_heads": 4, "head_dim": 8, "n_groups": 2, "state_size": 4},
    "qwen2_moe": {"num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
    "segformer": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "num_attention_heads": [1, 2]},
    "swin": {"patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
    "whisper": {"max_source_positions": 16},
    "wav2vec2": _SHORT,
    "wav2vec2-conformer": _SHORT,
}


def model(name: str, kind: str) -> nn.Module:
    """A model, such as "llama", of a kind of `models.toml`, in a small configuration, with random weights."""
    from transformers import AutoConfig, AutoModel  # pyright: ignore[reportMissingImports]

    small = _smaller(AutoConfig.for_model(name).to_dict()) | OWN.get(name, {})
    # By default experts are multiplied by an operator that PyTorch does not have for float64.
    experts = {"experts_implementation": "batched_mm"} if kind == "experts" else {}
    return AutoModel.from_config(AutoConfig.for_model(name, **small), **experts)


def _smaller(config: Mapping[str, Any]) -> dict[str, Any]:
    parts = {name: _smaller(part) for name, part in config.items() if isinstance(part, dict) and "model_type" in part}
    return {name: _SMALL[name] for name, value in config.items() if name in _SMALL and isinstance(value, int)} | parts


def batch(name: str, kind: str) -> dict[str, Any]:
    """The arguments of a model, by its name and its kind in `models.toml`."""
    ids = torch.randint(3, VOCABULARY, (2, LENGTH))
    text, picture = {"input_ids": ids}, {"pixel_values": torch.randn(2, 3, IMAGE, IMAGE)}
    if name == "whisper":
        return {"input_features": torch.randn(2, 80, 32), "decoder_input_ids": ids}
    batches = {
        "both": text | {"decoder_input_ids": ids},
        "picture": picture,
        "sound": {"input_values": torch.randn(2, 1200)},
        "text_and_picture": text | picture,
    }
    return batches.get(kind, text)
