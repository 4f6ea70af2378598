"""The inputs that an operator is judged at: made from its signature, each to catch a named mistake."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from parity_tests.harness.bridge import as_float64
from parity_tests.harness.spec import OpSpec

_SMALL = (4, 3, 5, 2, 7, 6, 9, 8)
_LONG = (33, 35, 37, 39, 41, 43, 45, 47)
_MANY = 2049  # terms of one sign, past which a bfloat16 sum no longer grows, and a float16 one has lost its digits
_LARGEST = 2**17  # entries of an array, beyond which a sample is not worth its time


@dataclass(frozen=True)
class Sample:
    """One concrete input: its name, the mistake that it is there to catch, and how its values are drawn."""

    name: str
    why: str
    sizes: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    seed: int
    scale: float = 1.0
    one_sign: bool = False
    fixed: tuple[np.ndarray, ...] | None = None

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
        key = (self.seed, zlib.crc32(self.name.encode()), zlib.crc32(role.encode()))
        x = np.random.default_rng(key).standard_normal(shape)
        return np.abs(x) if self.one_sign else x

    def primals(self, names: tuple[str, ...], example: int = 0) -> list[np.ndarray]:
        """The operator's inputs; `example` numbers further ones of the same kind, for a batch."""
        if self.fixed is not None:
            # Scaled copies stay in whatever domain the given inputs are in: positive, bounded, definite, triangular.
            return [x * (1 - example / 8) for x in self.fixed]
        shapes = zip(names, self.shapes, strict=True)
        return [self.scale * self.draw(f"{name} {example}", shape) for name, shape in shapes]


def samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Every sample of an operator, in a fixed order, the most telling first."""
    signature = spec.parsed
    if signature is None:
        fixed = tuple(map(as_float64, spec.inputs or ()))
        yield Sample("given", "the inputs that were given", {}, tuple(x.shape for x in fixed), seed, fixed=fixed)
        return

    def sample(name: str, why: str, sizes: Mapping[str, int], scale: float = 1.0) -> Sample:
        return Sample(name, why, sizes, signature.input_shapes(sizes), seed, scale)

    axes = signature.axes
    if not axes:
        for i in range(8):
            yield sample(f"draw_{i}", "one number says little", {})
        return
    if len(axes) > len(_SMALL):
        raise ValueError(f"OpSpec {spec.name}: {len(axes)} named axes; at most {len(_SMALL)} can be told apart by size")
    small = dict(zip(axes, _SMALL, strict=False))
    yield sample("all_axes_differ", "a transposed or swapped axis", small)
    for axis in axes:
        yield sample(f"one_{axis}", "an axis of size 1 squeezed or broadcast", small | {axis: 1})
    for axis in axes:
        yield sample(f"zero_{axis}", "an empty axis that crashes, or whose gradients are not zero", small | {axis: 0})
    for axis in axes:
        sizes = small | {axis: _MANY}
        if all(math.prod(shape) <= _LARGEST for shape in signature.input_shapes(sizes)):
            why = "a sum of many terms of one sign, added up in 16 bits"
            shapes = signature.input_shapes(sizes)
            yield Sample(f"many_{axis}", why, sizes, shapes, seed, scale=_MANY**-0.5, one_sign=True)
    # A quarter of the usual size, so that long sums of products stay as moderate as the short ones.
    yield sample("long_axes", "the tail beyond a block of 32", dict(zip(axes, _LONG, strict=False)), scale=0.25)
