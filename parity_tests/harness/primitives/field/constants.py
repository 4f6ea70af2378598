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
    """The number ± rational^(1 / order) * π^(pis / 2) * log(base)^logs that a float64 is, or stands for.

    Attributes:
        rational: positive, unless the order is 1.
        order: 1, 2 or 4; 1 if there is a logarithm.
        pis: 0 if there is a logarithm.
        logs: 1, 0 or -1.
        base: 2 or 10.
    """

    rational: fractions.Fraction
    order: int = 1
    pis: int = 0
    negative: bool = False
    logs: int = 0
    base: int = 2

    @property
    def is_rational(self) -> bool:
        """True of a fraction: of a float that is one, or that is taken as it is."""
        return self.order == 1 and self.pis == 0 and self.logs == 0

    def __str__(self) -> str:
        root = {1: "{}", 2: "sqrt({})", 4: "sqrt(sqrt({}))"}[self.order].format(self.rational)
        pi = {0: "", 1: " sqrt(π)", 2: " π", -1: " / sqrt(π)", -2: " / π"}[self.pis]
        log = {0: "", 1: f" log({self.base})", -1: f" / log({self.base})"}[self.logs]
        product = f"{root}{pi}{log}"
        return "-" * self.negative + (product if product.startswith("1 /") else product.removeprefix("1 "))


@functools.lru_cache(maxsize=4096)
def recognized(x: float) -> Constant:
    """The number that a finite float stands for.

    It is the nearest float to a decimal number of few digits or to a fraction of small numbers; or off by at most two
    units of the last place of a root of such a fraction, perhaps times a root of π, or of such a fraction by or over
    log 2 or log 10, as a product of rounded constants is; else it is exactly the number that it is. Of random floats
    less than one in 10^7 is taken for another number.
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
            found = _small(x, order, math.pi ** (pis / 2))
            if found and (pis != 0 or (order > 1 and not _is_square(found))):
                return Constant(found, order, pis, x < 0)
    for base in (2, 10):
        for logs in (1, -1):
            if found := _small(x, 1, math.log(base) ** logs):
                return Constant(found, negative=x < 0, logs=logs, base=base)
    return Constant(fractions.Fraction(x))


def _small(x: float, order: int, factor: float) -> fractions.Fraction | None:
    """The fraction of small numbers whose root, by a factor, is |x|."""
    power = (abs(x) / factor) ** order
    if not 1 / _SMALL <= power <= _SMALL:
        return None
    found = fractions.Fraction(power).limit_denominator(_SMALL)
    value = float(found) ** (1 / order) * factor
    return found if found.numerator <= _SMALL and abs(value - abs(x)) <= 2 * math.ulp(x) else None


def may_be_rounded(x: float) -> bool:
    """True of a float that stands for itself, in more digits than a short number has: another formula may round so."""
    exact = fractions.Fraction(x)
    odd = abs(exact.numerator) // (exact.numerator & -exact.numerator or 1)
    return odd.bit_length() > _SHORT and recognized(x) == Constant(exact)


def _is_square(x: fractions.Fraction) -> bool:
    return math.isqrt(x.numerator) ** 2 == x.numerator and math.isqrt(x.denominator) ** 2 == x.denominator
