"""The checks of `dot_product_attention`'s arguments; errors name the argument, the axis, the sizes and the remedy."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from torch_impl._validate import product_dtype

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
AXES = {"query": "TNH", "key": "SKH", "value": "SKE"}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def validate_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    mask: torch.Tensor | None,
    query_seq_lengths: torch.Tensor | None,
    key_value_seq_lengths: torch.Tensor | None,
) -> None:
    """Check the arguments of `dot_product_attention`.

    Raises:
        TypeError: an argument is not a tensor, or of a wrong dtype (after autocast, where it is on).
        ValueError: a wrong number of axes, or an axis whose size differs between two arguments.
    """
    tensors = {"query": query, "key": key, "value": value}
    for name, x in tensors.items():
        _check_tensor(name, x)
        if x.dim() < 3:
            raise _value_error(
                f"{name} must have the axes (..., {', '.join(AXES[name])}), got {x.dim()} (shape {tuple(x.shape)}); "
                "add an axis of size 1 for one head"
            )
        if x.dtype not in DTYPES:
            raise _type_error(
                f"{name} has dtype {_name(x.dtype)}; "
                f"convert it to one of {', '.join(map(_name, DTYPES))} before calling"
            )
    if not product_dtype(query) == product_dtype(key) == product_dtype(value):
        raise _type_error(
            f"query, key and value must share one dtype, got {_name(query.dtype)}, {_name(key.dtype)} and "
            f"{_name(value.dtype)}; convert them to a common dtype before calling"
        )
    _check_sizes(tensors)
    batch, (T, N, _), (S, _, _) = tuple(query.shape[:-3]), query.shape[-3:], key.shape[-3:]
    for name, x in (("bias", bias), ("mask", mask)):
        if x is not None:
            _check_tensor(name, x)
            _check_broadcasts(name, tuple(x.shape), (*batch, N, T, S))
    if bias is not None and product_dtype(bias) != product_dtype(query):
        raise _type_error(
            f"bias must have the dtype of query, {_name(query.dtype)}, got {_name(bias.dtype)}; convert it"
        )
    if mask is not None and mask.dtype != torch.bool:
        raise _type_error(f"mask must be of booleans, got {_name(mask.dtype)}; compare it (mask > 0) or add it")
    for name, x in (("query_seq_lengths", query_seq_lengths), ("key_value_seq_lengths", key_value_seq_lengths)):
        if x is not None:
            _check_tensor(name, x)
            _check_lengths(name, x, batch)


def _check_sizes(tensors: Mapping[str, torch.Tensor]) -> None:
    query, key = tensors["query"], tensors["key"]
    batch, N, K = tuple(query.shape[:-3]), query.shape[-2], key.shape[-2]
    for name in ("key", "value"):
        if tuple(tensors[name].shape[:-3]) != batch:
            raise _value_error(
                f"the batch axes are {batch} in query but {tuple(tensors[name].shape[:-3])} in {name} "
                f"(query has shape {tuple(query.shape)}, {name} has shape {tuple(tensors[name].shape)}); "
                "make them equal, with torch.vmap if one is shared by all examples"
            )
    for axis, first, second in (("H", "query", "key"), ("S", "key", "value"), ("K", "key", "value")):
        size, other = (tensors[name].shape[AXES[name].index(axis) - 3] for name in (first, second))
        if size != other:
            raise _value_error(
                f"axis {axis} is {size} in {first} but {other} in {second} ({first} has shape "
                f"{tuple(tensors[first].shape)}, {second} has shape {tuple(tensors[second].shape)}); make them equal"
            )
    if N != K and (K == 0 or N % K):
        raise _value_error(
            f"axis N is {N} in query, which is no multiple of axis K, {K} in key (query has shape "
            f"{tuple(query.shape)}, key has shape {tuple(key.shape)}); each head of keys serves N / K of queries"
        )


def _check_tensor(name: str, x: object) -> None:
    if not isinstance(x, torch.Tensor):
        raise _type_error(f"{name} must be a tensor, got {type(x).__name__}; convert it with torch.as_tensor")


def _check_broadcasts(name: str, shape: tuple[int, ...], full: tuple[int, ...]) -> None:
    aligned = (1,) * (len(full) - len(shape)) + shape
    if len(aligned) > len(full) or any(size not in (1, other) for size, other in zip(aligned, full, strict=True)):
        raise _value_error(
            f"{name} has shape {shape}, which does not broadcast to (..., N, T, S), {full}; "
            "an axis may be of size 1, and the first ones may be left out"
        )


def _check_lengths(name: str, x: torch.Tensor, batch: tuple[int, ...]) -> None:
    if x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        raise _type_error(f"{name} must be of integers, got {_name(x.dtype)}; convert it with .to(torch.int32)")
    if tuple(x.shape) != batch and (batch or tuple(x.shape) != (1,)):
        raise _value_error(f"{name} must have the batch axes of query, {batch}, got {tuple(x.shape)}; give one each")


def _type_error(message: str) -> TypeError:
    return TypeError(f"dot_product_attention: {message}")


def _value_error(message: str) -> ValueError:
    return ValueError(f"dot_product_attention: {message}")
