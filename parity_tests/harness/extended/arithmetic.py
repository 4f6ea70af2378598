"""Arithmetic, comparisons, selections and conversions in extended precision."""

from __future__ import annotations

import numpy as np

from parity_tests.harness.extended.registry import as_array, elementwise, primitive
from parity_tests.harness.numbers.tolerances import TO_TOLERANCE


# NumPy calls the numbers' own methods in a loop, which takes half the time of `elementwise`; none of them has a pole.
@primitive("add", "add_any")
def _sum(mp, eqn, x, y):
    return as_array(np.add(x, y))


@primitive("sub")
def _difference(mp, eqn, x, y):
    return as_array(np.subtract(x, y))


@primitive("mul")
def _product(mp, eqn, x, y):
    return as_array(np.multiply(x, y))


@primitive("neg")
def _negative(mp, eqn, x):
    return as_array(np.negative(x))


@primitive("copy", "copy_p", "name", "stop_gradient", TO_TOLERANCE)
def _itself(mp, eqn, x):
    return x


@elementwise("div")
def _quotient(mp, x, y):
    return x / y


@elementwise("rem")
def _remainder(mp, x, y):
    return x - y * (mp.floor(abs(x / y)) * mp.sign(x / y))


@elementwise("abs")
def _absolute(mp, x):
    return abs(x)


@elementwise("sign")
def _sign(mp, x):
    return mp.sign(x)


@elementwise("floor")
def _floor(mp, x):
    return mp.floor(x)


@elementwise("ceil")
def _ceil(mp, x):
    return mp.ceil(x)


@primitive("round")
def _round(mp, eqn, x):
    to_even = "EVEN" in str(eqn.params["rounding_method"])

    def rounded(x):
        if to_even:
            return mp.nint(x)
        return mp.sign(x) * mp.floor(abs(x) + mp.mpf(0.5))

    return as_array(np.frompyfunc(rounded, 1, 1)(x))


@primitive("integer_pow")
def _integer_power(mp, eqn, x):
    n = eqn.params["y"]
    return as_array(np.frompyfunc(lambda x: mp.nan if x == 0 and n < 0 else x**n, 1, 1)(x))


@elementwise("max")
def larger(mp, x, y):
    """The larger one, or NaN where one is NaN."""
    return x + y if mp.isnan(x) or mp.isnan(y) else max(x, y)


@elementwise("min")
def smaller(mp, x, y):
    """The smaller one, or NaN where one is NaN."""
    return x + y if mp.isnan(x) or mp.isnan(y) else min(x, y)


@elementwise("clamp")
def _clamped(mp, low, x, high):
    return smaller(mp, larger(mp, x, low), high)


@elementwise("eq")
def _equal(mp, x, y):
    return x == y


@elementwise("ne")
def _unequal(mp, x, y):
    return x != y


@elementwise("lt")
def _less(mp, x, y):
    return x < y


@elementwise("le")
def _at_most(mp, x, y):
    return x <= y


@elementwise("gt")
def _greater(mp, x, y):
    return x > y


@elementwise("ge")
def _at_least(mp, x, y):
    return x >= y


@elementwise("is_finite")
def _is_finite(mp, x):
    return bool(mp.isfinite(x))


@primitive("select_n")
def _selected(mp, eqn, which, *cases):
    chosen = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = np.where(np.asarray(which, int) == i, case, chosen)
    return chosen


@primitive("convert_element_type")
def _converted(mp, eqn, x):
    new = np.dtype(eqn.params["new_dtype"])
    if new.kind == "f":  # an evaluation in a lower precision has been refused before; see `rounding.NotFloat64`
        return x
    if new.kind == "b":
        return as_array(np.frompyfunc(lambda x: x != 0, 1, 1)(x), bool)
    return as_array(np.frompyfunc(int, 1, 1)(x), new)
