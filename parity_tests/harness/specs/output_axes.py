"""The axes of an operator's outputs, found by its shapes at several sizes of the axes of its inputs."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np

from parity_tests.harness.numbers.conversion import as_given
from parity_tests.harness.numbers.numerics import pinned_jax
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.fitted_sizes import fitted
from parity_tests.harness.specs.signature import BATCH, ELLIPSIS
from parity_tests.harness.specs.spec import OpSpec

# The sizes that the axes are wanted to have, in order. Those of a row differ, and no rule makes a column of another.
_WANTED = (
    (2, 8, 4, 9, 13, 14, 3, 5, 12),
    (11, 9, 3, 13, 4, 5, 14, 12, 2),
    (5, 2, 9, 4, 11, 3, 10, 6, 14),
    (63, 51, 44, 69, 74, 55, 81, 47, 58),
)

Sizes = Mapping[str, int]
Shapes = Sequence[tuple[int, ...]]


def with_outputs(spec: OpSpec) -> OpSpec:
    """Return a specification with the outputs of its primal in its signature, in place of those that it has.

    An axis of an output is one that an input has, or always of one size, or defined by others: then `sizes` has its
    rule, which is fitted to the observed sizes.

    Raises:
        ValueError: the size of an axis is none of these; the message has what was found.
    """
    first, probe = output_shapes(spec), Probe(spec)
    tried = [(sizes, found) for sizes in _tried(spec) if (found := probe(sizes)) is not None]
    shapes = [first, *(found for _, found in tried)]
    if len({tuple(map(len, found)) for found in shapes}) != 1:
        raise ValueError(f"OpSpec {spec.name}: the number of axes of its outputs depends on the sizes: {shapes}")
    outputs, rules = list[str](), dict[str, str]()
    for i, axes in enumerate(first):
        named = []
        for j in range(len(axes)):
            name = _plainly_named([(sizes, found[i][j]) for sizes, found in tried])
            if name is None:
                rule = rule_for(probe, (i, j))
                if rule is None:
                    raise ValueError(_no_rule(spec, (i, j), tried))
                name = rules.setdefault(rule, f"out{len(rules)}")
            named.append(ELLIPSIS if name == BATCH[0] else name)
        outputs.append(f"({','.join(named)})")
    inputs = (spec.signature or "").partition("->")[0]
    defined = [f"{name} = {rule}" for rule, name in rules.items()]
    sizes_text = ", ".join([*([spec.sizes] if spec.sizes else []), *defined]) or None
    return replace(spec, signature=f"{inputs}->{','.join(outputs)}", sizes=sizes_text)


def _tried(spec: OpSpec) -> Iterator[Sizes]:
    signature = spec.parsed
    assert signature is not None
    for wanted in _WANTED:
        with contextlib.suppress(EmptyDomain):
            yield spec.size_rules.nearest(dict(zip(signature.axes, itertools.cycle(wanted), strict=False)))


class Probe:
    """The shapes of an operator's outputs at sizes of which it is not known whether it can be called there."""

    def __init__(self, spec: OpSpec) -> None:
        self.spec, self._found = spec, dict[tuple, Shapes | None]()

    @functools.cached_property
    def _dtypes(self) -> list[np.dtype]:
        return [x.dtype for x in drawn(self.spec, next(_tried(self.spec)))]

    def __call__(self, sizes: Sizes) -> Shapes | None:
        """Return the shapes, or None if it raises."""
        key = tuple(sizes.items())
        if key not in self._found:
            try:
                self._found[key] = self._shapes(sizes)
            except Exception:  # whatever the primal raises
                self._found[key] = None
        return self._found[key]

    def operations(self, sizes: Sizes, most: int | None = None) -> int:
        """Return the number of operations of a reference in PyTorch, or `most` + 1 if they are more; 0 of any other."""
        count = getattr(self.spec.primal, "operations", None)
        return 0 if count is None else count(*self._arguments(sizes), most)

    def _shapes(self, sizes: Sizes) -> Shapes | None:
        without_numbers = getattr(self.spec.primal, "shapes", None)
        return output_shapes(self.spec, sizes) if without_numbers is None else without_numbers(*self._arguments(sizes))

    def _arguments(self, sizes: Sizes) -> tuple[Sequence, Mapping[str, object]]:
        """Arguments of these sizes, without numbers, and the keyword parameters."""
        signature = self.spec.parsed
        assert signature is not None
        shapes = zip(signature.input_shapes(sizes), self._dtypes, strict=True)
        return self.spec.arranged([jax.ShapeDtypeStruct(*each) for each in shapes]), self.spec.params_at(sizes)


def rule_for(probe: Probe, place: tuple[int, int]) -> str | None:
    """Return the plainest rule for an axis of an output, fitted to its sizes at many of the others; None if none is."""
    i, j = place

    def size(sizes: Sizes) -> int | None:
        found = probe(sizes)
        return found[i][j] if found is not None and len(found) > i and len(found[i]) > j else None

    tried = [sizes for sizes in _tried(probe.spec) if size(sizes) is not None]
    return fitted(size, tried[0], probe.spec.size_rules, tried) if tried else None


def output_shapes(spec: OpSpec, sizes: Sizes | None = None) -> Sequence[tuple[int, ...]]:
    """Return the shapes of the primal's outputs at these sizes of the axes, by default at any; or at given inputs."""
    if spec.inputs is not None:
        arrays, sizes = [as_given(x) for x in spec.inputs], {}
    else:
        sizes = next(_tried(spec)) if sizes is None else sizes
        arrays = drawn(spec, sizes)
    with pinned_jax():
        arguments = spec.arranged([jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays])
        params = spec.params_at(sizes)
        found = jax.eval_shape(lambda *args: spec.primal(*args, **params), *arguments)
    return [y.shape for y in jax.tree.leaves(found)]


def drawn(spec: OpSpec, sizes: Sizes) -> list[np.ndarray]:
    """Return inputs of an operator at these sizes of the axes; raises ValueError if a domain has none."""
    signature, rng, domains = spec.parsed, np.random.default_rng(0), spec.drawn_from
    assert signature is not None
    try:
        return [d.draw(rng, s, sizes) for d, s in zip(domains, signature.input_shapes(sizes), strict=True)]
    except EmptyDomain as error:
        raise ValueError(f"OpSpec {spec.name}: {error}; give sizes that allow it") from error


def _plainly_named(tried: Sequence[tuple[Sizes, int]]) -> str | None:
    """The axis of an input that has these sizes, or their one size; None if it is neither."""
    for axis in tried[0][0]:
        if all(sizes[axis] == found for sizes, found in tried):
            return axis
    first = tried[0][1]
    return str(first) if all(found == first for _, found in tried) else None


def _no_rule(spec: OpSpec, place: tuple[int, int], tried: Sequence[tuple[Sizes, Shapes]]) -> str:
    (i, j) = place
    at = "; ".join(
        f"{found[i][j]} at {', '.join(f'{axis} = {n}' for axis, n in sizes.items())}" for sizes, found in tried
    )
    return (
        f"OpSpec {spec.name}: axis {j} of output {i} is {at}; say how long it is by the whole signature and "
        "OpSpec(sizes=...)"
    )
