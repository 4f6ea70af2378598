"""What rounding may do to booleans and integers that are made of floating-point numbers.

The bound of a boolean is 1 where rounding may change it, and 0 elsewhere; that of an integer is how far it may be off.
"""

from __future__ import annotations

import numpy as np

from parity_tests.harness.rounding.base import change
from parity_tests.harness.rounding.missing import NoRule
from parity_tests.harness.rounding.registry import BY_MODULUS, Kind, primitive


@primitive("convert_element_type", kinds=Kind.KEEPS_SIZE | Kind.LINEAR | Kind.STEP, complex=BY_MODULUS)
def converted(eqn, x, e, y, p):
    """To another dtype: floating-point numbers lose their fraction if they become integers."""
    (a,), (error,) = x, e
    if a.dtype.kind not in "fc" or y.dtype.kind in "fc":
        return np.minimum(error, 1.0) if y.dtype.kind == "b" else error
    if y.dtype.kind == "b":
        return ((np.abs(a) <= error) & (error > 0)).astype(float)
    return change(y.astype(float), np.trunc(a - error), np.trunc(a + error))


@primitive("bitcast_convert_type")
def bits(eqn, x, e, y, p):
    """A floating-point number read as an integer, which rises with its magnitude; its sign is the first bit.

    As wide as it is: the oracle's own 64 bits, of which those that a format lacks mean nothing to a candidate. What
    is left of them by a shift, the sign or the exponent, does.
    """
    if x[0].dtype.kind != "f" or y.dtype.kind not in "iu" or y.dtype.itemsize != x[0].dtype.itemsize:
        if not any(map(np.any, e)):
            return np.zeros(y.shape)
        raise NoRule("bitcast_convert_type (of what rounding may change, not from a number to an integer as wide)")
    low, high = (np.asarray(x[0] + shift).view(y.dtype).astype(float) for shift in (-e[0], e[0]))
    middle = y.astype(float)
    # Across 0 the sign changes, with all that is between.
    crosses = (np.abs(x[0]) <= e[0]) & (e[0] > 0)
    return np.where(crosses, np.inf, np.maximum(np.abs(high - middle), np.abs(middle - low)))


@primitive("shift_right_arithmetic")
def shifted_right(eqn, x, e, y, p):
    """The right shift of signed integers, floor(a / 2^n), which is monotone."""
    if np.any(e[1]):
        raise NoRule("shift_right_arithmetic (by what rounding may change)")
    unit = 2.0 ** x[1].astype(float)
    info = np.iinfo(y.dtype)
    low, high = (np.clip(x[0].astype(float) + shift, info.min, info.max) for shift in (-e[0], e[0]))
    changed = change(y.astype(float), np.floor(low / unit), np.floor(high / unit))
    return np.where(e[0] > 0, changed, 0.0)


@primitive("and", "or", "not", "xor", "reduce_and", "reduce_or")
def logic(eqn, x, e, y, p):
    """1 where an operand may change, and no other settles the result: a false one of "and", a true one of "or"."""
    if y.dtype.kind != "b":
        if any(map(np.any, e)):
            raise NoRule(f"{eqn.primitive.name} (of the bits of an integer that rounding may change)")
        return np.zeros(y.shape)
    name, may = eqn.primitive.name, [bound > 0 for bound in e]
    settled = [
        np.zeros(a.shape, bool) if name in ("not", "xor") else ~b & (a == ("or" in name))
        for a, b in zip(x, may, strict=True)
    ]
    if name.startswith("reduce_"):
        axes = tuple(eqn.params["axes"])
        return (may[0].any(axes) & ~settled[0].any(axes)).astype(float)
    return (np.logical_or.reduce(may) & ~np.logical_or.reduce(settled)).astype(float)
