"""Arithmetic modulo a prime below 2^31, of arrays of uint64: a product of two residues fits, on every machine."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

GENERATOR = 4
Residues = np.ndarray
_BABY_STEPS = 2**18
_AT_ONCE = 2**14  # numbers that are looked up at once


class NoInverse(ArithmeticError):
    """Numbers are zero in the field, or have no root or logarithm there: another point of the field may do.

    Attributes:
        missing: which.
    """

    def __init__(self, missing: np.ndarray) -> None:
        self.missing = missing
        super().__init__(f"{missing.sum()} numbers have no inverse, root or logarithm")


def _check(exist: Residues) -> None:
    """Raise NoInverse for the entries of which this is false."""
    if not np.all(exist):
        raise NoInverse(np.logical_not(exist))


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
        _check(np.array(denominator % self.p))
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
        _check(x)
        return self.power(x, self.p - 2)

    def root(self, x: Residues) -> Residues:
        """The root of each square that is a square itself, so that the root of a product is the product of the roots.

        Raises:
            NoInverse: an entry is no square.
        """
        root = self.power(x, (self.p + 1) // 4)
        _check(self.mul(root, root) == x)
        return root

    def log(self, x: Residues, signed: bool = True) -> Residues:
        """The n for which 4^n is x, modulo (p - 1) / 2: by Shanks' baby steps, which are made once, and giant ones.

        Unless `signed`, 4^n is x or -x, whichever is a square.

        Raises:
            NoInverse: an entry is 0, or no square though signed.
        """
        is_square = self.power(x, (self.p - 1) // 2) == 1
        _check(is_square if signed else x)
        x = np.where(is_square, x, self.p - x).astype(np.uint64)
        steps, order, back = _steps(self.p)
        found, unknown = np.zeros(x.size, np.uint64), np.arange(x.size)
        giant = 0
        while unknown.size:
            some = max(1, _AT_ONCE // unknown.size)
            left = self.mul(x.ravel()[unknown, None], back[giant : giant + some])
            at = np.minimum(np.searchsorted(steps, left), _BABY_STEPS - 1)
            row, column = np.nonzero(steps[at] == left)
            found[unknown[row]] = (giant + column) * _BABY_STEPS + order[at[row, column]]
            unknown = np.delete(unknown, row)
            giant += some
        return found.reshape(x.shape)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Residues:
        """Elements other than zero."""
        return rng.integers(1, self.p, shape, np.uint64)


def primes(rng: np.random.Generator) -> Iterator[int]:
    """Random primes p = 2 q + 1 below 2^31 with q prime.

    The squares modulo p have the order q, and 4 generates them; p and q are 3 modulo 4, so that each square has one
    root that is a square; and 2, 3, 5 and 7 are squares modulo both.
    """
    while True:
        drawn = 16 * rng.integers(2**26 + 2**25, 2**27, 1024) - 1
        for p in map(int, drawn[_has_roots(drawn) & _has_roots(drawn // 2)]):
            if _is_prime(p // 2) and _is_prime(p):
                yield p


def _has_roots(p: np.ndarray) -> np.ndarray:
    """Whether 3, 5 and 7 are squares modulo p, a prime that is 3 modulo 4: where -p is one modulo each (Gauss)."""
    return np.isin(-p % 3, [1]) & np.isin(-p % 5, [1, 4]) & np.isin(-p % 7, [1, 2, 4])


def _is_prime(n: int) -> bool:
    """Miller's test, which these bases decide below 3.2e9."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(
        (x := pow(base, odd, n)) in (1, n - 1) or any((x := x * x % n) == n - 1 for _ in range(twos - 1))
        for base in (2, 3, 5, 7)
    )


@functools.lru_cache(maxsize=8)
def _steps(p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The baby steps, powers of the generator in ascending order, and their exponents; and the giant ones, back."""
    field = Field(p)
    powers = field.power(field.number(GENERATOR), np.arange(_BABY_STEPS, dtype=np.uint64))
    back = field.number(pow(GENERATOR, -_BABY_STEPS, p))
    order = np.argsort(powers)
    giants = np.arange(p // 2 // _BABY_STEPS + 1, dtype=np.uint64)
    return powers[order], order.astype(np.uint64), field.power(back, giants)
