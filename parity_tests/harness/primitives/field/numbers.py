"""Numbers of a finite field.

A number is an integer that nobody knows, by its residues modulo p and q = (p - 1) / 2, beside the number that it is in
a run: see `run`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from parity_tests.harness.primitives.field.constants import Constant, recognized
from parity_tests.harness.primitives.field.fields import GENERATOR, Field, NoInverse, Residues

Pair: TypeAlias = "tuple[Residues, Residues | None]"
OF_INTEGERS: Pair = (np.zeros(0, np.uint64), None)  # which the run has


class Unmodelled(NotImplementedError):
    """A program has an operation that fields do not have; the message names it."""


@dataclass(frozen=True)
class Number:
    """An array of numbers.

    Attributes:
        residues: modulo p, and modulo q; None where a number has none: a root modulo q.
        real: the numbers of the run, an array of objects.
    """

    residues: Pair
    real: np.ndarray

    def each(self, f: Callable[[Residues], Residues]) -> Pair:
        """The residues after the same movement in both fields."""
        p, q = self.residues
        return f(p), None if q is None else f(q)

    def __getitem__(self, i: Any) -> Number:
        """Entries of it."""
        return Number(self.each(lambda r: r[i]), self.real[i])


Operand: TypeAlias = "Number | np.ndarray"  # integers and booleans are NumPy's


class Model:
    """The numbers of one prime.

    Args:
        p: the prime.
        rng: of the random roots of π, of e, and of random functions.
        signed: False if log(-x) may be log(x), so that every number has one; see `Field.log`.

    Attributes:
        fields: of p, and of q.
        read_as: the floats that were taken for a fraction times roots or logarithms, and this.
        functions: those of which nothing is known, so far.
        log_of_e: the random logarithm, modulo q, of the number that stands for e, by the field's generator.
    """

    def __init__(self, p: int, rng: np.random.Generator, signed: bool = True) -> None:
        self.fields, self.signed = (Field(p), Field((p - 1) // 2)), signed
        self.read_as: dict[float, Constant] = {}
        self._roots_of_pi = [int(rng.integers(2, field.p)) for field in self.fields]
        self.log_of_e = self.fields[1].random(rng, ())
        self._salt = rng.integers(0, 2**63, dtype=np.uint64)
        self._powers: dict[int, int] = {}  # of e, by the exponent's residue modulo p
        self.functions = set[str]()
        self._constants: dict[float, tuple[int, int | None]] = {}
        self._logs: dict[int, tuple[Residues, Residues]] = {}  # of small integers

    def random(self, rng: np.random.Generator, real: np.ndarray) -> Number:
        """A random number for each one of a run."""
        p, q = (field.random(rng, np.shape(real)) for field in self.fields)
        return Number((p, q), real)

    def changed(self, rng: np.random.Generator, x: Number, share: float, missing: np.ndarray) -> Number:
        """The same numbers, but about so many of them others, at places that look like those of missing roots."""
        shape, axes = x.real.shape, missing.ndim
        near = missing.any() and missing.shape == shape[:axes]
        old = rng.random(shape) >= share
        old |= ~np.broadcast_to(missing.reshape(missing.shape + (1,) * (len(shape) - axes)), shape) if near else False
        new = self.random(rng, x.real)
        (p, q), (new_p, new_q) = x.residues, new.residues
        return Number(
            (np.where(old, p, new_p), None if q is None or new_q is None else np.where(old, q, new_q)), x.real
        )

    def constants(self, x: np.ndarray, real: np.ndarray) -> Number:
        """The numbers that floats stand for; see `constants`. An infinity is none, and has residues of 0."""
        unique, places = np.unique(x, return_inverse=True)
        every = [self._constant(value) for value in unique.tolist()]

        p, q = ([residues[i] for residues in every] for i in (0, 1))

        def array(residues: list[Any]) -> Residues:
            return np.array(residues, np.uint64)[places].reshape(x.shape)

        return Number((array(p), None if None in q else array(q)), real)

    def _constant(self, x: float) -> tuple[int, int | None]:
        if x not in self._constants:
            self._constants[x] = self._residues(x)
        return self._constants[x]

    def _residues(self, x: float) -> tuple[int, int | None]:
        if not np.isfinite(x):
            return 0, 0
        found, (of_p, of_q) = recognized(x), self.fields
        if not found.is_rational:
            self.read_as[x] = found
        p = _root(of_p, found)
        if p is None:
            raise NoInverse(np.array(True))
        if found.logs:
            logs, parts = self.log_of(found.base), (found.rational.numerator, found.rational.denominator)
            p, q = (
                int(f.mul(f.number(*parts), f.power(y, found.logs))) for f, y in zip(self.fields, logs, strict=True)
            )
            return (-p % of_p.p, -q % of_q.p) if found.negative else (p, q)
        p, q = (
            None if root is None else root * pow(of_pi, found.pis, field.p) % field.p
            for field, root, of_pi in zip(self.fields, (p, _root(of_q, found)), self._roots_of_pi, strict=True)
        )
        return p or 0, q

    def log(self, x: Residues) -> tuple[Residues, Residues]:
        """The logarithm of residues modulo p: modulo q by the number that stands for e, modulo p a random function."""
        of_p, of_q = self.fields
        return self._random("log", x)[0], of_q.mul(of_p.log(x, self.signed), of_q.inverse(self.log_of_e))

    def log_of(self, n: int) -> tuple[Residues, Residues]:
        """The logarithm of a small integer."""
        if n not in self._logs:
            self._logs[n] = self.log(np.array(n, np.uint64))
        return self._logs[n]

    def exponential(self, x: Number) -> Residues:
        """e^x modulo p, by the residue modulo q; where that is lost, as it was for the same residue modulo p before.

        Of a number that has had none it is a function of which nothing is known but that it is one.
        """
        (p, q), (of_p, of_q) = x.residues, self.fields
        if q is not None:
            power = of_p.power(np.full(q.shape, GENERATOR, np.uint64), of_q.mul(q, self.log_of_e))
            self._powers |= zip(p.ravel().tolist(), power.ravel().tolist(), strict=True)
            return power
        power, _ = self.random_function("exp", x)
        known = [self._powers.get(r, y) for r, y in zip(p.ravel().tolist(), power.ravel().tolist(), strict=True)]
        return np.array(known, np.uint64).reshape(power.shape)

    def random_function(self, name: str, *operands: Number) -> Pair:
        """A function of which nothing is known but that it is one: of either field's residues, if there are any."""
        self.functions.add(name.partition(" {")[0])
        of_p = self._random(name, *(x.residues[0] for x in operands))
        q = [r for x in operands if (r := x.residues[1]) is not None]
        return of_p[0], self._random(name, *q)[1] if len(q) == len(operands) else of_p[1]

    def _random(self, name: str, *operands: Any) -> tuple[Residues, Residues]:
        mixed = np.zeros(np.broadcast_shapes(*(r.shape for r in operands)), np.uint64)
        mixed = mixed + (self._salt ^ np.uint64(zlib.crc32(name.encode())))
        for r in operands:
            mixed = _scrambled(mixed + r)
        return mixed % self.fields[0].p, _scrambled(mixed) % self.fields[1].p


def _root(field: Field, constant: Constant) -> int | None:
    """± the root of a fraction in a field; None if it has none."""
    root = field.number(constant.rational.numerator, constant.rational.denominator)
    try:
        for _ in range(constant.order.bit_length() - 1):
            root = field.root(root)
    except NoInverse:
        return None
    return -int(root) % field.p if constant.negative else int(root)


def _scrambled(x: np.ndarray) -> np.ndarray:
    """The function of splitmix64, a permutation of 64 bits that looks random."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def is_finite(x: np.ndarray) -> np.ndarray:
    """Which entries of an array of numbers are finite."""
    return np.asarray(np.frompyfunc(lambda a: a - a == 0, 1, 1)(x), bool)
