"""XLA operations run at sizes that many shapes have in common, so that few programs are compiled.

XLA compiles a product of matrices, or an exponential, for every shape: 20 to 80 ms each, and an operator is judged at
dozens of shapes in four formats. Here the operands are extended to a power of two along each axis, and the result is
cut: matrices are padded by zeros, since terms of 0 · 0 change no sum, and operands of elementwise functions by their
own entries. The code is XLA's own, with its precision and its roundings.

What XLA would do at the original size is not seen then: another order of the same sum, other last bits at the end of a
vector, a mistake of XLA's at that size. Functions under `jax.jit` are compiled at their own sizes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

_LARGEST = 2**20  # entries; what is larger is run as it is
_LEAST = 8  # the length that shorter axes are extended to

_ELEMENTWISE = {"tanh", "exp", "exp2", "expm1", "log", "log1p", "logistic", "sin", "cos", "tan", "rsqrt", "cbrt"}
_ELEMENTWISE |= {"pow", "integer_pow", "square", "max", "min", "abs", "sign", "erf", "erfc", "erf_inv", "atan2"}
_ELEMENTWISE |= {"asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma", "digamma"}


@dataclass(frozen=True)
class Extended:
    """An operation at a common size.

    Attributes:
        key: the key of the compiled program, equal for operations that share it.
        call: the function of the operands that is compiled.
        operands: the operands of the operation, extended.
        cut: maps the result to that of the operation itself.
    """

    key: Hashable
    call: Callable
    operands: list[np.ndarray]
    cut: Callable[[np.ndarray], np.ndarray]


def is_extended(eqn: core.JaxprEqn) -> bool:
    """Return whether `extended` handles an operation."""
    atoms = [*eqn.invars, *eqn.outvars]
    if eqn.params.get("out_sharding") is not None or not all(_is_floating(x) for x in atoms):
        return False
    if max(math.prod(x.aval.shape) for x in atoms) > _LARGEST:
        return False
    if eqn.primitive.name == "dot_general":
        return True
    return eqn.primitive.name in _ELEMENTWISE and len({x.aval.shape for x in atoms}) == 1


def extended(eqn: core.JaxprEqn, operands: Sequence[Any]) -> Extended | None:
    """Return the operation at a common size; None if it is of another kind."""
    if not is_extended(eqn):
        return None
    x = [np.asarray(a) for a in operands]
    return _product(eqn, *x) if eqn.primitive.name == "dot_general" else _elementwise(eqn, x)


def _is_floating(x: Any) -> bool:
    aval = x.aval
    return hasattr(aval, "shape") and jnp.issubdtype(aval.dtype, jnp.inexact) and not getattr(aval, "weak_type", False)


def _elementwise(eqn: core.JaxprEqn, x: list[np.ndarray]) -> Extended:
    shape, count = x[0].shape, x[0].size
    flat = [np.resize(a, _length(count)) for a in x]
    key = (eqn.primitive, _written(eqn.params), flat[0].shape, *(a.dtype for a in flat))
    return Extended(key, functools.partial(eqn.primitive.bind, **eqn.params), flat, lambda y: y[:count].reshape(shape))


def _product(eqn: core.JaxprEqn, x: np.ndarray, y: np.ndarray) -> Extended | None:
    """Return a dot_general as one product of matrices, for each entry of the batch if there is one."""
    (axes_x, axes_y), (batch_x, batch_y) = eqn.params["dimension_numbers"]
    free_x = [i for i in range(x.ndim) if i not in (*axes_x, *batch_x)]
    free_y = [i for i in range(y.ndim) if i not in (*axes_y, *batch_y)]
    batch = [math.prod(x.shape[i] for i in batch_x)] if batch_x else []
    M, N = math.prod(x.shape[i] for i in free_x), math.prod(y.shape[i] for i in free_y)
    K, b = math.prod(x.shape[i] for i in axes_x), len(batch)
    left = np.transpose(x, (*batch_x, *free_x, *axes_x)).reshape(*batch, M, K)
    right = np.transpose(y, (*batch_y, *axes_y, *free_y)).reshape(*batch, K, N)
    m, k, n, batches = _length(M), _length(K), _length(N), [_length(size) for size in batch]
    if math.prod(batches) * max(m * k, k * n, m * n) > 4 * _LARGEST:  # many small ones
        return None
    params = eqn.params | {"dimension_numbers": (((b + 1,), (b,)), (tuple(range(b)),) * 2)}
    key = (eqn.primitive, _written(params), m, k, n, *batches)
    entries = (*(slice(size) for size in batch), slice(M), slice(N))
    result: Any = eqn.outvars[0].aval
    return Extended(
        (*key, left.dtype, right.dtype),
        functools.partial(jax.lax.dot_general_p.bind, **params),
        [_filled(left, (*batches, m, k)), _filled(right, (*batches, k, n))],
        lambda z: z[entries].reshape(result.shape),
    )


def _written(params: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in params.items()))


def _length(size: int) -> int:
    return max(_LEAST, 1 << max(0, size - 1).bit_length())


def _filled(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return x with zeros appended along each axis up to this shape."""
    y = np.zeros(shape, x.dtype)
    y[tuple(map(slice, x.shape))] = x
    return y
