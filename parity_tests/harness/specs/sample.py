"""A sample: one concrete set of inputs at which an operator is judged."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

import numpy as np

from parity_tests.harness.specs.domains import COMPLEX_NUMBERS, Domain
from parity_tests.harness.specs.signature import Place

SMALL = (4, 3, 5, 2, 7, 6, 9, 8)  # the sizes of the axes of a small sample, all different


@dataclass(frozen=True, eq=False)
class Sample:
    """One concrete set of inputs: its name, the mistake that it is there to catch, and how its values are drawn.

    Two samples are equal if all their fields are, arrays included. `shapes`, `domains` and `fixed` are those of the
    inputs that are differentiated, in order; `constants` are the others, by their position among all inputs, with None
    for an optional input that is absent.

    Attributes:
        scale: the standard deviation of an entry of a real input; the entries are normally distributed.
        octaves: if not 0, the entries are spread over this many octaves below `scale`, and none is larger.
        one_sign: True if all entries are positive.
        first_order_only: True if only the operator, its VJP and its JVP are judged, as for large sizes.
        repeated: the integer inputs whose entries all are the same, by position: which, or None for the first one.
        broadcast: the axes of inputs that are of size 1 although `sizes` has another size for them.
        short: the largest size of an axis that is not long.
        kernel_sized: True if it has so many entries that statistics tell of its errors.
        complex: True if all numbers that are not given are complex; both parts are drawn as real numbers are.
        cut_from: the sizes that it would have if the loops of the reference were not unrolled there; empty if it has
            the sizes that its name says. See `loops`.
        whole: True for the inputs of which the others are a part, see `OpSpec.given_size`; one check looks at them.
        examples: the numbers of the draws that serve as the first examples; the draws between them are skipped.
        given: arrays by their role ("x 0" of the first example of the input x) that are used in place of drawn ones.
    """

    name: str
    why: str
    sizes: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    domains: tuple[Domain, ...]
    seed: int
    scale: float = 1.0
    octaves: int = 0
    one_sign: bool = False
    first_order_only: bool = False
    repeated: Mapping[int, bool | None] = field(default_factory=dict)
    broadcast: frozenset[Place] = frozenset()
    short: int = max(SMALL)
    kernel_sized: bool = False
    complex: bool = False
    cut_from: Mapping[str, int] = field(default_factory=dict)
    whole: bool = False
    examples: tuple[int, ...] = ()
    fixed: tuple[np.ndarray, ...] | None = None
    constants: Mapping[int, np.ndarray | None] = field(default_factory=dict)
    given: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    # The arrays drawn so far. They follow from the fields above, so that a copy starts without them.
    _drawn: dict[str, np.ndarray] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", MappingProxyType(dict(self.given)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sample):
            return NotImplemented
        names = (f.name for f in fields(self) if f.init)
        return all(_equal(getattr(self, name), getattr(other, name)) for name in names)

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """Every array that is given, or that has been drawn so far, by its role."""
        return MappingProxyType({**self.given, **self._drawn})

    def with_arrays(self, changes: Mapping[str, np.ndarray]) -> Sample:
        """Return a sample that is given all arrays of this one, replaced or extended by `changes`.

        Its numbers are therefore the same under any name and at any seed.
        """
        return replace(self, given={**self.arrays, **changes})

    @property
    def absent(self) -> frozenset[int]:
        """The positions of the optional inputs that are absent."""
        return frozenset(i for i, x in self.constants.items() if x is None)

    def differentiated(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the names of all inputs that are differentiated here."""
        return tuple(name for i, name in enumerate(names) if i not in self.constants)

    @property
    def has_empty_axis(self) -> bool:
        """True if the size of an axis is 0."""
        return 0 in self.sizes.values()

    @property
    def entries(self) -> int:
        """The number of entries of all inputs together."""
        constants = sum(x.size for x in self.constants.values() if x is not None)
        return sum(map(math.prod, self.shapes)) + constants

    @property
    def generic(self) -> bool:
        """True if no axis is empty, of size 1, or long, and no input is absent.

        Costly checks try every variant at such a sample only.
        """
        ordinary = not self.first_order_only and not self.whole and not self.broadcast and not self.absent
        return ordinary and (self.fixed is not None or all(1 < size <= self.short for size in self.sizes.values()))

    @property
    def numbers(self) -> tuple[type, ...]:
        """Return np.float64 or np.complex128 for each input that is differentiated."""
        if self.fixed is not None:
            return tuple(np.complex128 if np.iscomplexobj(x) else np.float64 for x in self.fixed)
        return tuple(
            np.complex128 if self.complex or domain is COMPLEX_NUMBERS else np.float64 for domain in self.domains
        )

    def draw(self, role: str, shape: tuple[int, ...], complex: bool = False) -> np.ndarray:
        """Return standard normal float64 numbers, or their magnitudes; the same for the same seed, sample and role.

        With `complex`, return complex128 numbers whose parts are such numbers.
        """
        x = self._remembered(role, lambda rng: _numbers(rng, shape, self._normal, complex))
        if x.shape != shape:  # of a failure that is read from a file
            raise ValueError(f"the array {role!r} has the shape {x.shape}, expected {shape}")
        return x

    def as_complex(self) -> Sample:
        """Return the same sample with complex numbers, also for constants, unless these are integers.

        Given inputs stay as they are if some of them are complex.
        """
        given = [x for x in (*(self.fixed or ()), *(self.constants.values() if self.fixed else ())) if x is not None]
        if any(map(np.iscomplexobj, given)):
            return replace(self, complex=True, given={})
        fixed = None if self.fixed is None else tuple(map(_as_complex, self.fixed))
        constants = {i: None if x is None else _as_complex(x) for i, x in self.constants.items()}
        return replace(self, complex=True, fixed=fixed, constants=constants, given={})

    def primals(self, names: tuple[str, ...], example: int = 0) -> list[np.ndarray]:
        """Return the operator's inputs; `example` numbers further ones of the same kind, for a batch."""
        return [self._primal(i, name, example) for i, name in enumerate(names)]

    def _primal(self, i: int, name: str, example: int) -> np.ndarray:
        shape, domain, role = self.shapes[i], self.domains[i], f"{name} {example}"
        if self.fixed is not None:
            # Scaled copies stay in whatever domain the given inputs are in: positive, bounded, definite, triangular.
            x = self.fixed[i]
            return self._remembered(role, lambda rng: x * (1 - example / 8))
        number = self.examples[example] if example < len(self.examples) else example + sum(self.examples[-1:])
        source = f"{name} {number}"
        if domain.is_real or domain is COMPLEX_NUMBERS:
            scale = domain.spread if self.scale == 1.0 else self.scale
            is_complex = self.numbers[i] is np.complex128
            return self._remembered(role, lambda rng: scale * _numbers(rng, shape, self._real, is_complex), source)
        return self._remembered(role, lambda rng: drawn(domain, rng, shape, self.sizes), source)

    def _real(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        if not self.octaves:
            return self._normal(rng, shape)
        return rng.uniform(-1, 1, shape) * 2.0 ** -rng.integers(0, self.octaves + 1, shape)

    def _normal(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        x = rng.standard_normal(shape)
        return np.abs(x) if self.one_sign else x

    def _remembered(
        self, role: str, make: Callable[[np.random.Generator], np.ndarray], source: str | None = None
    ) -> np.ndarray:
        if role in self.given:
            return self.given[role]
        if role not in self._drawn:
            self._drawn[role] = make(generator(self.seed, self.name, source or role))
        return self._drawn[role]


def _equal(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return a == b


def generator(seed: int, sample: str, role: str) -> np.random.Generator:
    """Return the generator of one array, by the seed, the sample's name and the array's role in it."""
    return np.random.default_rng((seed, zlib.crc32(sample.encode()), zlib.crc32(role.encode())))


def _numbers(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    parts: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    is_complex: bool,
) -> np.ndarray:
    real = parts(rng, shape)
    return real + 1j * parts(rng, shape) if is_complex else real


def _as_complex(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128) if x.dtype.kind == "f" else x


def drawn(domain: Domain, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
    """Return an array of this shape that a domain draws.

    Raises:
        TypeError: the domain draws integers and does not say so.
        ValueError: the domain draws another shape.
    """
    x = domain.draw(rng, shape, sizes)
    if x.shape != shape:
        raise ValueError(f"the domain {domain.name!r} drew an array of shape {x.shape}, asked for {shape}")
    if domain.differentiable and x.dtype.kind in "iub":
        raise TypeError(
            f"the domain {domain.name!r} drew {x.dtype}, which cannot be differentiated; multiply by 1.0 for real "
            "numbers, or give a Domain(..., differentiable=False)"
        )
    return x
