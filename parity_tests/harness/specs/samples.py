"""Samples: the inputs at which an operator is judged, made from its signature, each to catch a named mistake."""

from __future__ import annotations

import contextlib
import itertools
import math
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

import numpy as np

from parity_tests.harness.numbers.conversion import as_double, as_given
from parity_tests.harness.specs.domains import COMPLEX_NUMBERS, EXTENDED, REAL, Domain, EmptyDomain
from parity_tests.harness.specs.signature import Axes, Place, Signature
from parity_tests.harness.specs.size_rules import SizeRules
from parity_tests.harness.specs.spec import OpSpec

_SMALL = (4, 3, 5, 2, 7, 6, 9, 8)
_LONG = (33, 35, 37, 39, 41, 43, 45, 47)
_LONG_ALONE = 97  # of an operator with one axis: dozens of entries, and past a block of 32 or 64
_BLOCKS = 128  # whole blocks of 16, 32, 64 and 128: the tail that a kernel handles apart has no entry
_TAIL = 131  # three more
_MANY = 2049  # terms of one sign, past which a bfloat16 sum no longer grows, and a float16 one has lost its digits
_LARGEST = 2**17  # entries of an array, beyond which a sample is not worth its time


@dataclass(frozen=True, eq=False)
class Sample:
    """One concrete set of inputs: its name, the mistake that it is there to catch, and how its values are drawn.

    Two samples are equal if all their fields are, arrays included. `shapes`, `domains` and `fixed` are those of the
    inputs that are differentiated, in order; `constants` are the others, by their position among all inputs.

    Attributes:
        scale: the standard deviation of an entry of a real input; the entries are normally distributed.
        octaves: if not 0, the entries are spread over this many octaves below `scale`, and none is larger.
        one_sign: True if all entries are positive.
        first_order_only: True if only the operator, its VJP and its JVP are judged, as for large sizes.
        broadcast: the axes of inputs that are of size 1 although `sizes` has another size for them.
        short: the largest size of an axis that is not long.
        complex: True if all numbers that are not given are complex; both parts are drawn as real numbers are.
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
    broadcast: frozenset[Place] = frozenset()
    short: int = max(_SMALL)
    complex: bool = False
    examples: tuple[int, ...] = ()
    fixed: tuple[np.ndarray, ...] | None = None
    constants: Mapping[int, np.ndarray] = field(default_factory=dict)
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
    def generic(self) -> bool:
        """True if no axis is empty, of size 1, or long. Costly checks try every variant at such a sample only."""
        ordinary = not self.first_order_only and not self.broadcast
        return self.fixed is not None or (ordinary and all(1 < size <= self.short for size in self.sizes.values()))

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
        if any(map(np.iscomplexobj, (*(self.fixed or ()), *(self.constants.values() if self.fixed else ())))):
            return replace(self, complex=True, given={})
        fixed = None if self.fixed is None else tuple(map(_as_complex, self.fixed))
        constants = {i: _as_complex(x) for i, x in self.constants.items()}
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
        if domain in (REAL, EXTENDED, COMPLEX_NUMBERS):
            is_complex = self.numbers[i] is np.complex128
            return self._remembered(role, lambda rng: self.scale * _numbers(rng, shape, self._real, is_complex), source)
        return self._remembered(role, lambda rng: _drawn(domain, rng, shape, self.sizes), source)

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
            self._drawn[role] = make(_generator(self.seed, self.name, source or role))
        return self._drawn[role]


def _equal(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return a == b


def _generator(seed: int, sample: str, role: str) -> np.random.Generator:
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


def _drawn(domain: Domain, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
    x = domain.draw(rng, shape, sizes)
    if x.shape != shape:
        raise ValueError(f"the domain {domain.name!r} drew an array of shape {x.shape}, asked for {shape}")
    if domain.differentiable and x.dtype.kind in "iub":
        raise TypeError(
            f"the domain {domain.name!r} drew {x.dtype}, which cannot be differentiated; multiply by 1.0 for real "
            "numbers, or give a Domain(..., differentiable=False)"
        )
    return x


def samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Yield every sample of an operator in a fixed order, the most informative first."""
    signature = spec.parsed
    if signature is None:
        domains = spec.domains_of_inputs(spec.count)
        varied = [i for i, domain in enumerate(domains) if domain.differentiable]
        moving = tuple(domains[i] for i in varied)
        given = spec.inputs or ()
        fixed = tuple(as_double(given[i]) for i in varied)
        constants = {i: as_given(given[i]) for i in range(spec.count) if i not in varied}
        why, shapes = "the inputs that were given", tuple(x.shape for x in fixed)
        sample = Sample("given", why, {}, shapes, moving, seed, fixed=fixed, constants=constants)
        yield sample.as_complex() if any(map(np.iscomplexobj, fixed)) else sample
        return
    rules, short = spec.size_rules, max(_SMALL)
    first: Mapping[str, int] | None = None
    for plan, kept in _plans(spec, signature, rules):
        with contextlib.suppress(EmptyDomain):
            sizes = rules.nearest(plan.sizes, kept)
            if first is None:
                first, short = sizes, max([short, *sizes.values()])
            elif kept and sizes == first:
                continue  # the first sample has this size already
            entries = max(math.prod(shape) for shape in signature.input_shapes(sizes))
            if entries <= _LARGEST or max(sizes.values(), default=0) <= short:
                yield at_sizes(spec, replace(plan, seed=seed, short=short), sizes)


def few_samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Yield the samples of a quick run: the first, the first with an empty axis, and the one beyond a block."""
    every = list(samples(spec, seed))
    empty = [sample for sample in every if 0 in sample.sizes.values()]
    yield every[0]
    yield from empty[:1]
    yield from (sample for sample in every if sample.name == "long_axes")


def at_sizes(spec: OpSpec, sample: Sample, sizes: Mapping[str, int]) -> Sample:
    """Return a new sample of the same kind with axes of these sizes. The operator must have a signature.

    Raises:
        EmptyDomain: a domain has no array of that shape, or the spec's rules do not allow these sizes.
    """
    signature = spec.parsed
    assert signature is not None
    sizes = spec.size_rules.completed(sizes)
    names, domains = spec.names_of_inputs(spec.count), spec.domains_of_inputs(spec.count)
    shapes = signature.input_shapes(sizes, sample.broadcast)
    varied = [i for i, domain in enumerate(domains) if domain.differentiable]
    resized = replace(
        sample,
        sizes=dict(sizes),
        shapes=tuple(shapes[i] for i in varied),
        domains=tuple(domains[i] for i in varied),
        constants={
            i: _drawn(domains[i], _generator(sample.seed, sample.name, f"{names[i]} 0"), shapes[i], sizes)
            for i in range(spec.count)
            if i not in varied
        },
        given={},
    )
    return resized.as_complex() if sample.complex else resized


PlannedSample = tuple[Sample, Collection[str]]  # a sample, and the axes whose sizes are what it is about


def _plans(spec: OpSpec, signature: Signature, rules: SizeRules) -> Iterator[PlannedSample]:
    """Yield the samples that a signature calls for: names, sizes and scales."""
    axes = signature.axes
    small: dict[str, int] = dict(zip(axes, _SMALL, strict=False))
    if axes:
        yield _plan("all_axes_differ", "a transposed or swapped axis", small), ()
    else:
        for i in range(8):
            yield _plan(f"draw_{i}", "one number says little", {}), ()
    for axis in axes:
        for size in rules.choices(axis):
            why = "a size that the operator is written for, as every size that it takes"
            yield _plan(f"{axis}_{size}", why, small | {axis: size}), (axis,)
    for axis in axes:
        yield _plan(f"one_{axis}", "an axis of size 1 squeezed or broadcast", small | {axis: 1}), (axis,)
    for axis in axes:
        why = "an empty axis that crashes, or whose gradients are not zero"
        yield _plan(f"zero_{axis}", why, small | {axis: 0}), (axis,)
    if axes:
        why = "a threshold that numbers of the usual size do not reach"
        yield replace(_plan("larger_numbers", why, small, scale=4.0), first_order_only=True), ()
    yield from _broadcast(spec, signature, small)
    square = {axis for argument in signature.inputs for axis in argument if argument.count(axis) > 1}
    for axis in axes:
        yield from _of_many_sizes(small, axis, axis in square)
    yield from _long(signature, rules, small, bool(square))


def _broadcast(spec: OpSpec, signature: Signature, sizes: Mapping[str, int]) -> Iterator[PlannedSample]:
    """Yield samples that broadcast each axis for which the signature allows it, then every two of them."""
    names = spec.names_of_inputs(spec.count)
    for count in (1, 2):
        for places in itertools.combinations(signature.broadcast, count):
            if signature.sized_without(places):
                where = "_".join(f"{signature.inputs[i][j]}_of_{names[i]}" for i, j in places)
                why = "an axis of size 1 that others have longer: a gradient that is not summed over it"
                plan = _plan(f"broadcast_{where}", why, sizes)
                yield replace(plan, broadcast=frozenset(places), first_order_only=count > 1), ()


def _of_many_sizes(small: dict[str, int], axis: str, square: bool) -> Iterator[PlannedSample]:
    """Yield samples with one axis at size 2, at whole blocks, with a tail, and too long for a 16-bit sum."""
    if small[axis] != 2:  # the axis of size 2 swaps sizes with this one, so that all sizes differ
        swapped = {other: small[axis] if size == 2 else size for other, size in small.items()}
        two = _plan(f"two_{axis}", "an axis of size 2 taken for a pair", swapped | {axis: 2})
        yield replace(two, first_order_only=True), (axis,)
    if not square:  # a factorization takes 16 s there in place of 4; for it `long_axes` is long enough
        blocks = _plan(f"blocks_{axis}", "blocks without a tail", small | {axis: _BLOCKS}, scale=0.25)
        yield replace(blocks, first_order_only=True), (axis,)
        why = "the tail beyond a block of up to 128"
        tail = _plan(f"tail_{axis}", why, small | {axis: _TAIL}, scale=2.0, octaves=3)
        yield replace(tail, first_order_only=True), (axis,)
    many = _plan(f"many_{axis}", "a sum of many terms of one sign, added up in 16 bits", small | {axis: _MANY})
    yield replace(many, scale=_MANY**-0.5, one_sign=True, first_order_only=True), (axis,)


def _long(signature: Signature, rules: SizeRules, small: dict[str, int], square: bool) -> Iterator[PlannedSample]:
    """Yield samples in which all axes are long at once, judged to every order.

    A single axis gets more entries, unless they are those of square matrices. Where the outputs would be too large, as
    those of a Kronecker product, the axes are long in pairs.
    """
    axes = signature.axes
    if not axes:
        return
    if len(axes) == 1 and not square:
        why = "the tail beyond a block of 32; a branch that only entries of some size take"
        yield _plan("long_axes", why, {axes[0]: _LONG_ALONE}, scale=2.0, octaves=3), ()
        return
    long = dict(zip(axes, _LONG, strict=False))
    for i, together in enumerate(_long_together(signature, rules, small, long)):
        name = "_".join(["long_axes", *(together if i else ())])
        sizes = {axis: long[axis] if axis in together else small[axis] for axis in axes}
        # A quarter of the usual size, so that long sums of products stay as moderate as the short ones.
        plan = _plan(name, "the tail beyond a block of 32", sizes, scale=0.25)
        yield replace(plan, first_order_only=i > 0), ()


def _long_together(
    signature: Signature, rules: SizeRules, small: Mapping[str, int], long: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    """Yield sets of axes that are long at once: all, or as many as the outputs allow until every pair has been.

    The size of the inputs is not limited here: `samples` omits a sample whose inputs are too large.
    """
    axes = signature.axes

    def largest(arguments: Sequence[Axes], chosen: Collection[str]) -> int:
        try:
            sizes = rules.nearest({axis: (long if axis in chosen else small)[axis] for axis in axes})
        except EmptyDomain:
            return 0  # a sample with these sizes does not exist
        sizes |= {axis: int(axis) for argument in arguments for axis in argument if axis.isdigit()}
        return max((math.prod(sizes.get(axis, 1) for axis in argument) for argument in arguments), default=0)

    def fits(chosen: Collection[str]) -> bool:
        return largest(signature.outputs, chosen) <= _LARGEST

    if len(axes) < 3 or fits(axes) or largest(signature.inputs, axes) > _LARGEST:
        yield axes
        return
    seen: set[tuple[str, str]] = set()
    for pair in itertools.combinations(axes, 2):
        if pair not in seen and fits(pair):
            together = set(pair)
            for axis in axes:
                if fits({*together, axis}):
                    together.add(axis)
            chosen = tuple(axis for axis in axes if axis in together)
            seen.update(itertools.combinations(chosen, 2))
            yield chosen


def _plan(name: str, why: str, sizes: Mapping[str, int], scale: float = 1.0, octaves: int = 0) -> Sample:
    return Sample(name, why, sizes, (), (), 0, scale, octaves)
