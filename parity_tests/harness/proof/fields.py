"""Arithmetic modulo a prime below 2^31, of arrays of uint64: a product of two residues fits, on every machine."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

# Primes p = 2 q + 1 with q prime: the squares modulo p have the order q, and 4 generates them; p and q are 3 modulo 4,
# so that each square has one root that is a square; and 2, 3, 5 and 7 are squares modulo both.
PRIMES = (2147471759, 2147441519, 2147372639, 2147365919, 2147364239, 2147335679, 2147256719, 2147204639)
GENERATOR = 4
Residues = np.ndarray
_BABY_STEPS = 2**18


class NoInverse(ArithmeticError):
    """A number is zero in the field, or has no root or logarithm there: another point of the field may do."""


@dataclass(frozen=True)
class Field:
    """The integers modulo a prime.

    Attributes:
        p: the prime, below 2^31.
    """

    p: int

    def number(self, numerator: int, denominator: int = 1) -> Residues:
        """A rational number.

        Raises:
            NoInverse: the denominator is a multiple of p.
        """
        if denominator % self.p == 0:
            raise NoInverse
        return np.array(numerator * pow(denominator, -1, self.p) % self.p, np.uint64)

    def add(self, x: Residues, y: Residues) -> Residues:
        """x + y."""
        return (x + y) % self.p

    def sub(self, x: Residues, y: Residues) -> Residues:
        """x - y."""
        return (x + (self.p - y)) % self.p

    def mul(self, x: Residues, y: Residues) -> Residues:
        """x y."""
        return x * y % self.p

    def power(self, x: Residues, n: int | Residues) -> Residues:
        """x^n, n an integer, or an array of natural numbers; 0^0 = 1.

        Raises:
            NoInverse: n is negative, and an entry of x is 0.
        """
        if isinstance(n, int) and n < 0:
            return self.power(self.inverse(x), -n)
        exponent = np.asarray(n, np.uint64)
        result = np.ones(np.broadcast_shapes(x.shape, exponent.shape), np.uint64)
        while exponent.any():
            result = np.where(exponent & np.uint64(1), self.mul(result, x), result)
            x, exponent = self.mul(x, x), exponent >> np.uint64(1)
        return result

    def inverse(self, x: Residues) -> Residues:
        """1 / x.

        Raises:
            NoInverse: an entry is 0.
        """
        if not np.all(x):
            raise NoInverse
        return self.power(x, self.p - 2)

    def root(self, x: Residues) -> Residues:
        """The root of each square that is a square itself, so that the root of a product is the product of the roots.

        Raises:
            NoInverse: an entry is no square.
        """
        root = self.power(x, (self.p + 1) // 4)
        if not np.array_equal(self.mul(root, root), x):
            raise NoInverse
        return root

    def log(self, x: Residues, signed: bool = True) -> Residues:
        """The n for which 4^n is x, modulo (p - 1) / 2: by Shanks' baby steps, which are made once, and giant ones.

        Unless `signed`, 4^n is x or -x, whichever is a square.

        Raises:
            NoInverse: an entry is 0, or no square though signed.
        """
        is_square = self.power(x, (self.p - 1) // 2) == 1
        if not np.all(is_square if signed else x):
            raise NoInverse
        x = np.where(is_square, x, self.p - x)
        steps, order = _baby_steps(self.p)
        found, left = np.full(x.shape, -1, np.int64), x
        back = self.number(pow(GENERATOR, -_BABY_STEPS, self.p))
        for giant in range(self.p // 2 // _BABY_STEPS + 1):
            at = np.minimum(np.searchsorted(steps, left), _BABY_STEPS - 1)
            found = np.where((found < 0) & (steps[at] == left), giant * _BABY_STEPS + order[at], found)
            if np.all(found >= 0):
                break
            left = self.mul(left, back)
        return found.astype(np.uint64)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Residues:
        """Elements other than zero."""
        return rng.integers(1, self.p, shape, np.uint64)


@functools.cache
def _baby_steps(p: int) -> tuple[np.ndarray, np.ndarray]:
    """The powers of the generator in ascending order, and their exponents."""
    powers = Field(p).power(Field(p).number(GENERATOR), np.arange(_BABY_STEPS, dtype=np.uint64))
    order = np.argsort(powers)
    return powers[order], order
