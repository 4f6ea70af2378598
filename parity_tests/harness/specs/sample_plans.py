"""The samples that an operator calls for: each has the sizes and the scale that catch a named mistake."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from parity_tests.harness.specs.domains import BOOLEAN, Domain, EmptyDomain
from parity_tests.harness.specs.sample import SMALL, Sample
from parity_tests.harness.specs.signature import BATCH, Axes, Signature
from parity_tests.harness.specs.size_rules import SizeRules
from parity_tests.harness.specs.spec import OpSpec

_DISTINCT = (*SMALL, 10, 11)  # sizes of all axes where two more come first
_EQUAL = 4  # one size of all axes
_LONG = (33, 35, 37, 39, 41, 43, 45, 47)
_LONG_ALONE = 97  # of an operator with one axis: dozens of entries, and past a block of 32 or 64
_BLOCKS = 256  # whole blocks of 16, 32, 64, 128 and 256: the tail that a kernel handles apart has no entry
_TAIL = 191  # all but one of a block of 8, 16, 32 or 64
_MANY = 2049  # terms of one sign, past which a bfloat16 sum no longer grows, and a float16 one has lost its digits
_LARGE_BATCH = 2**16  # one more than a GPU launches blocks along its second and third axis
LARGEST = 2**17  # entries of an array, beyond which a sample is not worth its time


def _prime_from(number: int) -> int:
    """The least prime number that is at least this one."""
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


# Samples at the edges of blocks: a name, the mistake, and the size of an axis by that of its block.
_EDGES: tuple[tuple[str, str, Callable[[int], int]], ...] = (
    ("block_plus_1", "the last block, of which one entry is there, left out or read whole", lambda block: block + 1),
    ("block_minus_1", "one block that is not full", lambda block: block - 1),
    ("one_block", "a full block taken for one with a tail", lambda block: block),
    ("three_blocks", "what one block hands to the next", lambda block: 3 * block),
    ("prime_size", "a size that no block divides, taken for the padded one", lambda block: _prime_from(5 * block // 2)),
)

Planned = tuple[Sample, Collection[str]]  # a sample, and the axes whose sizes are what it is about


def plans(spec: OpSpec, signature: Signature, rules: SizeRules) -> Iterator[Planned]:
    """Yield the samples that a signature calls for: names, sizes and scales."""
    of_its_own = (*_of_ranks(signature), *_large_batch(spec, signature))
    signature = signature.at(BATCH[:1])
    axes = signature.axes
    small: dict[str, int] = dict(zip(axes, SMALL, strict=False))
    if axes:
        yield _plan("all_axes_differ", "a transposed or swapped axis", small), ()
    else:
        for i in range(8):
            yield _plan(f"draw_{i}", "one number says little", {}), ()
    if len(axes) > 1:
        why = "an axis that is found by its size, where another one has the same"
        yield replace(_plan("equal_axes", why, dict.fromkeys(axes, _EQUAL)), first_order_only=True), axes
    for axis in axes:
        for size in rules.choices(axis):
            why = "a size that the operator is written for, as every size that it takes"
            yield _plan(f"{axis}_{size}", why, small | {axis: size}), (axis,)
    for name, why, absent in absences(spec):
        yield replace(_plan(name, why, small), constants=dict.fromkeys(absent)), ()
    yield from _of_equal_integers(spec, signature, small)
    for axis in axes:
        yield _plan(f"one_{axis}", "an axis of size 1 squeezed or broadcast", small | {axis: 1}), (axis,)
    for axis in axes:
        why = "an empty axis that crashes, or whose gradients are not zero"
        yield _plan(f"zero_{axis}", why, small | {axis: 0}), (axis,)
    if axes:
        why = "a threshold that numbers of the usual size do not reach"
        yield replace(_plan("larger_numbers", why, small, scale=4.0), first_order_only=True), ()
    yield from of_its_own
    yield from _at_blocks(spec, signature, small)
    yield from _broadcast(spec, signature, small)
    square = {axis for argument in signature.inputs for axis in argument if argument.count(axis) > 1}
    for axis in axes:
        yield from _of_many_sizes(small, axis, axis in square)
    yield from _long(signature, rules, small, bool(square))


def _of_equal_integers(spec: OpSpec, signature: Signature, sizes: Mapping[str, int]) -> Iterator[Planned]:
    """Yield samples in which all entries of each integer input are the same: one class, one segment, one mask."""
    drawn = [(i, of) for i, (of, axes) in enumerate(zip(spec.drawn_from, signature.inputs, strict=True)) if axes]
    integers = {i: None for i, domain in drawn if _of_integers(domain)}
    masks = [i for i, domain in drawn if domain == BOOLEAN]
    if integers:
        why = "a gradient that is assigned, not added up, where an index occurs again; an empty segment"
        yield replace(_plan("equal_integers", why, sizes), repeated=integers, first_order_only=True), ()
    for number, name in ((True, "nothing_masked"), (False, "all_masked")) if masks else ():
        why = "a path of its own for a mask, or a block of one, that is the same everywhere"
        yield replace(_plan(name, why, sizes), repeated=dict.fromkeys(masks, number), first_order_only=True), ()


def _of_ranks(signature: Signature) -> Iterator[Planned]:
    """Yield samples with no axis, two and three in the place of "...", if that is in the signature."""
    if not signature.any_rank:
        return
    for count, name in ((0, "no_batch"), (2, "two_batch_axes"), (3, "three_batch_axes")):
        axes = (*BATCH[:count], *signature.core)
        sizes = dict(zip(axes, _DISTINCT, strict=False))
        why = "an operator written for arrays of one rank, or one that takes the last axis for the second"
        yield replace(_plan(name, why, sizes), first_order_only=True), ()


def _large_batch(spec: OpSpec, signature: Signature) -> Iterator[Planned]:
    """Yield a sample of more examples than a kernel may have blocks: along "...", whose examples are independent.

    Along an axis with a name code may take memory that goes with its square; so may what draws whole matrices.
    """
    drawn = spec.drawn_from
    if not signature.any_rank or not signature.core or not all(d.elementwise or _of_integers(d) for d in drawn):
        return
    for size in (2, 1):
        sizes = {BATCH[0]: _LARGE_BATCH, **dict.fromkeys(signature.core, size)}
        if max(math.prod(shape) for shape in signature.input_shapes(sizes)) <= LARGEST:
            why = "more examples than a kernel may have blocks along an axis of its grid"
            yield replace(_plan("large_batch", why, sizes), first_order_only=True), BATCH[:1]
            return


def _of_integers(domain: Domain) -> bool:
    return domain.name.startswith("integer(")


def _at_blocks(spec: OpSpec, signature: Signature, small: Mapping[str, int]) -> Iterator[Planned]:
    """Yield samples at the edges of a kernel's blocks: of all such axes at once, unless arrays become too large."""
    for name, why, size_of in _EDGES:
        sizes = {axis: size_of(block) for axis, block in spec.blocks.items()}
        entries = max(math.prod(shape) for shape in signature.input_shapes({**small, **sizes}))
        for together in [sizes] if entries <= LARGEST else [{axis: size} for axis, size in sizes.items()]:
            if together:
                where = name if len(together) == len(sizes) else f"{name}_{next(iter(together))}"
                plan = _plan(where, why, {**small, **together}, scale=0.25)
                yield replace(plan, first_order_only=True, kernel_sized=True), tuple(together)


def at_blocks(plan: Sample) -> bool:
    """Return whether a plan is one at the edges of blocks."""
    return any(plan.name == name or plan.name.startswith(f"{name}_") for name, _, _ in _EDGES)


def _broadcast(spec: OpSpec, signature: Signature, sizes: Mapping[str, int]) -> Iterator[Planned]:
    """Yield samples that broadcast each axis for which the signature allows it, then every two of them."""
    names = spec.names
    for count in (1, 2):
        for places in itertools.combinations(signature.broadcast, count):
            if signature.sized_without(places):
                where = "_".join(f"{signature.inputs[i][j]}_of_{names[i]}" for i, j in places)
                why = "an axis of size 1 that others have longer: a gradient that is not summed over it"
                plan = _plan(f"broadcast_{where}", why, sizes)
                yield replace(plan, broadcast=frozenset(places), first_order_only=count > 1), ()


def _of_many_sizes(small: dict[str, int], axis: str, square: bool) -> Iterator[Planned]:
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


def _long(signature: Signature, rules: SizeRules, small: dict[str, int], square: bool) -> Iterator[Planned]:
    """Yield samples in which all axes are long at once, judged to every order.

    A single axis gets more entries, unless they are those of square matrices. Where the outputs would be too large, as
    those of a Kronecker product, the axes are long in pairs.
    """
    axes = signature.axes
    if not axes:
        return
    if len(axes) == 1 and not square:
        why = "the tail beyond a block of 32; a branch that only entries of some size take"
        alone = _plan("long_axes", why, {axes[0]: _LONG_ALONE}, scale=2.0, octaves=3)
        yield replace(alone, kernel_sized=True), ()
        return
    long = dict(zip(axes, _LONG, strict=False))
    for i, together in enumerate(_long_together(signature, rules, small, long)):
        name = "_".join(["long_axes", *(together if i else ())])
        sizes = {axis: long[axis] if axis in together else small[axis] for axis in axes}
        # A quarter of the usual size, so that long sums of products stay as moderate as the short ones.
        plan = _plan(name, "the tail beyond a block of 32", sizes, scale=0.25)
        yield replace(plan, first_order_only=i > 0, kernel_sized=True), ()


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
        return largest(signature.outputs, chosen) <= LARGEST

    if len(axes) < 3 or fits(axes) or largest(signature.inputs, axes) > LARGEST:
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


def absences(spec: OpSpec) -> Iterator[tuple[str, str, frozenset[int]]]:
    """Yield names, reasons and positions of optional inputs that are absent: each by itself, then all together."""
    names, optional = spec.names, tuple(dict.fromkeys(spec.optional))
    for chosen in [*((name,) for name in optional), *([optional] if len(optional) > 1 else [])]:
        why = "a gradient that is computed only where an optional input is there"
        yield f"without_{'_'.join(chosen)}", why, frozenset(names.index(name) for name in chosen)
