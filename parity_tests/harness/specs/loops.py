"""How long the loops of a reference may be: `torch.export` unrolls them, each step anew, and so does the oracle.

A loop over 2049 steps of five operations would be a graph of ten thousand, which takes minutes to export, and an hour
to certify; so would a loop over 33 by 35 cells. So a sample is made shorter along the axes with whose sizes the number
of operations grows, until they are no more than `MOST`. They are counted, in a run without numbers.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.output_axes import Probe
from parity_tests.harness.specs.sample import Sample
from parity_tests.harness.specs.spec import OpSpec

MOST = 768  # operations of a sample, in seconds; or twice as many as the first sample has, if they are more

_WHY = "the later steps of a loop, and the tail beyond a block, as far as they can be followed"

Sizes = Mapping[str, int]


class Loops:
    """The loops of a reference in PyTorch, by the number of its operations; those of a primal in JAX are its own.

    Args:
        spec: with a signature.
        first: the sizes of the first sample, which is judged however long its loops are.
    """

    def __init__(self, spec: OpSpec, first: Sizes) -> None:
        self._spec, self._first, self._probe = spec, first, Probe(spec)
        self._known: list[tuple[Sizes, bool]] = []

    @functools.cached_property
    def at_first(self) -> int:
        """The number of operations at the first sample."""
        return self._probe.operations(self._first)

    @property
    def most(self) -> int:
        """The number of operations that a sample may have."""
        return max(MOST, 2 * self.at_first)

    @functools.cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes at whose double size there are more operations; none whose sizes are listed or defined."""
        rules = self._spec.size_rules
        return tuple(a for a in self._first if a not in rules.defined and not rules.choices(a) and self._grows(a))

    def _grows(self, axis: str) -> bool:
        try:
            twice = self._spec.size_rules.nearest({**self._first, axis: 2 * self._first[axis]}, (axis,))
        except EmptyDomain:
            return False
        return self._probe.operations(twice, self.at_first) > self.at_first

    def fit(self, sizes: Sizes) -> bool:
        """Return whether the reference is no more than `most` operations at these sizes of the axes."""
        looped = {axis: sizes[axis] for axis in self.axes if axis in sizes}
        if all(size <= self._first[axis] for axis, size in looped.items()):
            return True
        for known, fitted in self._known:
            smaller, larger = (looped, known) if fitted else (known, looped)
            if smaller.keys() == larger.keys() and all(size <= larger[axis] for axis, size in smaller.items()):
                return fitted
        fitted = self._probe.operations(sizes, self.most) <= self.most
        self._known.append((looped, fitted))
        return fitted

    def cut(self, sample: Sample, sizes: Sizes, about: Collection[str]) -> tuple[Sample, Sizes] | None:
        """Return a sample with shorter loops, and its sizes; None if it would be no longer than the first.

        Axes that the sample is not `about` are cut first, down to 2, then the longest, each to the next 2^k + 1, so
        that blocks of 2^k have a tail.
        """
        shorter = list(self._shorter(sizes, about))
        found = bisect.bisect_left(shorter, True, key=self.fit)
        if found == len(shorter) or not any(shorter[found].get(axis, 0) > self._first[axis] for axis in self.axes):
            return None
        name = "_".join(["longest", *about]) if about else sample.name
        return replace(sample, name=name, why=_WHY, cut_from=sizes, first_order_only=True), shorter[found]

    def written(self, sizes: Sizes, equal: str = " = ") -> str:
        """The sizes of the axes with whose sizes the loops grow, as text."""
        return ", ".join(f"{axis}{equal}{sizes[axis]}" for axis in self.axes if axis in sizes)

    def _shorter(self, sizes: Sizes, about: Collection[str]) -> Iterator[Sizes]:
        wanted = dict(sizes)
        while long := [axis for axis in self.axes if wanted.get(axis, 0) > 2]:
            axis = max(long, key=lambda axis: (axis not in about, wanted[axis]))
            wanted[axis] = (1 << (wanted[axis] - 2).bit_length() - 1) + 1
            with contextlib.suppress(EmptyDomain):
                yield self._spec.size_rules.nearest(wanted)


def line(spec: OpSpec, samples: Sequence[Sample]) -> str | None:
    """Return a line on the sizes not tried because the reference unrolls its loops; None if no sample was cut."""
    every = [sample for sample in samples if not sample.whole]
    cut = [sample for sample in every if sample.cut_from]
    if not cut:
        return None
    loops, wanted = Loops(spec, every[0].sizes), cut[-1].cut_from
    tried = {tuple(sample.sizes.get(axis, 0) for axis in loops.axes): sample.sizes for sample in every}
    largest = [tried[at] for at in tried if not any(at != more and all(map(operator.le, at, more)) for more in tried)]
    return (
        f"the reference unrolls its loops, into {loops.at_first:,} operations at {loops.written(every[0].sizes)} and "
        f"more than {loops.most:,} at {loops.written(wanted)}: the largest sizes judged are "
        f"{'; '.join(map(loops.written, largest))}. To judge at larger ones, in minutes, give "
        f'sizes="{loops.written(wanted, " == ")}", OpSpec(blocks=...) or arrays as inputs'
    )
