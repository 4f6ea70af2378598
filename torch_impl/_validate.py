"""The checks of `attn`'s arguments; every error names the argument, the axis, the sizes and the remedy."""

from __future__ import annotations

import torch

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex128, torch.complex64)
AXES = {"q": ("n", "d"), "k": ("m", "d"), "v": ("m", "e")}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def product_dtype(x: torch.Tensor) -> torch.dtype:
    """The dtype that a product with x is computed in: autocast's, where that is on and lowers x's own."""
    device, lowered = x.device.type, (torch.float32, torch.bfloat16, torch.float16)
    autocast = _has_autocast(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if autocast and x.dtype in lowered else x.dtype


def _has_autocast(device: str) -> bool:
    # Dynamo cannot trace the question in PyTorch 2.11. Of the devices that it compiles for, meta alone has no autocast.
    return device != "meta" if torch.compiler.is_compiling() else torch.amp.is_autocast_available(device)


def validate(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Check the arguments of `attn`: q (n, d), k (m, d), v (m, e), one dtype of `DTYPES`.

    Raises:
        TypeError: an argument is not a tensor, its dtype is not one of `DTYPES`, or the dtypes differ
            (after autocast, where it is on).
        ValueError: a wrong number of axes, or an axis whose size differs between two arguments.
    """
    tensors = {"q": q, "k": k, "v": v}
    for name, x in tensors.items():
        axes = ", ".join(AXES[name])
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"attn: {name} must be an array with axes ({axes}), got {type(x).__name__}")
        if x.dim() != 2:
            raise ValueError(
                f"attn: {name} must have 2 axes ({axes}), got {x.dim()} (shape {tuple(x.shape)}); "
                "map over batch axes with vmap"
            )
        if x.dtype not in DTYPES:
            raise TypeError(
                f"attn: {name} has dtype {_name(x.dtype)}; "
                f"convert it to one of {', '.join(map(_name, DTYPES))} before calling"
            )
    if not product_dtype(q) == product_dtype(k) == product_dtype(v):
        raise TypeError(
            f"attn: q, k and v must share one dtype, got {_name(q.dtype)}, {_name(k.dtype)} and {_name(v.dtype)}; "
            "convert them to a common dtype before calling"
        )
    for axis, first, second in (("d", "q", "k"), ("m", "k", "v")):
        size, other = (tensors[name].shape[AXES[name].index(axis)] for name in (first, second))
        if size != other:
            raise ValueError(
                f"attn: axis {axis} is {size} in {first} but {other} in {second} "
                f"({first} has shape {tuple(tensors[first].shape)}, "
                f"{second} has shape {tuple(tensors[second].shape)}); make them equal"
            )
