"""The checks of `attn`'s arguments; every error names the argument, the axis, the sizes and the remedy."""

from __future__ import annotations

import jax

DTYPES = ("float64", "float32", "bfloat16", "float16", "complex128", "complex64")
AXES = {"q": ("n", "d"), "k": ("m", "d"), "v": ("m", "e")}


def validate(q: jax.Array, k: jax.Array, v: jax.Array) -> None:
    """Check the arguments of `attn`: q (n, d), k (m, d), v (m, e), one dtype of `DTYPES`.

    Raises:
        TypeError: an argument is not an array, its dtype is not one of `DTYPES`, or the dtypes differ.
        ValueError: a wrong number of axes, or an axis whose size differs between two arguments.
    """
    arrays = {"q": q, "k": k, "v": v}
    for name, x in arrays.items():
        axes = ", ".join(AXES[name])
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(f"attn: {name} must be an array with axes ({axes}), got {type(x).__name__}")
        if len(x.shape) != 2:
            raise ValueError(
                f"attn: {name} must have 2 axes ({axes}), got {len(x.shape)} (shape {tuple(x.shape)}); "
                "map over batch axes with vmap"
            )
        if str(x.dtype) not in DTYPES:
            raise TypeError(
                f"attn: {name} has dtype {x.dtype}; convert it to one of {', '.join(DTYPES)} before calling"
            )
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"attn: q, k and v must share one dtype, got {q.dtype}, {k.dtype} and {v.dtype}; "
            "convert them to a common dtype before calling"
        )
    for axis, first, second in (("d", "q", "k"), ("m", "k", "v")):
        size, other = (arrays[name].shape[AXES[name].index(axis)] for name in (first, second))
        if size != other:
            raise ValueError(
                f"attn: axis {axis} is {size} in {first} but {other} in {second} "
                f"({first} has shape {tuple(arrays[first].shape)}, "
                f"{second} has shape {tuple(arrays[second].shape)}); make them equal"
            )


def validate_directions(q: jax.Array, k: jax.Array, v: jax.Array, **directions: jax.Array | None) -> None:
    """Check the arguments of a formula: the primals, then tangents and cotangents, each shaped like its primal.

    A direction's name begins with the name of its primal (`q_dot`, `output_bar`); `None` is an exact zero.

    Raises:
        TypeError, ValueError: as `validate`, and for a direction whose dtype or shape is not its primal's.
    """
    validate(q, k, v)
    (n, m, e) = (q.shape[0], k.shape[0], v.shape[1])
    shapes = {"q": q.shape, "k": k.shape, "v": v.shape, "output": (n, e), "attn": (n, m)}
    for name, x in directions.items():
        primal = name.split("_")[0]
        if x is None:
            continue
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(f"attn: {name} must be an array or None, got {type(x).__name__}")
        if tuple(x.shape) != tuple(shapes[primal]):
            raise ValueError(
                f"attn: {name} must have the shape of {primal}, {tuple(shapes[primal])}, got {tuple(x.shape)}"
            )
        if x.dtype != q.dtype:
            raise TypeError(
                f"attn: {name} must have the dtype of q, {q.dtype}, got {x.dtype}; convert it before calling"
            )
