"""Operators that are functions of some matrices only: what an input is made of before the operator is called.

A derivative off the domain is a convention: PyTorch symmetrizes the gradient of a Hermitian matrix, and some formulas
give a number for a triangle that the operator never reads. Both frameworks are therefore asked for the derivatives of
the operator after the projection, in which no convention is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import torch

_HERMITIAN = {"cholesky": "self", "linalg_cholesky_ex": "self", "_linalg_eigh": "A"}
_FACTORS = {"cholesky_inverse": "self", "cholesky_solve": "input2"}  # of Cholesky: of their diagonal the real part
_TRIANGULAR = {"linalg_solve_triangular": "self", "triangular_solve": "A"}
_STRICTLY_LOWER = {"linalg_householder_product": "input", "ormqr": "self"}

Projection = Callable[[Any], Any]


def projections(operator: str, arguments: Mapping[str, Any]) -> Mapping[str, Projection]:
    """Return, by input, the function of arrays of any framework that projects on the operator's domain.

    Args:
        operator: the entry's name, with its overload.
        arguments: of the call, of which some say which triangle counts.
    """
    packet = operator.partition(".")[0]
    if packet in _HERMITIAN:
        return {_HERMITIAN[packet]: hermitian}
    if packet in _FACTORS:
        return {_FACTORS[packet]: lambda x: _factor(x, bool(arguments.get("upper", False)))}
    if packet in _TRIANGULAR:
        upper = bool(arguments.get("upper", True))
        diagonal = 1 if arguments.get("unitriangular") else 0
        return {_TRIANGULAR[packet]: lambda x: _triangle(x, upper, diagonal if upper else -diagonal)}
    if packet in _STRICTLY_LOWER:
        return {_STRICTLY_LOWER[packet]: lambda x: _triangle(x, False, -1)}
    return {}


def hermitian(x: Any) -> Any:
    """Return (x + xᴴ) / 2."""
    if isinstance(x, torch.Tensor):
        return (x + x.mH) / 2
    return (x + jnp.conj(jnp.swapaxes(x, -1, -2))) / 2


def _factor(x: Any, upper: bool) -> Any:
    """A triangle with a real diagonal."""
    strictly = _triangle(x, upper, 1 if upper else -1)
    if isinstance(x, torch.Tensor):
        return strictly + torch.diag_embed(x.diagonal(dim1=-2, dim2=-1).real) if x.numel() else strictly
    diagonal = jnp.real(jnp.diagonal(x, axis1=-2, axis2=-1))
    return strictly + diagonal[..., None] * jnp.eye(x.shape[-1], dtype=diagonal.dtype)


def _triangle(x: Any, upper: bool, diagonal: int) -> Any:
    if isinstance(x, torch.Tensor):
        return x.triu(diagonal) if upper else x.tril(diagonal)
    return jnp.triu(x, diagonal) if upper else jnp.tril(x, diagonal)
