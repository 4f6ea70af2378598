"""The suite's operators and their implementations, by name alone: `operators.py` has what the names stand for."""

from __future__ import annotations

_IN_MODELS = ("attention_composite", "attention_jax", "attention_ad")
_BLOCK_BY_BLOCK = ("attention_blockwise", "attention_blockwise_ad")

IMPLEMENTATIONS: dict[str, tuple[str, ...]] = {
    "attn": (
        *("attn_composite", "attn_function", "attn_native_implicit", "attn_native"),
        *("engine_composite", "engine_formula"),
    ),
    "attn_float32": ("attn_ffi",),
    "attention_head": _IN_MODELS,
    "attention_grouped": _IN_MODELS,
    "attention_unbatched": (*_IN_MODELS, *_BLOCK_BY_BLOCK),
    "attention_causal": (*_IN_MODELS, *_BLOCK_BY_BLOCK),
}
