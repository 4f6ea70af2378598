"""The checks of `dot_product_attention`'s arguments; errors name the argument, the axis, the sizes and the remedy."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

DTYPES = ("float64", "float32", "bfloat16", "float16")
AXES = {"query": "TNH", "key": "SKH", "value": "SKE"}


def validate_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: jax.Array | None,
    mask: jax.Array | None,
    query_seq_lengths: jax.Array | None,
    key_value_seq_lengths: jax.Array | None,
    *,
    scale: float | None,
    return_attn: bool,
    implementation: str | None,
    block_size: int,
) -> None:
    """Check the arguments of `dot_product_attention`.

    Raises:
        TypeError: an argument is not an array, or of a wrong dtype, or scale is no number.
        ValueError: a wrong number of axes, an axis whose size differs between two arguments, or an option that there
            is not.
    """
    arrays = {"query": query, "key": key, "value": value}
    for name, x in arrays.items():
        _check_array(name, x)
        if len(x.shape) < 3:
            raise _value_error(
                f"{name} must have the axes (..., {', '.join(AXES[name])}), got {len(x.shape)} "
                f"(shape {tuple(x.shape)}); add an axis of size 1 for one head"
            )
        if str(x.dtype) not in DTYPES:
            raise _type_error(f"{name} has dtype {x.dtype}; convert it to one of {', '.join(DTYPES)} before calling")
    if not query.dtype == key.dtype == value.dtype:
        raise _type_error(
            f"query, key and value must share one dtype, got {query.dtype}, {key.dtype} and {value.dtype}; "
            "convert them to a common dtype before calling"
        )
    _check_sizes(arrays)
    batch, (T, N, _), (S, _, _) = query.shape[:-3], query.shape[-3:], key.shape[-3:]
    for name, x in (("bias", bias), ("mask", mask)):
        if x is not None:
            _check_array(name, x)
            _check_broadcasts(name, tuple(x.shape), (*batch, N, T, S))
    if bias is not None and bias.dtype != query.dtype and (query.dtype.itemsize > 2 or bias.dtype != jnp.float32):
        or_wider = " or float32" if query.dtype.itemsize == 2 else ""
        raise _type_error(
            f"bias must have the dtype of query, {query.dtype}{or_wider}, got {bias.dtype}; convert it before calling"
        )
    if mask is not None and mask.dtype != bool:
        raise _type_error(f"mask must be of booleans, got {mask.dtype}; compare it (mask > 0) or add it")
    for name, x in (("query_seq_lengths", query_seq_lengths), ("key_value_seq_lengths", key_value_seq_lengths)):
        if x is not None:
            _check_array(name, x)
            _check_lengths(name, x, tuple(batch))
    _check_scale(scale)
    _check_implementation(return_attn, implementation, block_size)


def _check_sizes(arrays: Mapping[str, jax.Array]) -> None:
    query, key = arrays["query"], arrays["key"]
    batch, N, K = query.shape[:-3], query.shape[-2], key.shape[-2]
    for name in ("key", "value"):
        if arrays[name].shape[:-3] != batch:
            raise _value_error(
                f"the batch axes are {tuple(batch)} in query but {tuple(arrays[name].shape[:-3])} in {name} "
                f"(query has shape {tuple(query.shape)}, {name} has shape {tuple(arrays[name].shape)}); "
                "make them equal, with jax.vmap if one is shared by all examples"
            )
    for axis, first, second in (("H", "query", "key"), ("S", "key", "value"), ("K", "key", "value")):
        size, other = (arrays[name].shape[AXES[name].index(axis) - 3] for name in (first, second))
        if size != other:
            raise _value_error(
                f"axis {axis} is {size} in {first} but {other} in {second} ({first} has shape "
                f"{tuple(arrays[first].shape)}, {second} has shape {tuple(arrays[second].shape)}); make them equal"
            )
    if N != K and (K == 0 or N % K):
        raise _value_error(
            f"axis N is {N} in query, which is no multiple of axis K, {K} in key (query has shape "
            f"{tuple(query.shape)}, key has shape {tuple(key.shape)}); each head of keys serves N / K of queries"
        )


def _check_array(name: str, x: object) -> None:
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise _type_error(f"{name} must be an array, got {type(x).__name__}; convert it with jnp.asarray")


def _check_broadcasts(name: str, shape: tuple[int, ...], full: tuple[int, ...]) -> None:
    aligned = (1,) * (len(full) - len(shape)) + shape
    if len(aligned) > len(full) or any(size not in (1, other) for size, other in zip(aligned, full, strict=True)):
        raise _value_error(
            f"{name} has shape {shape}, which does not broadcast to (..., N, T, S), {full}; "
            "an axis may be of size 1, and the first ones may be left out"
        )


def _check_lengths(name: str, x: jax.Array, batch: tuple[int, ...]) -> None:
    if not jnp.issubdtype(x.dtype, jnp.integer):
        raise _type_error(f"{name} must be of integers, got {x.dtype}; convert it with astype('int32')")
    if tuple(x.shape) != batch and (batch or tuple(x.shape) != (1,)):
        raise _value_error(f"{name} must have the batch axes of query, {batch}, got {tuple(x.shape)}; give one each")


def _check_scale(scale: object) -> None:
    if scale is None:
        return
    if isinstance(scale, Tracer):
        if scale.shape != () or not jnp.issubdtype(scale.dtype, jnp.floating):
            raise _type_error(f"scale must be one floating-point number, got {scale.dtype} of shape {scale.shape}")
        return
    x = np.asarray(scale)
    real = jnp.issubdtype(x.dtype, jnp.floating) or jnp.issubdtype(x.dtype, jnp.integer)
    if x.ndim != 0 or not real or not math.isfinite(float(x)):
        raise _type_error(f"scale must be one finite number, got {scale!r}; multiply the query by anything else")


def _check_implementation(return_attn: bool, implementation: str | None, block_size: int) -> None:
    if implementation not in (None, "matrix", "blockwise"):
        raise _value_error(f"implementation is {implementation!r}; give 'matrix', 'blockwise' or None, which chooses")
    if return_attn and implementation == "blockwise":
        raise _value_error(
            "implementation 'blockwise' never holds attn, so that it cannot return it; leave return_attn=True out, "
            "or take implementation='matrix'"
        )
    if not isinstance(block_size, int) or block_size < 1:
        raise _value_error(f"block_size must be a positive integer, got {block_size!r}; 512 is the default")


def _type_error(message: str) -> TypeError:
    return TypeError(f"dot_product_attention: {message}")


def _value_error(message: str) -> ValueError:
    return ValueError(f"dot_product_attention: {message}")
