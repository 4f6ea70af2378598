"""The numbers that the constants of a formula stand for."""

from __future__ import annotations

import fractions
import functools
import math
from typing import NamedTuple

_DIGITS = 10  # of decimal numbers such as 0.044715 and 1e-5
_LARGEST = 2.0**200  # of what is anything but itself
_SMALL = 1000  # numerators and denominators
_SHORT = 32  # bits of a number that was hardly rounded to float64: float32's, a sum of few powers of two


class Constant(NamedTuple):
    """The number ± rational^(1 / order) * π^(pis / 2) that a float64 is, or stands for.

    Attributes:
        rational: positive, unless the order is 1.
        order: 1, 2 or 4.
    """

    rational: fractions.Fraction
    order: int = 1
    pis: int = 0
    negative: bool = False

    @property
    def is_rational(self) -> bool:
        """True of a fraction: of a float that is one, or that is taken as it is."""
        return self.order == 1 and self.pis == 0

    def __str__(self) -> str:
        root = {1: "{}", 2: "sqrt({})", 4: "sqrt(sqrt({}))"}[self.order].format(self.rational)
        pi = {0: "", 1: " sqrt(π)", 2: " π", -1: " / sqrt(π)", -2: " / π"}[self.pis]
        return f"{'-' if self.negative else ''}{root}{pi}"


@functools.lru_cache(maxsize=4096)
def recognized(x: float) -> Constant:
    """The number that a finite float stands for.

    It is the nearest float to a decimal number of few digits or to a fraction of small numbers; or off by at most two
    units of the last place of a root of such a fraction, perhaps times a root of π, as a product of rounded constants
    is; else it is exactly the number that it is. Of random floats less than one in 10^7 is taken for another number.
    """
    if not abs(x) < _LARGEST:
        return Constant(fractions.Fraction(x))
    decimal = fractions.Fraction(f"{x:.{_DIGITS - 1}e}")
    near = fractions.Fraction(x).limit_denominator(_SMALL)
    for simple in (near, decimal):
        if float(simple) == x and (simple is decimal or abs(simple.numerator) <= _SMALL):
            return Constant(simple)
    for order in (1, 2, 4):
        for pis in (0, 1, -1, 2, -2):
            power = (abs(x) / math.pi ** (pis / 2)) ** order
            if not 1 / _SMALL <= power <= _SMALL:
                continue
            found = fractions.Fraction(power).limit_denominator(_SMALL)
            value = float(found) ** (1 / order) * math.pi ** (pis / 2)
            is_a_root = pis != 0 or (order > 1 and not _is_square(found))
            if is_a_root and found.numerator <= _SMALL and abs(value - abs(x)) <= 2 * math.ulp(x):
                return Constant(found, order, pis, x < 0)
    return Constant(fractions.Fraction(x))


def may_be_rounded(x: float) -> bool:
    """True of a float that stands for itself, in more digits than a short number has: another formula may round so."""
    exact = fractions.Fraction(x)
    odd = abs(exact.numerator) // (exact.numerator & -exact.numerator or 1)
    return odd.bit_length() > _SHORT and recognized(x) == Constant(exact)


def _is_square(x: fractions.Fraction) -> bool:
    return math.isqrt(x.numerator) ** 2 == x.numerator and math.isqrt(x.denominator) ** 2 == x.denominator
