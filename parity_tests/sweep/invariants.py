"""Invariants of results whose signs, phases or orders of vectors are a choice, and results that are not compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

# What has no derivative by definition, although its values change with its input.
CONSTANT = ("aten::detach", "aten::detach_copy", "aten::nextafter")
# What PyTorch gives the derivative of a documented surrogate, as the straight-through one of fake quantization. The
# references have the surrogate's derivative, which is not that of the values.
SURROGATES = (
    "aten::fake_quantize_per_tensor_affine_cachemask",
    "aten::fake_quantize_per_channel_affine_cachemask",
    "aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)
# Backwards whose formulas take the mean and the deviation that the forward saved for functions of the input, so that
# they are no derivatives of the operator itself, which is given them as inputs of these names.
OF_SAVED_STATISTICS: Mapping[str, tuple[str, str]] = {
    "aten::native_layer_norm_backward": ("mean", "rstd"),
    "aten::native_batch_norm_backward": ("save_mean", "save_invstd"),
    "aten::batch_norm_backward": ("save_mean", "save_var"),
}
# Whose index is that of any of equal entries: of a row of NaN nanmedian returns the one that partitioning left there.
ANY_OF_EQUAL = ("aten::nanmedian",)
# Of a packet: the numbers of the results that are not compared.
NOT_COMPARED: Mapping[str, tuple[int, ...]] = {
    "aten::log_sigmoid_forward": (1,),  # a buffer for the backward, whose shape depends on the device
    "aten::_ctc_loss": (1,),  # of log_alpha PyTorch leaves a part unwritten
    "aten::_linalg_solve_ex": (1, 2, 3),  # LU and pivots, of the matrix or of its transpose
    "aten::linalg_lstsq": (2, 3),  # rank and singular values, which some drivers leave empty
    "aten::_embedding_bag": (1, 2, 3),  # which only its own backward reads
    "aten::_linalg_det": (1, 2),
    "aten::_linalg_slogdet": (2, 3),
}


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(jnp.asarray(x), -1, -2))


def _of_eigh(arguments: Mapping[str, Any], values: Any, vectors: Any) -> tuple:
    if not jnp.size(vectors):
        return (values,)
    V = jnp.asarray(vectors)
    return values, jnp.matmul(V * jnp.expand_dims(jnp.tanh(jnp.asarray(values)), -2).astype(V.dtype), _adjoint(V))


def _of_eig(arguments: Mapping[str, Any], values: Any, vectors: Any = None) -> tuple:
    w = jnp.asarray(values)
    return tuple(jnp.sum(w**k, axis=-1) for k in range(1, 4))


def _of_svd(arguments: Mapping[str, Any], U: Any, S: Any, Vh: Any) -> tuple:
    s = jnp.asarray(S)
    if not jnp.size(U) or not jnp.size(Vh):
        return (s,)
    k = s.shape[-1]
    left = jnp.asarray(U)[..., :, :k]
    return s, jnp.matmul(left * jnp.expand_dims(s, -2).astype(left.dtype), jnp.asarray(Vh)[..., :k, :])


def _of_qr(arguments: Mapping[str, Any], Q: Any, R: Any) -> tuple:
    r = jnp.asarray(R)
    gram = jnp.matmul(_adjoint(r), r)
    if not jnp.size(Q):
        return (gram,)
    return gram, jnp.matmul(jnp.asarray(Q), r)


INVARIANTS: Mapping[str, Callable[..., tuple]] = {
    "aten::_linalg_eigh": _of_eigh,
    "aten::linalg_eig": _of_eig,
    "aten::linalg_eigvals": _of_eig,
    "aten::_linalg_svd": _of_svd,
    "aten::linalg_qr": _of_qr,
}
