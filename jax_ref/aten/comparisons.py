"""Comparisons, logic and bits: operators without a derivative."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax_ref.aten._promotion import promoted

Array = jax.Array


def eq(self: ArrayLike, other: ArrayLike) -> Array:
    """self = other."""
    return jnp.equal(*promoted(self, other))


def ne(self: ArrayLike, other: ArrayLike) -> Array:
    """self ≠ other."""
    return jnp.not_equal(*promoted(self, other))


def lt(self: ArrayLike, other: ArrayLike) -> Array:
    """self < other."""
    return jnp.less(*promoted(self, other))


def le(self: ArrayLike, other: ArrayLike) -> Array:
    """self ≤ other."""
    return jnp.less_equal(*promoted(self, other))


def gt(self: ArrayLike, other: ArrayLike) -> Array:
    """self > other."""
    return jnp.greater(*promoted(self, other))


def ge(self: ArrayLike, other: ArrayLike) -> Array:
    """self ≥ other."""
    return jnp.greater_equal(*promoted(self, other))


def equal(self: ArrayLike, other: ArrayLike) -> bool:
    """True if both have the same shape and the same entries. Not under a transformation: the result is Python's."""
    return jnp.shape(self) == jnp.shape(other) and bool(jnp.all(jnp.asarray(self) == jnp.asarray(other)))


def isnan(self: ArrayLike) -> Array:
    """True of NaN."""
    return jnp.isnan(jnp.asarray(self))


def isinf(self: ArrayLike) -> Array:
    """True of an infinity."""
    return jnp.isinf(jnp.asarray(self))


def isposinf(self: ArrayLike) -> Array:
    """True of infinity."""
    return jnp.isposinf(jnp.asarray(self))


def isneginf(self: ArrayLike) -> Array:
    """True of -infinity."""
    return jnp.isneginf(jnp.asarray(self))


def isfinite(self: ArrayLike) -> Array:
    """True of a number that is neither infinite nor NaN."""
    return jnp.isfinite(jnp.asarray(self))


def isreal(self: ArrayLike) -> Array:
    """True where the imaginary part is 0."""
    return jnp.imag(jnp.asarray(self)) == 0


def isclose(
    self: ArrayLike, other: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:
    """|self - other| ≤ atol + rtol |other|."""
    x, y = promoted(self, other)
    return jnp.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)


def allclose(
    self: ArrayLike, other: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """True if all entries are close. Not under a transformation: the result is Python's."""
    return bool(jnp.all(isclose(self, other, rtol, atol, equal_nan)))


def logical_and(self: ArrayLike, other: ArrayLike) -> Array:
    """Both are not 0."""
    return jnp.logical_and(*promoted(self, other))


def logical_or(self: ArrayLike, other: ArrayLike) -> Array:
    """One or both are not 0."""
    return jnp.logical_or(*promoted(self, other))


def logical_xor(self: ArrayLike, other: ArrayLike) -> Array:
    """One is 0 and the other is not."""
    return jnp.logical_xor(*promoted(self, other))


def logical_not(self: ArrayLike) -> Array:
    """self is 0."""
    return jnp.logical_not(jnp.asarray(self))


def bitwise_and(self: ArrayLike, other: ArrayLike) -> Array:
    """Bits that both have."""
    return jnp.bitwise_and(*promoted(self, other))


def bitwise_or(self: ArrayLike, other: ArrayLike) -> Array:
    """Bits that one has."""
    return jnp.bitwise_or(*promoted(self, other))


def bitwise_xor(self: ArrayLike, other: ArrayLike) -> Array:
    """Bits that one has and the other has not."""
    return jnp.bitwise_xor(*promoted(self, other))


def bitwise_not(self: ArrayLike) -> Array:
    """Bits that self has not."""
    return jnp.bitwise_not(jnp.asarray(self))


def bitwise_left_shift(self: ArrayLike, other: ArrayLike) -> Array:
    """self 2 ** other."""
    return jnp.left_shift(*promoted(self, other))


def bitwise_right_shift(self: ArrayLike, other: ArrayLike) -> Array:
    """self / 2 ** other, rounded down."""
    return jnp.right_shift(*promoted(self, other))


def isin(elements: ArrayLike, test_elements: ArrayLike, *, assume_unique: bool = False, invert: bool = False) -> Array:
    """True of the elements that are among the test elements."""
    x, y = jnp.asarray(elements), jnp.asarray(test_elements)
    found = jnp.any(jnp.expand_dims(x, -1) == y.reshape((1,) * x.ndim + (-1,)), axis=-1)
    return ~found if invert else found


def _isin_of_scalar(
    elements: ArrayLike, test_element: ArrayLike, *, assume_unique: bool = False, invert: bool = False
) -> Array:
    """True of the elements that are this number."""
    return isin(elements, test_element, invert=invert)


def _scalar_isin(
    element: ArrayLike, test_elements: ArrayLike, *, assume_unique: bool = False, invert: bool = False
) -> Array:
    """True if the number is among the test elements."""
    return isin(element, test_elements, invert=invert)


OPERATORS = {"isin.Tensor_Scalar": _isin_of_scalar, "isin.Scalar_Tensor": _scalar_isin}
