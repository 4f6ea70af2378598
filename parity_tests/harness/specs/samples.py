"""Samples: the inputs at which an operator is judged, made from its signature, each to catch a named mistake."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from parity_tests.harness.numbers.conversion import as_double, as_given
from parity_tests.harness.specs.domains import DOMAINS, EmptyDomain
from parity_tests.harness.specs.loops import Loops
from parity_tests.harness.specs.sample import SMALL, drawn, generator
from parity_tests.harness.specs.sample import Sample as Sample
from parity_tests.harness.specs.sample_plans import LARGEST, absences, at_blocks, plans
from parity_tests.harness.specs.signature import Place
from parity_tests.harness.specs.spec import OpSpec

# Domains, beside those that say it of each entry, of which the first rows, or rows and columns, are members, too.
_WITH_PARTS = [DOMAINS[name] for name in ("symmetric", "definite", "lower", "sorted", "distinct")]


def samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Yield every sample of an operator in a fixed order, the most informative first.

    One at which the loops of a reference in PyTorch would be too long is cut, unless it is at the edge of a block: that
    was asked for.
    """
    signature = spec.parsed
    if signature is None:
        yield from _given_samples(spec, seed)
        return
    rules, short = spec.size_rules, max(SMALL)
    first: Mapping[str, int] | None = None
    cut, loops = list[Mapping[str, int]](), Loops(spec, {})
    for plan, kept in plans(spec, signature, rules):
        with contextlib.suppress(EmptyDomain):
            sizes = rules.nearest(plan.sizes, kept)
            if first is None:
                first, short = sizes, max([short, *sizes.values()])
                loops = Loops(spec, first)
            elif kept and sizes == first:
                continue  # the first sample has this size already
            if not (at_blocks(plan) or loops.fit(sizes)):
                found = loops.cut(plan, sizes, kept)
                if found is None or found[1] in cut:
                    continue
                plan, sizes = found
                cut.append(sizes)
            entries = max(math.prod(shape) for shape in signature.input_shapes(sizes))
            if entries <= LARGEST or max(sizes.values(), default=0) <= short:
                yield at_sizes(spec, replace(plan, seed=seed, short=short), sizes)


def few_samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Yield the samples of a quick run: the first, absent inputs, an empty axis, equal axes and long ones.

    Besides, those in which an axis is of size 1, with first derivatives only, so that they cost next to nothing.
    """
    every = list(samples(spec, seed))
    empty = [sample for sample in every if sample.has_empty_axis]
    yield every[0]
    yield from (sample for sample in every if sample.absent)
    yield from empty[:1]
    seen = [every[0].sizes]
    for sample in every:
        of_size_one = min(sample.sizes.values(), default=0) == 1 and max(sample.sizes.values()) <= sample.short
        if of_size_one and sample.sizes not in seen and not sample.absent and not sample.broadcast:
            seen.append(sample.sizes)
            yield replace(sample, first_order_only=True)
    yield from (sample for sample in every if sample.name in ("equal_axes", "long_axes") or sample.whole)


def _given_samples(spec: OpSpec, seed: int) -> Iterator[Sample]:
    """Yield the sample of the inputs that a spec gives, then those in which optional inputs are absent."""
    domains, given = spec.drawn_from, spec.inputs or ()
    for name, why, absent in (("given", "the inputs that were given", frozenset()), *absences(spec)):
        varied = [i for i, domain in enumerate(domains) if domain.differentiable and i not in absent]
        fixed = tuple(as_double(given[i]) for i in varied)
        constants = {i: None if i in absent else as_given(given[i]) for i in range(spec.count) if i not in varied}
        shapes, moving = tuple(x.shape for x in fixed), tuple(domains[i] for i in varied)
        sample = Sample(name, why, {}, shapes, moving, seed, fixed=fixed, constants=constants, kernel_sized=True)
        yield sample.as_complex() if any(map(np.iscomplexobj, fixed)) else sample
    if spec.given_size:
        yield _whole_sample(spec, seed)


def _whole_sample(spec: OpSpec, seed: int) -> Sample:
    """Return the sample of the inputs of which a spec judges a part."""
    domains, whole = spec.drawn_from, spec.given_size
    varied = [i for i, domain in enumerate(domains) if domain.differentiable]
    fixed = tuple(as_double(whole[i]) for i in varied)
    return Sample(
        "given_size",
        "a grid that is too small, or an index that overflows, at the size that was given",
        {},
        tuple(x.shape for x in fixed),
        tuple(domains[i] for i in varied),
        seed,
        first_order_only=True,
        fixed=fixed,
        constants={i: as_given(x) for i, x in enumerate(whole) if i not in varied},
        whole=True,
    )


def given_arrays(sample: Sample) -> dict[int, np.ndarray]:
    """Return the inputs of a sample of given ones, by their position among all, without those that are absent."""
    varied = iter(sample.fixed or ())
    every = range(len(sample.fixed or ()) + len(sample.constants))
    found = {i: sample.constants[i] if i in sample.constants else next(varied) for i in every}
    return {i: x for i, x in found.items() if x is not None}


def cut(sample: Sample, places: Collection[Place], smaller: int, last: bool = False) -> Sample:
    """Return a sample of given inputs with so many of the first entries along these axes, which are of one size.

    Integers that may be indices along such an axis are brought below the new size. `last`: of the last entries.

    Raises:
        EmptyDomain: a part of an input is not in its domain, or an integer is one that no smaller axis may have.
    """
    arrays = given_arrays(sample)
    size = next(arrays[i].shape[axis] for i, axis in places)
    start = size - smaller if last else 0
    kept = slice(start, start + smaller)
    parts = {
        i: x[tuple(kept if (i, axis) in places else slice(None) for axis in range(x.ndim))] for i, x in arrays.items()
    }
    varied = [i for i in sorted(arrays) if i not in sample.constants]
    for i, domain in zip(varied, sample.domains, strict=True):
        if parts[i].shape != arrays[i].shape and not (domain.elementwise or domain in _WITH_PARTS):
            raise EmptyDomain(f"a part of an array may not be in the domain {domain.name!r}")
    constants = {i: None if x is None else _indices(parts[i], size, kept) for i, x in sample.constants.items()}
    fixed = tuple(parts[i] for i in varied)
    return replace(sample, shapes=tuple(x.shape for x in fixed), fixed=fixed, constants=constants, given={})


def _indices(x: np.ndarray, size: int, kept: slice) -> np.ndarray:
    """Integers that may be indices along an axis of which a part is kept, as indices of this part."""
    if x.dtype.kind not in "iu" or not x.size or x.max() > size:
        return x
    smaller = kept.stop - kept.start
    if x.max() == size or x.min() < -smaller:
        raise EmptyDomain(f"an integer counts the entries of an axis of size {size}, or counts from its end")
    return np.where(x < 0, x, np.clip(x.astype(np.int64) - kept.start, 0, smaller - 1)).astype(x.dtype)


def at_sizes(spec: OpSpec, sample: Sample, sizes: Mapping[str, int]) -> Sample:
    """Return a new sample of the same kind with axes of these sizes. The operator must have a signature.

    Raises:
        EmptyDomain: a domain has no array of that shape, or the spec's rules do not allow these sizes.
    """
    signature = spec.parsed
    assert signature is not None
    sizes = spec.size_rules.completed(sizes)
    names, domains = spec.names, spec.drawn_from
    shapes = signature.input_shapes(sizes, sample.broadcast)
    varied = [i for i, domain in enumerate(domains) if domain.differentiable and i not in sample.absent]

    def constant(i: int) -> np.ndarray:
        x = drawn(domains[i], generator(sample.seed, sample.name, f"{names[i]} 0"), shapes[i], sizes)
        if i not in sample.repeated or not x.size:
            return x
        number = sample.repeated[i]
        return np.full_like(x, x.flat[0] if number is None else number)

    resized = replace(
        sample,
        sizes=dict(sizes),
        shapes=tuple(shapes[i] for i in varied),
        domains=tuple(domains[i] for i in varied),
        constants={i: None if i in sample.absent else constant(i) for i in range(spec.count) if i not in varied},
        given={},
    )
    return resized.as_complex() if sample.complex else resized
