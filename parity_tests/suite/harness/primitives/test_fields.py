"""Arithmetic modulo a prime, by Python's integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from parity_tests.harness.primitives.field.fields import GENERATOR, Field, NoInverse, primes

RNG = np.random.default_rng(0)
PRIMES = [*itertools.islice(primes(RNG), 4)]


def is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, math.isqrt(n) + 1))


@pytest.mark.parametrize("p", PRIMES, ids=range(4))
def test_the_primes_are_what_is_said_of_them(p: int) -> None:
    q = (p - 1) // 2
    assert 2**30 < p < 2**31
    assert is_prime(p)
    assert is_prime(q)
    assert pow(GENERATOR, q, p) == 1
    for modulus in (p, q):
        assert modulus % 4 == 3
        assert all(pow(n, (modulus - 1) // 2, modulus) == 1 for n in (2, 3, 5, 7))


def numbers(field: Field, *shape: int) -> np.ndarray:
    """Random ones, and the largest."""
    x = field.random(RNG, shape)
    x.flat[0] = field.p - 1
    return x


@pytest.mark.parametrize("p", [PRIMES[0], (PRIMES[0] - 1) // 2], ids=["p", "q"])
def test_arithmetic_is_that_of_integers(p: int) -> None:
    field = Field(p)
    x, y = numbers(field, 5, 7), numbers(field, 5, 7)
    for made, of in (
        (field.add(x, y), lambda a, b: a + b),
        (field.sub(x, y), lambda a, b: a - b),
        (field.mul(x, y), lambda a, b: a * b),
        (field.power(x, 5), lambda a, b: a**5),
        (field.power(x, y), lambda a, b: pow(a, b, p)),
        (field.mul(field.inverse(x), y), lambda a, b: pow(a, -1, p) * b),
        (field.power(x, -3), lambda a, b: pow(a, -3, p)),
    ):
        expected = [of(int(a), int(b)) % p for a, b in zip(x.flat, y.flat, strict=True)]
        assert made.ravel().tolist() == expected
    assert int(field.number(-3, 7)) * 7 % p == p - 3


def test_roots_and_logarithms_are_those_of_squares() -> None:
    field = Field(PRIMES[1])
    x, y = (field.mul(a, a) for a in (numbers(field, 40), numbers(field, 40)))
    root = field.root(x)
    assert np.array_equal(field.mul(root, root), x)
    assert np.array_equal(field.mul(root, field.root(y)), field.root(field.mul(x, y)))
    log = field.log(x)
    assert np.array_equal(field.power(field.number(GENERATOR), log), x)
    assert np.array_equal(field.log(field.sub(field.number(0), x), signed=False), log)
    together = (log + field.log(y)) % ((field.p - 1) // 2)
    assert np.array_equal(together, field.log(field.mul(x, y)))


def test_what_has_none_is_refused() -> None:
    field = Field(PRIMES[2])
    no_square = field.sub(field.number(0), field.number(4))
    for refused in (
        lambda: field.inverse(np.array([3, 0], np.uint64)),
        lambda: field.number(1, field.p),
        lambda: field.root(no_square),
        lambda: field.log(no_square),
        lambda: field.log(field.number(0)),
    ):
        with pytest.raises(NoInverse):
            refused()


def test_primes_are_others_each_time() -> None:
    found = [{*itertools.islice(primes(np.random.default_rng(seed)), 3)} for seed in range(3)]
    assert len(set.union(*found)) == 9
