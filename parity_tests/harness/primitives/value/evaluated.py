"""The value of a JAX primitive at float64 arguments, in NumPy where that is as good.

JAX compiles an equation that runs by itself anew for every shape, and an operator is judged at dozens of shapes. The
primitives of most programs are therefore evaluated by NumPy and SciPy: the same IEEE operations, and elementary
functions of the same accuracy or a better one. All others are run by JAX.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.tolerances import TO_TOLERANCE
from parity_tests.harness.primitives.value import indexing, linear
from parity_tests.harness.primitives.value.convolutions import convolved, padded
from parity_tests.harness.primitives.value.products import contracted


def _scipy(name: str) -> Callable[..., np.ndarray]:
    # Imported at the first use: importing scipy.special adds a warning filter, which `numerics.pinned` takes back.
    def f(*x: np.ndarray) -> np.ndarray:
        return getattr(importlib.import_module("scipy.special"), name)(*x)

    return f


# Operands of any dtype.
_ANY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
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
# Real and complex operands. Where XLA's float64 is worse than the error bounds say: log1p errs by 240 roundings at
# -0.41, erf_inv by 290 at 1 - 1e-5; of complex numbers the C library is the better one throughout.
_FLOATING: dict[str, Callable[..., np.ndarray]] = {
    "div": np.divide,
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "square": np.square,
}
_REAL: dict[str, Callable[..., np.ndarray]] = {
    "abs": np.abs,
    "max": np.maximum,
    "min": np.minimum,
    "floor": np.floor,
    "ceil": np.ceil,
    "is_finite": np.isfinite,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "cbrt": np.cbrt,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "logistic": _scipy("expit"),
    "erf": _scipy("erf"),
    "erfc": _scipy("erfc"),
    "erf_inv": _scipy("erfinv"),
    "erfcx": _scipy("erfcx"),
    "erfcinv": _scipy("erfcinv"),
    "ndtri": _scipy("ndtri"),
}


def _broadcast(x: np.ndarray, shape: Sequence[int], broadcast_dimensions: Sequence[int], **_: Any) -> np.ndarray:
    return _broadcaster(np.shape(x), tuple(shape), tuple(broadcast_dimensions))(x)


@functools.lru_cache(maxsize=1024)
def _broadcaster(old: tuple[int, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> Callable[..., np.ndarray]:
    """Return the function that broadcasts arrays of a shape to another, each of its axes to one of these."""
    aligned, steps = [1] * len(shape), [0] * len(shape)
    for i, axis in enumerate(axes):
        aligned[axis] = old[i]
        steps[axis] = math.prod(old[i + 1 :]) if old[i] > 1 else 0
    strides = {np.dtype(kind): [step * np.dtype(kind).itemsize for step in steps] for kind in (np.float64, np.bool_)}

    def broadcast(x: np.ndarray) -> np.ndarray:
        if type(x) is not np.ndarray or x.dtype not in strides or not x.flags.c_contiguous or not x.size:
            return np.broadcast_to(np.reshape(x, aligned), shape)
        # What `np.broadcast_to` returns, in an eighth of its time.
        y = np.ndarray(shape, x.dtype, x, 0, strides[x.dtype])
        y.flags.writeable = False
        return y

    return broadcast


def _reshaped(x: np.ndarray, new_sizes: Sequence[int], dimensions: Sequence[int] | None, **_: Any) -> np.ndarray:
    return np.reshape(x if dimensions is None else np.transpose(x, dimensions), tuple(new_sizes))


def _sliced(x: np.ndarray, start_indices, limit_indices, strides) -> np.ndarray:
    steps = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _split(x: np.ndarray, sizes: Sequence[int], axis: int) -> list[np.ndarray]:
    return np.split(x, np.cumsum(sizes)[:-1], axis)


# What only moves the numbers of one operand, of whatever dtype: (operand, the primitive's parameters) -> result.
_MOVED: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast,
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    "squeeze": lambda x, dimensions: np.squeeze(x, tuple(dimensions)),
    "expand_dims": lambda x, dimensions: np.expand_dims(x, tuple(dimensions)),
    "reshape": _reshaped,
    "rev": lambda x, dimensions: np.flip(x, tuple(dimensions)),
    "slice": _sliced,
    "split": _split,
    "copy": lambda x: x,
    TO_TOLERANCE: lambda x, **_: x,
    "stop_gradient": lambda x, **_: x,
    "name": lambda x, **_: x,
}


def _along(accumulate: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def cumulative(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
        return np.flip(accumulate(np.flip(x, axis), axis=axis), axis) if reverse else accumulate(x, axis=axis)

    return cumulative


# Reductions and scans of real numbers.
_REDUCED: dict[str, Callable[..., np.ndarray]] = {
    # Of NumPy's functions of these names the calls of the ufuncs are all; they take less than half the time.
    "reduce_sum": lambda x, axes, **_: np.add.reduce(x, tuple(axes)),
    "reduce_prod": lambda x, axes, **_: np.multiply.reduce(x, tuple(axes)),
    "reduce_max": lambda x, axes, **_: np.maximum.reduce(x, tuple(axes), initial=-np.inf),
    "reduce_min": lambda x, axes, **_: np.minimum.reduce(x, tuple(axes), initial=np.inf),
    "cumsum": _along(np.cumsum),
    "cumprod": _along(np.cumprod),
    "cummax": _along(np.maximum.accumulate),
    "cummin": _along(np.minimum.accumulate),
}


def _integer_power(x: np.ndarray, y: int) -> np.ndarray:
    return np.power(x, float(y))


def _converted(x: np.ndarray, new_dtype: np.dtype, **_: Any) -> np.ndarray:
    # Of a complex number JAX takes the real part without a word, and NumPy warns.
    return (np.real(x) if np.dtype(new_dtype).kind in "fiu" else x).astype(new_dtype)


def _zeros(shape: Sequence[int], dtype: np.dtype, **_: Any) -> np.ndarray:
    return np.zeros(tuple(shape), dtype)


def _selected(which: np.ndarray, no: np.ndarray, yes: np.ndarray) -> np.ndarray:
    return np.where(which, yes, no)


def _clamped(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, low), high)


def _concatenated(*x: np.ndarray, dimension: int) -> np.ndarray:
    return np.concatenate(x, dimension)


# Operands of several kinds: (operands..., the primitive's parameters) -> result, and when NumPy's is the same.
_BY_PARAMETERS: dict[str, tuple[Callable[..., np.ndarray], Callable[..., bool]]] = {
    "integer_pow": (_integer_power, lambda eqn, x: _all_real(x)),
    "convert_element_type": (_converted, lambda eqn, x: _converts_alike(x[0].dtype, np.dtype(eqn.params["new_dtype"]))),
    "select_n": (_selected, lambda eqn, x: len(x) == 3 and x[0].dtype == np.bool_),
    "clamp": (_clamped, lambda eqn, x: _all_real(x)),
    "concatenate": (_concatenated, lambda eqn, x: True),
    "pad": (padded, lambda eqn, x: _all_floating(x)),
    "dot_general": (contracted, lambda eqn, x: _all_floating(x)),
    "conv_general_dilated": (convolved, lambda eqn, x: _all_floating(x)),
    "empty": (_zeros, lambda eqn, x: True),
    **indexing.BY_PARAMETERS,
    **linear.BY_PARAMETERS,
}


def _converts_alike(old: np.dtype, new: np.dtype) -> bool:
    """Does NumPy convert as JAX does? Of real numbers that become integers, not those that are too large."""
    return new == np.float64 or (old.kind in "biu" and new.kind in "biu" and old.isbuiltin == new.isbuiltin == 1)


_FLOAT64, _COMPLEX128 = np.dtype(np.float64), np.dtype(np.complex128)  # a type would be converted at each comparison


# Loops, since they are asked for every equation, and a generator for `all` takes several times as long.
def _all_real(x: Sequence[np.ndarray]) -> bool:
    for a in x:  # noqa: SIM110
        if a.dtype != _FLOAT64:
            return False
    return True


def _all_floating(x: Sequence[np.ndarray]) -> bool:
    for a in x:  # noqa: SIM110
        if a.dtype != _FLOAT64 and a.dtype != _COMPLEX128:
            return False
    return True


def evaluated(eqn: core.JaxprEqn, *operands: Any) -> Any:
    """The value of a primitive at its operands, or the values if it has several.

    Must run inside `np.errstate(all="ignore")`: infinity less infinity is NaN in JAX, without a warning. It is entered
    once for a whole program, since that takes as long as the operation itself.

    Args:
        eqn: an equation of the primitive, whose parameters are used.
        operands: arrays as in the equation, or others of the same shapes, such as their magnitudes.
    """
    name, x = eqn.primitive.name, [np.asarray(a) for a in operands]
    if name in _ANY:
        return _ANY[name](*x)
    if name in _MOVED and len(x) == 1:
        return _MOVED[name](x[0], **eqn.params)
    if name in _FLOATING and _all_floating(x):
        return _FLOATING[name](*x)
    if name in _BY_PARAMETERS:
        call, applies = _BY_PARAMETERS[name]
        if applies(eqn, x):
            return call(*x, **eqn.params)
    if _all_real(x):
        if name in _REAL:
            return _REAL[name](*x)
        if name in _REDUCED:
            return _REDUCED[name](x[0], **eqn.params)
    return eqn.primitive.bind(*operands, **eqn.params)


# Of those that have parameters: NumPy's is the same wherever all operands are float64, whatever their numbers.
_WHEREVER_REAL = frozenset({"integer_pow", "clamp", "concatenate", "pad", "dot_general", "conv_general_dilated"})


def evaluator(eqn: core.JaxprEqn, real: bool) -> Callable[..., Any]:
    """Return the function of its operands that `evaluated` finds for an equation: now, or with each operands anew.

    Args:
        eqn: the equation.
        real: True if all its operands and results are float64, as their values will be.
    """
    name = eqn.primitive.name
    if name == "broadcast_in_dim" and len(eqn.invars) == 1:
        of = getattr(eqn.invars[0].aval, "shape", ())
        return _broadcaster(of, *map(tuple, (eqn.params["shape"], eqn.params["broadcast_dimensions"])))
    if real:
        for functions in (_ANY, _FLOATING, _REAL):
            if name in functions:
                return functions[name]
        for moves in (_MOVED, _REDUCED):
            if name in moves and len(eqn.invars) == 1:
                return functools.partial(moves[name], **eqn.params)
        if name in _WHEREVER_REAL:
            return functools.partial(_BY_PARAMETERS[name][0], **eqn.params)
    return functools.partial(evaluated, eqn)
