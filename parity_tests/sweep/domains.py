"""Operators that are functions of some inputs only: what an input is made of before the operator is called.

A derivative off the domain is a convention: PyTorch symmetrizes the gradient of a Hermitian matrix, and some formulas
give a number for a triangle that the operator never reads. Both frameworks are therefore asked for the derivatives of
the operator after the projection, in which no convention is left. Where a function has no derivative at all, or a
documented one that is not that of its values, there is nothing to ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.sweep.recorded_calls import RecordedCall

_HERMITIAN = {"cholesky": "self", "linalg_cholesky_ex": "self", "_linalg_eigh": "A"}
_FACTORS = {"cholesky_inverse": "self", "cholesky_solve": "input2"}  # of Cholesky: of their diagonal the real part
_TRIANGULAR = {"linalg_solve_triangular": "self", "triangular_solve": "A"}
_STRICTLY_LOWER = {"linalg_householder_product": "input", "ormqr": "self"}

_LU = {"linalg_lu": 2, "linalg_lu_factor_ex": 0}  # of the result that has U
_LEAST_SPREAD = 1e-12  # of p (1 - p), by which PyTorch divides: its own EPSILON, in ATen's Loss.cpp; no tolerance

Projection = Callable[[Any], Any]


def projections(operator: str, arguments: Mapping[str, Any]) -> Mapping[str, Projection]:
    """Return, by input, the function of arrays of any framework that projects on the operator's domain.

    Args:
        operator: the entry's name, with its overload.
        arguments: of the call, of which some say which triangle counts.
    """
    packet = operator.partition(".")[0]
    if packet == "linalg_pinv" and arguments.get("hermitian"):
        return {"self": hermitian}
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
    if packet == "_ctc_loss":
        return {"log_probs": _log_probabilities}
    return {}


def has_derivative(call: RecordedCall) -> bool:
    """Return whether an operator has a derivative at a call that is the one of its values.

    LU has none at a matrix whose leading columns are dependent: whatever row comes next may be the pivot. The loss
    binary_cross_entropy limits the logarithms of probabilities of 0 and 1, but not, as documented, its gradient.
    """
    packet = call.name.removeprefix("aten::").partition(".")[0]
    if packet in _LU:
        U = call.results[_LU[packet]]
        pivots = np.abs(np.diagonal(U, axis1=-2, axis2=-1))
        # Each pivot is off by n roundings of n products, of factors of L, none larger than 1, and of U
        n = U.shape[-1]
        return bool((pivots > n * FLOAT64.gamma(n) * np.abs(U).max(initial=0)).all())
    if packet == "binary_cross_entropy":
        p = call.arguments["self"]
        return bool((p * (1 - p) > _LEAST_SPREAD).all())
    return True


def _log_probabilities(x: Any) -> Any:
    """Numbers whose exponentials add up to 1: PyTorch documents that the loss is for these."""
    return x.log_softmax(-1) if isinstance(x, torch.Tensor) else jax.nn.log_softmax(x, -1)


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
