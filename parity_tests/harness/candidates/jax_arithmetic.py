"""Operations whose result leaves XLA no choice, computed by NumPy: the same bits, without a compilation per shape.

IEEE 754 has one correct result for a sum, a product, a quotient, a square root or a conversion of real numbers, and
moving numbers about has one, too. XLA for the CPU flushes subnormal numbers to zero where NumPy does not: where one
occurs, XLA runs the operation.

The oracle's operations are evaluated by separate code, `language.values`, so that it shares none with what it
judges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core

_ROUNDED: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}
_PLACES = ("sharding", "out_sharding")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_OF_INTEGERS = {"add", "add_any", "sub", "mul"}


def _broadcast(x: np.ndarray, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> np.ndarray:
    lengths = [1] * len(shape)
    for axis, length in zip(broadcast_dimensions, x.shape, strict=True):
        lengths[axis] = length
    return np.broadcast_to(x.reshape(lengths), tuple(shape))


def _reshaped(x: np.ndarray, new_sizes: Sequence[int], dimensions: Sequence[int] | None, **_: Any) -> np.ndarray:
    return np.reshape(x if dimensions is None else np.transpose(x, dimensions), tuple(new_sizes))


def _sliced(
    x: np.ndarray, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None
) -> np.ndarray:
    return x[tuple(map(slice, start_indices, limit_indices, strides or [1] * x.ndim))]


def _split(x: np.ndarray, sizes: Sequence[int], axis: int) -> list[np.ndarray]:
    return np.split(x, np.cumsum(sizes)[:-1], axis)


# Operations on numbers of any kind: (operands..., the primitive's parameters) -> result, or results.
_MOVES: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshaped,
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    "squeeze": lambda x, dimensions: np.squeeze(x, tuple(dimensions)),
    "rev": lambda x, dimensions: np.flip(x, tuple(dimensions)),
    "slice": _sliced,
    "split": _split,
    "concatenate": lambda *x, dimension: np.concatenate(x, dimension),
    "select_n": lambda which, no, yes: np.where(which, yes, no),
    "neg": np.negative,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "not": np.invert,
}
# The smallest normal number of each format.
_SMALLEST = {np.dtype(x): jnp.finfo(x).tiny for x in (np.float16, jnp.bfloat16, np.float32, np.float64)}


def rounds_once(eqn: core.JaxprEqn) -> bool:
    """Return whether an equation is an operation on real numbers with one correctly rounded result."""
    if eqn.primitive.name == "convert_element_type":
        return _kinds(eqn) <= {"f", "b"} and eqn.params["new_dtype"] in _SMALLEST
    return eqn.primitive.name in _ROUNDED and _kinds(eqn) <= {"f"}


def moves(eqn: core.JaxprEqn) -> bool:
    """Return whether an equation only moves, negates, compares or selects numbers."""
    if eqn.primitive.name == "select_n" and (len(eqn.invars) != 3 or _type(eqn.invars[0])[1] != np.bool_):
        return False
    return eqn.primitive.name in _MOVES and _kinds(eqn) <= {"f", "i", "u", "b"}


def computed(eqn: core.JaxprEqn, operands: Sequence[Any]) -> list[np.ndarray] | None:
    """Return the results with XLA's bits, or None where XLA must run the equation.

    Must be called inside `np.errstate(all="ignore")`: an infinity is a result here.
    """
    if any(getattr(x.aval, "weak_type", False) for x in eqn.outvars) or _is_placed(eqn):
        return None  # a NumPy array cannot say that it is weakly typed, nor where it is
    x = [np.asarray(a) for a in operands] if moves(eqn) or rounds_once(eqn) or _is_of_integers(eqn) else None
    if x is None:
        return None
    if moves(eqn):
        y = _MOVES[eqn.primitive.name](*x, **_params(eqn))
    elif eqn.primitive.name == "convert_element_type":
        y = x[0].astype(eqn.params["new_dtype"])
    else:
        y = _ROUNDED[eqn.primitive.name](*x)
    results = [np.asarray(part) for part in (y if eqn.primitive.multiple_results else [y])]
    depends_on_subnormals = rounds_once(eqn) or eqn.primitive.name in _COMPARISONS
    if depends_on_subnormals and any(map(_has_subnormals, (*x, *results))):
        return None
    return results if [(y.shape, y.dtype) for y in results] == [_type(x) for x in eqn.outvars] else None


def _type(x: Any) -> tuple[Any, Any]:
    """Return the shape and the dtype of a variable, if it has them."""
    return getattr(x.aval, "shape", None), getattr(x.aval, "dtype", None)


def _kinds(eqn: core.JaxprEqn) -> set[str]:
    """Return the kinds of all operands and results: "f" for real numbers, "?" for dtypes that NumPy does not know."""
    dtypes = {_type(x)[1] for x in (*eqn.invars, *eqn.outvars)}
    return {"f" if d in _SMALLEST else d.kind if isinstance(d, np.dtype) and d.kind in "iub" else "?" for d in dtypes}


def _is_placed(eqn: core.JaxprEqn) -> bool:
    return any(eqn.params.get(name) is not None for name in _PLACES)


def _is_of_integers(eqn: core.JaxprEqn) -> bool:
    return eqn.primitive.name in _OF_INTEGERS and _kinds(eqn) <= {"i", "u"}


def _params(eqn: core.JaxprEqn) -> dict[str, Any]:
    return {name: value for name, value in eqn.params.items() if name not in _PLACES}


def _has_subnormals(x: np.ndarray) -> bool:
    if x.dtype not in _SMALLEST:
        return False
    size = np.abs(x)
    return bool(((size <= _SMALLEST[x.dtype]) & (size != 0)).any())  # a result may be rounded up to the least
