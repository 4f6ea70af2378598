"""The axes of an operator's outputs, found by its shapes at several sizes of the axes of its inputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np

from parity_tests.harness.numbers.conversion import as_given
from parity_tests.harness.numbers.numerics import pinned_jax
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.signature import BATCH, ELLIPSIS
from parity_tests.harness.specs.spec import OpSpec

# The sizes that the axes are wanted to have, in order. Those of a row differ, and no rule makes a column of another.
_WANTED = (
    (2, 8, 4, 9, 13, 14, 3, 5, 12),
    (11, 9, 3, 13, 4, 5, 14, 12, 2),
    (5, 2, 9, 4, 11, 3, 10, 6, 14),
    (14, 11, 5, 7, 12, 2, 10, 9, 3),
    (12, 9, 10, 2, 6, 4, 5, 11, 13),
)
_FEW = 3  # of these, by which an axis of an input, or one of a fixed size, is recognized
_FACTORS, _OFFSETS = range(1, 9), range(-8, 9)

Sizes = Mapping[str, int]


def with_outputs(spec: OpSpec) -> OpSpec:
    """Return a specification with the outputs of its primal in its signature, in place of those that it has.

    An axis of an output is one that an input has, or always of one size, or defined by one or two others: then
    `sizes` has its rule.

    Raises:
        ValueError: the size of an axis is none of these; the message has what was found.
    """
    tried = list(_tried(spec))
    shapes = [output_shapes(spec, sizes) for sizes in tried[:_FEW]]
    if len({tuple(map(len, found)) for found in shapes}) != 1:
        raise ValueError(f"OpSpec {spec.name}: the number of axes of its outputs depends on the sizes: {shapes}")
    places = [(i, j) for i, shape in enumerate(shapes[0]) for j in range(len(shape))]
    named = {place: _plainly_named(tried[:_FEW], _sizes_at(shapes, *place)) for place in places}
    rules = dict[str, str]()
    if None in named.values():
        shapes += [output_shapes(spec, sizes) for sizes in tried[_FEW:]]
        for i, j in places:
            if named[i, j] is None:
                rule = _rule_for(spec, f"axis {j} of output {i}", tried, _sizes_at(shapes, i, j))
                named[i, j] = rules.setdefault(rule, f"out{len(rules)}")
    outputs = []
    for i, shape in enumerate(shapes[0]):
        axes = [str(named[i, j]) for j in range(len(shape))]
        outputs.append("(" + ",".join(ELLIPSIS if axis == BATCH[0] else axis for axis in axes) + ")")
    inputs = (spec.signature or "").partition("->")[0]
    defined = [f"{name} = {rule}" for rule, name in rules.items()]
    sizes_text = ", ".join([*([spec.sizes] if spec.sizes else []), *defined]) or None
    return replace(spec, signature=f"{inputs}->{','.join(outputs)}", sizes=sizes_text)


def _tried(spec: OpSpec) -> Iterator[Sizes]:
    signature = spec.parsed
    assert signature is not None
    for wanted in _WANTED:
        yield spec.size_rules.nearest(dict(zip(signature.axes, itertools.cycle(wanted), strict=False)))


def output_shapes(spec: OpSpec, sizes: Sizes | None = None) -> Sequence[tuple[int, ...]]:
    """Return the shapes of the primal's outputs at these sizes of the axes, by default at any; or at given inputs."""
    if spec.inputs is not None:
        arrays, sizes = [as_given(x) for x in spec.inputs], {}
    else:
        sizes = next(_tried(spec)) if sizes is None else sizes
        arrays = drawn(spec, sizes)
    with pinned_jax("cpu"):
        arguments = spec.arranged([jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays])
        params = spec.params_at(sizes)
        found = jax.eval_shape(lambda *args: spec.primal(*args, **params), *arguments)
    return [y.shape for y in jax.tree.leaves(found)]


def drawn(spec: OpSpec, sizes: Sizes) -> list[np.ndarray]:
    """Return inputs of an operator at these sizes of the axes; raises ValueError if a domain has none."""
    signature, rng, domains = spec.parsed, np.random.default_rng(0), spec.domains_of_inputs(spec.count)
    assert signature is not None
    try:
        return [d.draw(rng, s, sizes) for d, s in zip(domains, signature.input_shapes(sizes), strict=True)]
    except EmptyDomain as error:
        raise ValueError(f"OpSpec {spec.name}: {error}; give sizes that allow it") from error


def _sizes_at(shapes: Sequence[Sequence[tuple[int, ...]]], i: int, j: int) -> list[int]:
    return [found[i][j] for found in shapes]


def _plainly_named(tried: Sequence[Sizes], found: Sequence[int]) -> str | None:
    """The axis of an input that has these sizes, or their one size; None if it is neither."""
    for axis in tried[0]:
        if [sizes[axis] for sizes in tried] == [*found]:
            return axis
    return str(found[0]) if len({*found}) == 1 else None


def _rule_for(spec: OpSpec, where: str, tried: Sequence[Sizes], found: Sequence[int]) -> str:
    """The plainest rule for an axis that has these sizes; raises ValueError if there is none."""
    for rule, values in _rules(tried):
        if values == [*found]:
            return rule
    at = "; ".join(
        f"{size} at {', '.join(f'{axis} = {n}' for axis, n in sizes.items())}"
        for size, sizes in zip(found, tried, strict=True)
    )
    raise ValueError(
        f"OpSpec {spec.name}: {where} is {at}; say how long it is by the whole signature and OpSpec(sizes=...)"
    )


def _rules(tried: Sequence[Sizes]) -> Iterator[tuple[str, list[int]]]:
    """Yield expressions in one axis or two, the plainest first, with their values."""
    axes = [*tried[0]]
    for offset, axis, factor in itertools.product(sorted(_OFFSETS, key=abs), axes, _FACTORS):
        written = axis if factor == 1 else f"{factor}*{axis}"
        rule = written if not offset else f"{written} {'+' if offset > 0 else '-'} {abs(offset)}"
        yield rule, [factor * sizes[axis] + offset for sizes in tried]
    for offset, axis, divisor in itertools.product(sorted(_OFFSETS, key=abs), axes, range(2, 5)):
        shifted = f"({axis} {'+' if offset > 0 else '-'} {abs(offset)})" if offset else axis
        yield f"{shifted} // {divisor}", [(sizes[axis] + offset) // divisor for sizes in tried]
    for first, second in itertools.combinations(axes, 2):
        yield f"{first} + {second}", [sizes[first] + sizes[second] for sizes in tried]
        yield f"{first} * {second}", [sizes[first] * sizes[second] for sizes in tried]
