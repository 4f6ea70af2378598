"""Where a program of another framework is read as one of JAX, and cannot be."""

from __future__ import annotations


class CannotConvert(ValueError):
    """Raised where a function of PyTorch or NumPy cannot be made a function of JAX; the message has a remedy."""


class NoOperator(CannotConvert):
    """Raised where an operator of PyTorch has no counterpart in `jax_ref.aten`."""
