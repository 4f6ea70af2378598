"""Exact zeros, between JAX's rules with `symbolic_zeros` and the formulas, in which `None` is one."""

from __future__ import annotations

from typing import Any

from jax.custom_derivatives import SymbolicZero, zero_from_primal


def none(x: Any) -> Any:
    """A tangent or cotangent, `None` for an exact zero."""
    return None if isinstance(x, SymbolicZero) else x


def with_symbolic_zeros(results: tuple, tangents: tuple) -> Any:
    """The tangents of results as a JVP rule returns them, where `None` is an exact zero."""
    return tuple(
        zero_from_primal(result, symbolic_zeros=True) if tangent is None else tangent
        for result, tangent in zip(results, tangents, strict=True)
    )
