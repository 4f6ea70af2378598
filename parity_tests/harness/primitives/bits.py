"""Booleans and integers that are made of floating-point numbers.

The bound of a boolean is 1 where rounding may change it, and 0 elsewhere; that of an integer is how far it may be off.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend import core
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives.bound.base import change
from parity_tests.harness.primitives.exact.arrays import as_array
from parity_tests.harness.primitives.field.rules import itself
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, primitive
from parity_tests.harness.primitives.value.functions import of_any, where


def _convert(x: np.ndarray, new_dtype: np.dtype, **_: Any) -> np.ndarray:
    # Of a complex number JAX takes the real part without a word, and NumPy warns.
    return (np.real(x) if np.dtype(new_dtype).kind in "fiu" else x).astype(new_dtype)


def _converts_alike(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> bool:
    """Return whether NumPy converts as JAX does: of real numbers that become integers, not those that are too large."""
    old, new = x[0].dtype, np.dtype(eqn.params["new_dtype"])
    return new == np.float64 or (old.kind in "biu" and new.kind in "biu" and old.isbuiltin == new.isbuiltin == 1)


def _exact_conversion(mp, eqn, x, *, new_dtype):
    new = np.dtype(new_dtype)
    if new.kind == "f":  # an evaluation in a lower precision has been refused before; see `missing.NotFloat64`
        return x
    if new.kind == "b":
        return as_array(np.frompyfunc(lambda x: x != 0, 1, 1)(x), bool)
    return as_array(np.frompyfunc(int, 1, 1)(x), new)


@primitive(
    of_jax.convert_element_type_p,
    kinds=Kind.KEEPS_SIZE | Kind.LINEAR | Kind.STEP,
    complex=BY_MODULUS,
    value=where(_converts_alike, _convert),
    exact=_exact_conversion,
    field=itself,
)
def converted(eqn, x, e, y, p):
    """To another dtype: floating-point numbers lose their fraction if they become integers."""
    (a,), (error,) = x, e
    if a.dtype.kind not in "fc" or y.dtype.kind in "fc":
        return np.minimum(error, 1.0) if y.dtype.kind == "b" else error
    if y.dtype.kind == "b":
        return ((np.abs(a) <= error) & (error > 0)).astype(float)
    return change(y.astype(float), np.trunc(a - error), np.trunc(a + error))


@primitive(of_jax.bitcast_convert_type_p)
def bits(eqn, x, e, y, p):
    """A floating-point number read as an integer, which rises with its magnitude, or back; its sign is the first bit.

    As wide as it is: the oracle's own 64 bits, of which those that a format lacks mean nothing to a candidate. What
    is left of them by a shift, the sign or the exponent, or by a mask, the number to fewer bits, does.
    """
    of, to = x[0].dtype, y.dtype
    if of.itemsize == to.itemsize and (of.kind, to.kind) in (("f", "i"), ("f", "u")):
        return _read_as_integer(x[0], e[0], y)
    if of.itemsize == to.itemsize and (of.kind, to.kind) in (("i", "f"), ("u", "f")):
        return _read_as_number(x[0], e[0], y)
    if not any(map(np.any, e)):
        return np.zeros(y.shape)
    raise NoRule("bitcast_convert_type (of what rounding may change, not between a number and an integer as wide)")


def _read_as_integer(x, e, y):
    low, high = (np.asarray(x + shift).view(y.dtype) for shift in (-e, e))
    # Of integers, since 64 bits have more digits than a float64 has; between the same signs no difference overflows.
    apart = [np.where(bound > y, bound - y, y - bound).astype(float) for bound in (low, high)]
    # Across 0 the sign changes, with all that is between.
    crosses = (np.abs(x) <= e) & (e > 0)
    return np.where(crosses, np.inf, np.maximum(*apart))


def _read_as_number(x, e, y):
    """Off by no more than the numbers of the farthest integers are, if these have its sign; NaN is among them."""
    unsigned, sign = np.dtype(f"u{x.dtype.itemsize}"), 8 * x.dtype.itemsize - 1
    magnitude = x.view(unsigned) & unsigned.type((1 << sign) - 1)
    most = 2.0 ** (sign - 1)
    moved = np.minimum(np.ceil(e), most).astype(unsigned)
    has_its_sign = (moved <= magnitude) & (magnitude + moved < unsigned.type(1 << sign)) & (e < most)
    low, high = ((x.view(unsigned) + shift).view(y.dtype) for shift in (-moved, moved))
    return np.where(has_its_sign, change(y, low, high), np.inf)


@primitive(of_jax.shift_right_arithmetic_p, of_jax.shift_right_logical_p)
def shifted_right(eqn, x, e, y, p):
    """The right shift of integers, floor(a / 2^n), which is monotone; the logical one of what has no sign only."""
    if np.any(e[1]):
        raise NoRule(f"{eqn.primitive.name} (by what rounding may change)")
    if eqn.primitive.name == "shift_right_logical" and np.any((x[0].astype(float) < e[0]) & (e[0] > 0)):
        raise NoRule("shift_right_logical (of an integer that rounding may make negative)")
    unit = 2.0 ** x[1].astype(float)
    info = np.iinfo(y.dtype)
    low, high = (np.clip(x[0].astype(float) + shift, info.min, info.max) for shift in (-e[0], e[0]))
    changed = change(y.astype(float), np.floor(low / unit), np.floor(high / unit))
    return np.where(e[0] > 0, changed, 0.0)


@primitive(of_jax.shift_left_p, of_jax.population_count_p, of_jax.clz_p, of_jax.reduce_xor_p)
@primitive("mulhi")  # JAX 0.10.0 has none
def of_bits(eqn, x, e, y, p):
    """Exact, since an integer has no rounding; any of them may be anything where rounding may change one bit."""
    if any(map(np.any, e)):
        raise NoRule(f"{eqn.primitive.name} (of the bits of an integer that rounding may change)")
    return np.zeros(y.shape)


@primitive(of_jax.and_p, value=of_any(np.bitwise_and))
@primitive(of_jax.or_p, value=of_any(np.bitwise_or))
@primitive(of_jax.not_p, value=of_any(np.invert))
@primitive(of_jax.xor_p, of_jax.reduce_and_p, of_jax.reduce_or_p)
def logic(eqn, x, e, y, p, *, axes=()):
    """1 where an operand may change, and no other settles the result: a false one of "and", a true one of "or"."""
    if y.dtype.kind != "b":
        return _of_integers(eqn.primitive.name, x, e, y)
    name, may = eqn.primitive.name, [bound > 0 for bound in e]
    settled = [
        np.zeros(a.shape, bool) if name in ("not", "xor") else ~b & (a == ("or" in name))
        for a, b in zip(x, may, strict=True)
    ]
    if name.startswith("reduce_"):
        return (may[0].any(axes) & ~settled[0].any(axes)).astype(float)
    return (functools.reduce(np.logical_or, may) & ~functools.reduce(np.logical_or, settled)).astype(float)


def _of_integers(name, x, e, y):
    """Return the error of a masked integer that rounding may change; refuse a mask of other bits than the last."""
    if not any(map(np.any, e)):
        return np.zeros(y.shape)
    if name == "and" and not all(map(np.any, e)):
        (a, error), (mask, _) = zip(x, e, strict=True) if np.any(e[0]) else zip(x[::-1], e[::-1], strict=True)
        removed = ~mask
        unit = removed.astype(float) + 1
        if not np.any(removed & (removed + 1)) and np.all(unit <= 2.0**53):
            rest = (a & removed).astype(float)
            return np.maximum(np.floor((rest + error) / unit), -np.floor((rest - error) / unit)) * unit
    raise NoRule(f"{name} (of the bits of an integer that rounding may change)")
