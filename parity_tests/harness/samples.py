"""The inputs that an operator is judged at: made from its signature, each to catch a named mistake."""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from parity_tests.harness.bridge import as_float64, as_given
from parity_tests.harness.domains import DOMAINS, Domain, Empty
from parity_tests.harness.signature import Signature
from parity_tests.harness.spec import OpSpec

REAL = DOMAINS["real"]
_SMALL = (4, 3, 5, 2, 7, 6, 9, 8)
_LONG = (33, 35, 37, 39, 41, 43, 45, 47)
_MANY = 2049  # terms of one sign, past which a bfloat16 sum no longer grows, and a float16 one has lost its digits
_LARGEST = 2**17  # entries of an array, beyond which a sample is not worth its time


@dataclass(frozen=True)
class Sample:
    """One concrete input: its name, the mistake that it is there to catch, and how its values are drawn.

    `shapes`, `domains` and `fixed` are those of the inputs that are differentiated, in order; `constants` are the
    others, by their position among all inputs. `drawn`: every array so far by its role, so that a sample with the same
    arrays is the same sample; those that are put there are not drawn.
    """

    name: str
    why: str
    sizes: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    domains: tuple[Domain, ...]
    seed: int
    scale: float = 1.0
    one_sign: bool = False
    fixed: tuple[np.ndarray, ...] | None = None
    constants: Mapping[int, np.ndarray] = field(default_factory=dict)
    drawn: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def first_order_only(self) -> bool:
        """Is the sample so large that only the operator, its VJP and its JVP are judged there?"""
        return self.one_sign

    @property
    def generic(self) -> bool:
        """Is no axis empty, of size 1, or long? Costly checks try every variant on such a sample only."""
        return self.fixed is not None or all(1 < size <= max(_SMALL) for size in self.sizes.values())

    def draw(self, role: str, shape: tuple[int, ...]) -> np.ndarray:
        """Standard normal float64 numbers, or their magnitudes; the same for the same seed, sample and role."""
        return self._remembered(role, lambda rng: self._normal(rng, shape))

    def primals(self, names: tuple[str, ...], example: int = 0) -> list[np.ndarray]:
        """The operator's inputs; `example` numbers further ones of the same kind, for a batch."""
        return [self._primal(i, f"{name} {example}", example) for i, name in enumerate(names)]

    def _primal(self, i: int, role: str, example: int) -> np.ndarray:
        shape, domain = self.shapes[i], self.domains[i]
        if self.fixed is not None:
            # Scaled copies stay in whatever domain the given inputs are in: positive, bounded, definite, triangular.
            x = self.fixed[i]
            return self._remembered(role, lambda rng: x * (1 - example / 8))
        if domain is REAL:
            return self._remembered(role, lambda rng: self.scale * self._normal(rng, shape))
        return self._remembered(role, lambda rng: _drawn(domain, rng, shape, self.sizes))

    def _normal(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        x = rng.standard_normal(shape)
        return np.abs(x) if self.one_sign else x

    def _remembered(self, role: str, make: Callable[[np.random.Generator], np.ndarray]) -> np.ndarray:
        if role not in self.drawn:
            self.drawn[role] = make(_generator(self.seed, self.name, role))
        return self.drawn[role]


def _generator(seed: int, sample: str, role: str) -> np.random.Generator:
    return np.random.default_rng((seed, zlib.crc32(sample.encode()), zlib.crc32(role.encode())))


def _drawn(domain: Domain, rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
    x = domain.draw(rng, shape, sizes)
    if x.shape != shape:
        raise ValueError(f"the domain {domain.name!r} drew an array of shape {x.shape}, asked for {shape}")
    return x


def samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Every sample of an operator, in a fixed order, the most telling first."""
    signature = spec.parsed
    if signature is None:
        domains = spec.domains_of_inputs(spec.count)
        varied = [i for i, domain in enumerate(domains) if domain.differentiable]
        moving = tuple(domains[i] for i in varied)
        given = spec.inputs or ()
        fixed = tuple(as_float64(given[i]) for i in varied)
        constants = {i: as_given(given[i]) for i in range(spec.count) if i not in varied}
        why, shapes = "the inputs that were given", tuple(x.shape for x in fixed)
        yield Sample("given", why, {}, shapes, moving, seed, fixed=fixed, constants=constants)
        return
    for plan in _plans(spec, signature):
        with contextlib.suppress(Empty):
            yield at_sizes(spec, replace(plan, seed=seed), plan.sizes)


def few_samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Of `samples`, for a quick run: the first, the first with an empty axis, and the one beyond a block."""
    every = list(samples(spec, seed))
    empty = [sample for sample in every if 0 in sample.sizes.values()]
    yield every[0]
    yield from empty[:1]
    yield from (sample for sample in every if sample.name == "long_axes")


def at_sizes(spec: OpSpec, sample: Sample, sizes: Mapping[str, int]) -> Sample:
    """A sample of the same kind with axes of these sizes, drawn anew. The operator must have a signature.

    Raises:
        Empty: a domain has no array of that shape.
    """
    signature = spec.parsed
    assert signature is not None
    names, domains = spec.names_of_inputs(spec.count), spec.domains_of_inputs(spec.count)
    shapes = signature.input_shapes(sizes)
    varied = [i for i, domain in enumerate(domains) if domain.differentiable]
    return replace(
        sample,
        sizes=dict(sizes),
        shapes=tuple(shapes[i] for i in varied),
        domains=tuple(domains[i] for i in varied),
        constants={
            i: _drawn(domains[i], _generator(sample.seed, sample.name, f"{names[i]} 0"), shapes[i], sizes)
            for i in range(spec.count)
            if i not in varied
        },
        drawn={},
    )


def _plans(spec: OpSpec, signature: Signature) -> Iterator[Sample]:
    """The samples that a signature asks for: names, sizes and scales."""

    def plan(name: str, why: str, sizes: Mapping[str, int], scale: float = 1.0, one_sign: bool = False) -> Sample:
        return Sample(name, why, sizes, (), (), 0, scale, one_sign)

    axes = signature.axes
    if not axes:
        for i in range(8):
            yield plan(f"draw_{i}", "one number says little", {})
        return
    if len(axes) > len(_SMALL):
        raise ValueError(f"OpSpec {spec.name}: {len(axes)} named axes; at most {len(_SMALL)} can be told apart by size")
    small = dict(zip(axes, _SMALL, strict=False))
    yield plan("all_axes_differ", "a transposed or swapped axis", small)
    for axis in axes:
        yield plan(f"one_{axis}", "an axis of size 1 squeezed or broadcast", small | {axis: 1})
    for axis in axes:
        yield plan(f"zero_{axis}", "an empty axis that crashes, or whose gradients are not zero", small | {axis: 0})
    for axis in axes:
        sizes = small | {axis: _MANY}
        if all(math.prod(shape) <= _LARGEST for shape in signature.input_shapes(sizes)):
            why = "a sum of many terms of one sign, added up in 16 bits"
            yield plan(f"many_{axis}", why, sizes, scale=_MANY**-0.5, one_sign=True)
    # A quarter of the usual size, so that long sums of products stay as moderate as the short ones.
    yield plan("long_axes", "the tail beyond a block of 32", dict(zip(axes, _LONG, strict=False)), scale=0.25)
