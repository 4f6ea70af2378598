"""The error of right code that shifts its inputs first, where that changes nothing but the rounding.

Softmax, sparsemax and losses of logits are the same of x and of x - m, m a number of each row. Kernels subtract the
largest number first, so that no exponential overflows. This rounds by u |x - m|, and what comes after rounds by the
size of numbers that have been shifted, however small they were before. A primal in the form of the definition has no
such roundings: its bound is that of one of two formulas, both of which are right at every input.

So whoever does not shift and whoever does are judged alike: what is not within the bound of the primal f is judged
again, by x -> f(x - m). There m is a constant of the program: it is one of the inputs' numbers, exact in the format,
and no derivative goes through it, since f(x - m) is the same for every m. So

    E(x - m) = E(x) + u |x - m|

That the shift changes nothing is not assumed. It is seen at the sample, for shifts at random, and again at the point in
question: the float64 values of both programs agree within the rounding of float64.

Only a shift of an input is found, not one of an intermediate, as of the scores of an attention: there it is for the
primal to say what the kernel does. Nor is it counted what is lost by a derivative through m, which is zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.language import jaxprs
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.oracle.defined import OracleAtSample
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.oracle.programs import Programs
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.specs.samples import Sample

_DRAWS = 4  # random shifts that must change nothing

Shift = tuple[int, tuple[int, ...]]  # which input, and the axes along which all entries are shifted by one number


class Shifted(Oracle):
    """The same operator, of inputs of which one has the same number subtracted from all entries of a row first."""

    def __init__(self, oracle: Oracle, position: int, subtracted: np.ndarray) -> None:
        """Take over what the oracle knows, other than its programs and values."""
        self.__dict__.update(oracle.without_cached_values().__dict__)
        self.programs, self._batched = Programs(), {}
        self._position, self._subtracted = position, subtracted

    def _with_constants(self, args: Sequence) -> list:
        moved = [x - self._subtracted if i == self._position else x for i, x in enumerate(args)]
        return super()._with_constants(moved)


def shifts(oracle: Oracle, sample: Sample) -> Sequence[Shift]:
    """The shifts that change no output of the operator; kept for all samples of these shapes.

    None where the primal takes a largest or least number itself: who writes that down has said what is shifted, and a
    second shift would excuse more than any kernel loses.
    """
    key = ("shifts", sample.shapes, tuple(domain.name for domain in sample.domains))
    if key not in oracle.kept:
        has_own = jaxprs.has_primitive(oracle.program(sample.shapes), ("reduce_max", "reduce_min"))
        oracle.kept[key] = [] if oracle.is_complex or has_own else [*_without_effect(oracle, sample)]
    return oracle.kept[key]


def shifted(oracle: Oracle, sample: Sample, name: str, args: Arrays) -> Iterator[Shifted]:
    """The oracle after each shift by the largest or least numbers that changes nothing of a map at these arguments."""
    for (position, axes), extreme in itertools.product(shifts(oracle, sample), (np.max, np.min)):
        x = args[position]
        if x is None or not np.isfinite(x).all():
            continue
        other = Shifted(oracle, position, extreme(x, axis=axes, keepdims=True))
        truths = (each.evaluate(name, args, FLOAT64) for each in (oracle, other))
        if all(_agree(*pair) for pair in zip(*truths, strict=True)):
            yield other


def judged_with_shifts(
    point: OracleAtSample, name: str, args: Arrays, judge: Callable[[Oracle], list[Finding]]
) -> list[Finding]:
    """The findings on a map by the oracle; if a result is wrong, by the oracle after a shift where all hold."""
    findings = judge(point.oracle)
    is_wrong = any(isinstance(f, Comparison) and not f.holds for f in findings)
    if not is_wrong or point.oracle.is_surrogate(name):
        return findings
    for other in shifted(point.oracle, point.sample, name, args):
        if _has_bounds(other, findings, name, args, point.precision):
            again = judge(other)
            if all(f.holds for f in again):
                return again
    return findings


def _has_bounds(other: Shifted, findings: Sequence[Finding], name: str, args: Arrays, precision: Precision) -> bool:
    """Return whether every wrong entry has a bound after a shift: nobody is right because nothing is known."""
    bounds = {truth.label: truth.bound for truth in other.ask(name, args, precision)}
    compared = (f for f in findings if isinstance(f, Comparison))
    return all(np.isfinite(bounds[f.label][f.wrong]).all() for f in compared)


def _agree(one: Truth, other: Truth) -> bool:
    """Return whether all entries are numbers with a bound and the same within the rounding of float64."""
    with np.errstate(invalid="ignore"):
        allowed = one.bound + other.bound
        return bool((np.isfinite(allowed) & (np.abs(one.value - other.value) <= allowed)).all())


def _without_effect(oracle: Oracle, sample: Sample) -> Iterator[Shift]:
    """The shifts that change no output of the operator, along as few axes as possible."""
    for position, (shape, domain) in enumerate(zip(sample.shapes, sample.domains, strict=True)):
        if domain.name not in ("real", "extended") or 0 in shape:  # a shift leaves the other domains
            continue
        found: list[set[int]] = []
        for axes in _groups_of_axes(shape):
            known = any(smaller <= {*axes} for smaller in found)
            if not known and _changes_nothing(oracle, sample, (position, axes)):
                found.append({*axes})
                yield position, axes


def _groups_of_axes(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Single axes, pairs of them, and all, of those that have several entries."""
    long = [axis for axis, size in enumerate(shape) if size > 1]
    yield from dict.fromkeys(
        axes for count in (1, 2, len(long)) for axes in itertools.combinations(long, count) if axes
    )


def _changes_nothing(oracle: Oracle, sample: Sample, shift: Shift) -> bool:
    """Return whether the operator has the same value at a sample after shifts at random."""
    position, axes = shift
    inputs = sample.primals(oracle.inputs)
    plain, x = oracle.ask("forward", inputs, FLOAT64), inputs[position]
    rng, size = np.random.default_rng(sample.seed), 1 + np.abs(x).max()
    for _ in range(_DRAWS):
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
        inputs[position] = x + size * rng.standard_normal(shape)
        moved = oracle.evaluate("forward", inputs, FLOAT64)
        if not all(_agree(*pair) for pair in zip(plain, moved, strict=True)):
            return False
    return True
