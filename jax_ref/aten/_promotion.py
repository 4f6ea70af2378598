"""PyTorch's promotion of dtypes: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_ref.aten._checks import together


def _category(dtype: np.dtype) -> int:
    """0 for booleans, 1 for integers, 2 for floating-point and 3 for complex numbers."""
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return 3
    if jnp.issubdtype(dtype, jnp.floating):
        return 2
    return 0 if jnp.issubdtype(dtype, jnp.bool_) else 1


def _of_scalar(x: bool | int | float | complex) -> np.dtype:
    """PyTorch's default dtypes: int64, float32, complex64."""
    if isinstance(x, bool):
        return np.dtype(bool)
    if isinstance(x, int):
        return jax.dtypes.canonicalize_dtype(np.int64)
    return np.dtype(np.complex64 if isinstance(x, complex) else np.float32)


def _joined(dtypes: Sequence[np.dtype]) -> np.dtype | None:
    found = None
    with jax.numpy_dtype_promotion("standard"):
        for dtype in dtypes:
            found = dtype if found is None else jnp.promote_types(found, dtype)
    return found


def _complex_of(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.complex128 if dtype == np.float64 else np.complex64)


def common_dtype(*args: ArrayLike) -> np.dtype:
    """Return the dtype of a result of these arguments.

    Arrays without axes and Python scalars raise the dtype of the others only if they are of a higher kind.
    """
    arrays = [x for x in args if not isinstance(x, bool | int | float | complex)]
    groups = [
        [jnp.asarray(x).dtype for x in arrays if jnp.ndim(x)],
        [jnp.asarray(x).dtype for x in arrays if not jnp.ndim(x)],
        [_of_scalar(x) for x in args if isinstance(x, bool | int | float | complex)],
    ]
    found: np.dtype | None = None
    for group in groups:
        dtype = _joined(group)
        if dtype is None:
            continue
        if found is None:
            found = dtype
        elif _category(dtype) > _category(found):
            found = _complex_of(found) if _category(dtype) == 3 and _category(found) == 2 else dtype
    assert found is not None
    return found


def floating_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a result that is no integer: PyTorch's default, float32, for integers and booleans."""
    return dtype if _category(dtype) >= 2 else np.dtype(np.float32)


def promoted(*args: ArrayLike) -> list[jax.Array]:
    """Return the arguments with their common dtype and shape."""
    dtype = common_dtype(*args)
    return together(jnp.asarray(x, dtype) for x in args)


def floating(*args: ArrayLike) -> list[jax.Array]:
    """Return the arguments with their common dtype and shape, integers as floating-point numbers."""
    dtype = floating_dtype(common_dtype(*args))
    return together(jnp.asarray(x).astype(dtype) for x in args)


def ordered(*args: ArrayLike) -> list[jax.Array]:
    """Return the arguments with their common dtype and shape.

    Raises:
        TypeError: one is complex, which has no order.
    """
    found = promoted(*args)
    if is_complex(found[0]):
        raise TypeError(f"complex numbers have no order, got {found[0].dtype}")
    return found


def of_one_dtype(name: str, *args: ArrayLike) -> list[jax.Array]:
    """Return the arguments of an operator that does not promote, as arrays.

    Raises:
        TypeError: they have different dtypes.
    """
    arrays = [jnp.asarray(x) for x in args]
    dtypes = dict.fromkeys(x.dtype.name for x in arrays)
    if len(dtypes) > 1:
        raise TypeError(f"{name} needs arguments of one dtype, got {' and '.join(dtypes)}")
    return arrays


def is_complex(x: jax.Array) -> bool:
    """True of an array of complex numbers."""
    return jnp.iscomplexobj(x)
