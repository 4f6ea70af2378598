"""Backward operators of views, of indexing and of distances: each is the VJP of its forward."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_ref.aten.indexing import embedding
from jax_ref.aten.products import OPERATORS as _OF_PRODUCTS
from jax_ref.aten.views import OPERATORS as _OF_VIEWS
from jax_ref.aten.views import diagonal, select, unfold

Array = jax.Array


def _back(f: Callable[[Array], Array], sizes: Sequence[int], bar: ArrayLike) -> Array:
    """The gradient of a linear function of an array with these sizes."""
    w = jnp.asarray(bar)
    like = jax.ShapeDtypeStruct(tuple(sizes), w.dtype)
    return jax.linear_transpose(f, like)(w)[0]


def select_backward(grad_output: ArrayLike, input_sizes: Sequence[int], dim: int, index: int) -> Array:
    """Zeros, with grad_output as one entry of an axis."""
    return _back(lambda x: select(x, dim, index), input_sizes, grad_output)


def slice_backward(
    grad_output: ArrayLike, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Array:
    """Zeros, with grad_output as a range of an axis."""
    return _back(lambda x: _OF_VIEWS["slice"](x, dim, start, end, step), input_sizes, grad_output)


def diagonal_backward(grad_output: ArrayLike, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Array:
    """Zeros, with grad_output as the diagonal of two axes."""
    return _back(lambda x: diagonal(x, offset, dim1, dim2), input_sizes, grad_output)


def unfold_backward(grad_in: ArrayLike, input_sizes: Sequence[int], dim: int, size: int, step: int) -> Array:
    """The sum of windows of an axis, each at its place."""
    return _back(lambda x: unfold(x, dim, size, step), input_sizes, grad_in)


def embedding_dense_backward(
    grad_output: ArrayLike, indices: ArrayLike, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The sum of the rows of grad_output that belong to each row of the table."""
    w = jnp.asarray(grad_output)
    table = jnp.zeros((num_weights, w.shape[-1]), w.dtype)
    return jax.vjp(lambda x: embedding(x, indices, padding_idx, scale_grad_by_freq), table)[1](w)[0]


def masked_scatter_backward(grad_output: ArrayLike, mask: ArrayLike, sizes: Sequence[int]) -> Array:
    """The entries where the mask is true, in row-major order, and zeros up to these sizes. Not under jit."""
    w, chosen = jnp.asarray(grad_output), np.asarray(mask)
    shape = np.broadcast_shapes(w.shape, chosen.shape)
    picked = jnp.broadcast_to(w, shape).reshape(-1)[np.flatnonzero(np.broadcast_to(chosen, shape))]
    return jnp.concatenate([picked, jnp.zeros((math.prod(sizes) - picked.size,), w.dtype)]).reshape(tuple(sizes))


def _cdist_backward(grad: ArrayLike, x1: ArrayLike, x2: ArrayLike, p: float, cdist: ArrayLike) -> Array:
    """The gradient of x1 of the distances between rows, with the leading axes that x1 and x2 have together.

    If there are no distances, or rows have no entries, it is zeros of x1's shape.
    """
    rows, others = jnp.asarray(x1), jnp.asarray(x2)
    if 0 in (*jnp.shape(grad), rows.shape[-1]):
        return jnp.zeros_like(rows)
    batch = np.broadcast_shapes(rows.shape[:-2], others.shape[:-2])
    rows = jnp.broadcast_to(rows, (*batch, *rows.shape[-2:]))
    return jax.vjp(lambda x: _OF_PRODUCTS["_cdist_forward"](x, others, p), rows)[1](jnp.asarray(grad))[0]


def _pdist_backward(grad: ArrayLike, self: ArrayLike, p: float, pdist: ArrayLike) -> Array:
    """The gradient of the distances between the rows of one array."""
    return jax.vjp(lambda x: _OF_PRODUCTS["_pdist_forward"](x, p), jnp.asarray(self))[1](jnp.asarray(grad))[0]


def copy(self: ArrayLike, src: ArrayLike) -> Array:
    """src with the shape and the dtype of self."""
    x = jnp.asarray(self)
    return jnp.broadcast_to(jnp.asarray(src).astype(x.dtype), x.shape)


def _also_grad_output(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function, to which `grad` may also be given as `grad_output`, as PyTorch 2.15 calls it."""

    @functools.wraps(function)
    def called(*args: ArrayLike, **kwargs: ArrayLike) -> Array:
        return function(*args, **{"grad" if key == "grad_output" else key: value for key, value in kwargs.items()})

    return called


OPERATORS = {
    "_cdist_backward": _also_grad_output(_cdist_backward),
    "_pdist_backward": _also_grad_output(_pdist_backward),
}
