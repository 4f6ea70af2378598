"""Values that are computed to a tolerance by declaration, as by an iteration that ends."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.interpreters import ad, batching, mlir

TO_TOLERANCE = "to_tolerance"  # the primitive's name in a program


def to_tolerance(x: jax.typing.ArrayLike, *, rtol: float = 0.0, atol: float = 0.0) -> jax.Array:
    """Return x, a value of an oracle that a candidate computes to a tolerance only.

    To be called in the primal or in a formula of an `OpSpec`, on what an iteration ends with: what follows from it may
    then be off as if it was off by `rtol * |x| + atol`, besides what rounding explains. Tangents and cotangents that
    pass through it may be off by `rtol`. A derivative at the value that an iteration has ended with must be written as
    a formula of it, as by `jax.custom_jvp`.

    Args:
        x: the exact value, an array of real or complex numbers.
        rtol: the relative error that a candidate may make, in addition to `atol`.
        atol: the absolute error that it may make.

    Raises:
        ValueError: a tolerance is negative or not finite, or both are 0.
        TypeError: x holds integers or booleans.
    """
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"to_tolerance: {name} must be a finite number from 0 on, got {value!r}")
    if rtol == atol == 0:
        raise ValueError("to_tolerance: rtol and atol are 0, which declares nothing; give one of them, as rtol=1e-8")
    array = jnp.asarray(x)
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        raise TypeError(f"to_tolerance: x is {array.dtype}; integers and booleans have no tolerance")
    return _primitive.bind(array, rtol=float(rtol), atol=float(atol))


def _itself(x: jax.Array, *, rtol: float, atol: float) -> jax.Array:
    return x


def _of_tangent(t: jax.Array, x: jax.Array, *, rtol: float, atol: float) -> jax.Array:
    return t if rtol == 0 else _primitive.bind(t, rtol=rtol, atol=0.0)


def _of_cotangent(y_bar, x, *, rtol: float, atol: float):
    return [y_bar if type(y_bar) is ad.Zero or rtol == 0 else _primitive.bind(y_bar, rtol=rtol, atol=0.0)]


_primitive = core.Primitive(TO_TOLERANCE)
_primitive.def_impl(_itself)
_primitive.def_abstract_eval(_itself)
ad.defjvp(_primitive, _of_tangent)
ad.primitive_transposes[_primitive] = _of_cotangent
batching.defvectorized(_primitive)
mlir.register_lowering(_primitive, mlir.lower_fun(_itself, multiple_results=False))
