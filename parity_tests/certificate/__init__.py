"""Certificates of conversions: what `to_jax` returns, compared with PyTorch within bounds that the harness derives."""
