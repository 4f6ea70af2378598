"""Where an operator has no derivative: which answers are a convention, and which are wrong.

At a kink a derivative is a choice: |x| at 0 may have any slope from -1 to 1, and JAX and PyTorch choose differently
(of max(x, y) at x = y, of a sort with ties, of a norm at 0). The choices are what lies between the derivatives nearby:
F. H. Clarke, Optimization and Nonsmooth Analysis (1983), theorem 2.5.1. Entry by entry, that is an interval from the
smallest to the largest limit of the oracle's derivative as the point is approached from several sides. The same holds
for a value at a jump.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.findings import Comparison, Convention, Fact, Finding
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle.certificate_at_ties import is_wrong_at
from parity_tests.harness.oracle.defined import OracleAtSample
from parity_tests.harness.oracle.one_sided import FAR, NEAR, Limit, limits_along, moved
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.specs.samples import Sample

_RANDOM = 32  # random directions, each of which breaks every tie in favour of one of the equal entries
_ENTRIES = 32  # single entries along which, and against which, the inputs are moved besides
# Further random directions, if an entry is still wrong. In a tie of 12 entries each direction favours a given one with
# probability 1/12: that none of all these does has a probability of 10**-20.
_MORE_RANDOM = 512
_NUMBERS = 2**22  # the most numbers in all further directions together
_RESOLVED = 32  # in a tie of so many entries, some direction favours a given one with probability 1 - 10**-8
_SMOOTH = 2.0**-16  # a smooth result changes over `NEAR` by about 2**-20 of its change over `FAR`
_PROBES = 4  # random directions, each with its opposite, that decide whether there is a jump at all


def accept_one_sided_derivatives(
    point: OracleAtSample, name: str, args: Arrays, findings: Sequence[Finding], circumstance: str
) -> Iterator[Finding]:
    """The findings on a map, in which every right choice at a kink is accepted.

    A choice is right if it lies between the limits that the oracle's derivative has as the point is approached, or if
    it makes no difference near the point. Where hundreds of numbers are equal, random directions do not put each of
    them into every place of the order. Then all choices between the equal numbers are accepted.
    """
    if not any(isinstance(f, Comparison) and _in_question(point, f).any() for f in findings):
        yield from findings
        return
    if _most_equal(args[: len(point.oracle.inputs)]) > _RESOLVED:
        findings = _of_any_choice(point, name, args, findings, where_it_jumps=True)
    compared_findings = list(_at_kinks(point, name, args, findings, circumstance))
    yield from _where_the_oracle_is_wrong(point, name, args, _of_any_choice(point, name, args, compared_findings))


def _most_equal(inputs: Arrays) -> int:
    """The size of the largest group of equal entries in one input."""
    counts = (np.unique(x, return_counts=True)[1] for x in inputs if x is not None)
    return max((int(c.max(initial=0)) for c in counts), default=0)


def _of_any_choice(
    point: OracleAtSample, name: str, args: Arrays, findings: Sequence[Finding], where_it_jumps: bool = False
) -> Sequence[Finding]:
    """The findings, in which wrong entries are compared with every choice between equal keys of a sort.

    Keys may be equal in a whole neighborhood of the point, as the zeros that a relu returns. Then any of them may come
    first, and the oracle does not jump. Entries at which it jumps are left as they are, unless `where_it_jumps`. So are
    results for which the oracle's own choice is binding.
    """
    binding = _binding(point, name)
    wrong = [f for f in findings if isinstance(f, Comparison) and f.wrong.any() and f.label not in binding]
    if not wrong or not point.oracle.chooses:
        return findings
    truths = point.oracle.evaluate(name, args, point.precision.with_any_choice)
    compared = {}
    for truth in truths:
        bound = point.oracle.compared_errors(name, truth.like, truth.bound, truth.value)
        for f in wrong:
            if f.label == truth.label:
                allowed = f.wrong & (where_it_jumps or _is_smooth(point, name, args, f))
                compared[id(f)] = replace(f, bound=np.where(allowed, np.maximum(f.bound, bound), f.bound))
    return [compared.get(id(f), f) for f in findings]


def _at_kinks(
    point: OracleAtSample, name: str, args: Arrays, findings: Sequence[Finding], circumstance: str
) -> Iterator[Finding]:
    """The findings on a map, in which everything between the one-sided derivatives is accepted.

    Random inputs meet kinks, too: in bfloat16 every second hundred of random pairs has two equal numbers. The limits
    take some hundred evaluations of the oracle. They are computed only if a comparison fails, or the oracle has no
    number there, and if the oracle jumps at all. If an entry is wrong even then, they are computed along more
    directions, since a random direction favours one of n equal entries with probability 1/n only.

    An entry that jumps is not judged beyond first order, where the result of two choices need not lie between any
    limits; nor where real inputs have complex outputs, since complex numbers have no order. A surrogate gradient is
    itself a choice, and the candidate must make the same.
    """
    open_questions = [f for f in findings if isinstance(f, Comparison) and _in_question(point, f).any()]
    chosen_already = point.oracle.is_surrogate(name)
    if chosen_already or point.precision.is_complex or not any(_may_jump(point, name, args, f) for f in open_questions):
        yield from findings
        return
    if point.oracle.is_complex:
        yield from (_unless_it_jumps(point, name, args, f) if f in open_questions else f for f in findings)
        return
    directions = list(_directions(point.oracle, point.sample))
    compared_findings = _by_limits(point, name, args, findings, open_questions, circumstance, directions)
    if not all(f.holds for f in compared_findings):
        directions = [*_further_directions(point, name, compared_findings), *directions]
        compared_findings = _by_limits(point, name, args, findings, open_questions, circumstance, directions)
    yield from compared_findings


def _by_limits(
    point: OracleAtSample,
    name: str,
    args: Arrays,
    findings: Sequence[Finding],
    open_questions: Sequence[Comparison],
    circumstance: str,
    directions: Sequence[Sequence[np.ndarray]],
) -> list[Finding]:
    """The findings, in which entries in question are compared with the limits of the map along these directions."""
    in_question = {f.label: _in_question(point, f) for f in open_questions}
    limits, total = limits_along(point, name, args, directions, in_question)
    binding = _binding(point, name)
    compared_findings: list[Finding] = []
    chosen: list[Finding] = []
    for f in findings:
        if not isinstance(f, Comparison) or f not in open_questions:
            compared_findings.append(f)
            continue
        # An oracle without a number at the kink has made no choice that could bind; there the limits hold.
        limit, asked = limits[f.label], in_question[f.label] & (np.isnan(f.oracle) | (f.label not in binding))
        low, high, known = limit.low, limit.high, limit.known
        compared = _within(point, name, f, limit, asked)
        compared_findings.append(compared)
        if not compared.holds or not (asked & known).any():
            continue
        if limit.sum is not None and _differs(limit.sum, [compared]):
            text = f"adds up to {f.candidate.sum():g}, every derivative nearby to {limit.sum:g}"
            compared_findings.append(Fact(f.label, False, text, circumstance))
        else:
            i = tuple(int(k) for k in np.argwhere(asked & known)[0])
            text = f"{f.candidate[i]:g} where the oracle has {f.oracle[i]:g}, and {low[i]:g} to {high[i]:g} nearby"
            chosen.append(Convention(f.label, text, circumstance or f"sample {point.sample.name}"))
    gradients = [f for f in compared_findings if isinstance(f, Comparison)]
    if not all(f.holds for f in compared_findings):
        return compared_findings
    if total is not None and len(gradients) == len(limits) and _differs(total, gradients):
        together = sum(f.candidate.sum() for f in gradients)
        text = f"add up to {together:g}, all derivatives nearby to {total:g}"
        return [*compared_findings, Fact(", ".join(f.label for f in gradients), False, text, circumstance)]
    return [*compared_findings, *chosen]


def _where_the_oracle_is_wrong(
    point: OracleAtSample, name: str, args: Arrays, findings: Sequence[Finding]
) -> Iterator[Finding]:
    """The findings, in which entries of a derivative that is wrong at this point alone are compared with its limits.

    A derivative has no isolated value (Darboux): where the oracle's is not between its own limits, and contradicts the
    slopes of its own values besides, as JAX's rule of `minimum` does in `where(x > 0, x, exp(minimum(x, 0)))`, the
    limits are right. The certificate says so.
    """
    wrong = {f.label: f.wrong for f in findings if isinstance(f, Comparison) and f.wrong.any()}
    if not wrong or not is_wrong_at(point.oracle, name, point.sample, args[: len(point.oracle.inputs)]):
        yield from findings
        return
    directions = list(_directions(point.oracle, point.sample))[-_RANDOM:]  # along which no entry stays at the point
    limits, _ = limits_along(point, name, args, directions, wrong, own_value_stands=False)
    for f in findings:
        if not isinstance(f, Comparison) or f.label not in wrong or f.label in _binding(point, name):
            yield f
            continue
        limit = limits[f.label]
        room = limit.bound + limit.drift
        isolated = limit.known & ((f.oracle < limit.low - room) | (f.oracle > limit.high + room))
        yield _within(point, name, f, limit, isolated & wrong[f.label])


def _binding(point: OracleAtSample, name: str) -> set[str]:
    """The results of a map for which `OpSpec.conventions` makes the oracle's choice binding, by their labels."""
    return {slot.label for slot in point.oracle.map(name).results if slot.like in point.oracle.spec.conventions}


def _within(point: OracleAtSample, name: str, f: Comparison, limit: Limit, asked: np.ndarray) -> Comparison:
    """A comparison, in which each entry of the mask is compared with the number between its limits that is nearest."""
    inside = np.clip(np.where(np.isnan(f.candidate), np.inf, f.candidate), limit.low, limit.high)
    # `limit.bound` holds for float64. To first order an error is proportional to the roundoff of the format.
    near = limit.bound * point.precision.u / FLOAT64.u + limit.drift
    allowed = np.where(np.isfinite(f.bound), np.maximum(f.bound, near), near)
    if len(ORDERS[name]) > 1:
        allowed = np.where(limit.low < limit.high, np.inf, allowed)
    return replace(
        f,
        oracle=np.where(asked & limit.known, inside, f.oracle),
        bound=np.where(asked, np.where(limit.known, allowed, np.inf), f.bound),
    )


def _differs(total: float, gradients: Sequence[Comparison]) -> bool:
    """Return whether gradients add up to another total, by more than their rounding and that of the sums explain."""
    allowed = sum(f.bound.sum() for f in gradients)
    terms, size = sum(f.candidate.size for f in gradients), sum(np.abs(f.candidate).sum() for f in gradients)
    return abs(sum(f.candidate.sum() for f in gradients) - total) > allowed + 2 * terms * FLOAT64.u * (size + allowed)


def is_kink(oracle: Oracle, name: str, inputs: Sequence[np.ndarray], sample: Sample) -> bool:
    """Return whether a derivative, or the map that it differentiates, jumps at these inputs."""
    if sample.complex:
        return False
    shapes = oracle.shapes(tuple(x.shape for x in inputs))
    for which in (name, BASES[name]):
        slots = oracle.map(which).arguments[len(inputs) :]
        directions = [oracle.direction(sample, f"kink {s.label}", s.like, shapes) for s in slots]
        for y in _around(oracle, which, [*inputs, *directions], sample):
            with np.errstate(invalid="ignore"):
                if (np.abs(y - y[0]).max(0) > FAR * np.abs(y).max(initial=0)).any():
                    return True
    return False


def step_off_kink(oracle: Oracle, inputs: Sequence[np.ndarray], sample: Sample) -> list[np.ndarray]:
    """Return the inputs moved a little, in a direction that stays in their domains."""
    *_, direction = _directions(oracle, sample)
    return moved(inputs, direction, 2.0**-6)


def jumps(point: OracleAtSample, name: str, args: Arrays) -> list[np.ndarray]:
    """Return, for each result of a map, how far another choice at a kink may be from the oracle's."""
    if point.oracle.is_surrogate(name):
        return [np.zeros(truth.value.shape) for truth in point.truth(name, args)]
    truths, around = point.truth(name, args), _around(point.oracle, name, args, point.sample)
    heights = [np.abs(y - truth.value).max(0) for y, truth in zip(around, truths, strict=True)]
    return [np.where(h > FAR * np.abs(y).max(initial=0), h, 0.0) for h, y in zip(heights, around, strict=True)]


def _may_jump(point: OracleAtSample, name: str, args: Arrays, f: Comparison) -> bool:
    """True if a jump of the oracle may explain a wrong entry: it is at least 1/1024 as high as the error, or NaN.

    A smooth result changes by far less over the smaller distance than over the larger one, and a jump is as high.
    """
    in_question, slots = _in_question(point, f), point.oracle.map(name).results
    index = next(i for i, slot in enumerate(slots) if slot.label == f.label)

    def heights(h: float) -> np.ndarray:
        values = _around(point.oracle, name, args, point.sample, h)[index]
        return np.abs(values - f.oracle).max(0)[in_question]

    with np.errstate(invalid="ignore"):  # infinity minus infinity
        near = heights(NEAR)
        if (near < (f.error - f.bound)[in_question] / 1024).all():  # a NaN is not smaller
            return False
        return not (near < _SMOOTH * heights(FAR)).all()


def _unless_it_jumps(point: OracleAtSample, name: str, args: Arrays, f: Comparison) -> Comparison:
    """A comparison that does not judge the entries in question at which the oracle jumps."""
    jumps = ~_is_smooth(point, name, args, f)
    return replace(f, bound=np.where(_in_question(point, f) & jumps, np.inf, f.bound))


def _is_smooth(point: OracleAtSample, name: str, args: Arrays, f: Comparison) -> np.ndarray:
    """A mask of the entries at which the oracle does not jump, or jumps by far less than the entry's error."""
    index = next(i for i, slot in enumerate(point.oracle.map(name).results) if slot.label == f.label)
    values = _around(point.oracle, name, args, point.sample)[index]
    with np.errstate(invalid="ignore"):
        heights = np.abs(values - f.oracle).max(0)
        return (heights <= FAR * np.abs(values).max(0)) | (heights < (f.error - f.bound) / 1024)  # False for a NaN


def _around(oracle: Oracle, name: str, args: Arrays, sample: Sample, h: float = NEAR) -> list[np.ndarray]:
    """Each result of a map at several points at the distance h from its inputs, stacked along a new first axis."""
    points = []
    for direction in list(_directions(oracle, sample))[-_PROBES:]:
        for sign in (1.0, -1.0):
            values = oracle.values(name, moved(args, [sign * d for d in direction], h))
            slots = oracle.map(name).results
            points.append([oracle.compared(name, slot.like, y) for slot, y in zip(slots, values, strict=True)])
    return [np.stack(values) for values in zip(*points, strict=True)]


def _in_question(point: OracleAtSample, f: Comparison) -> np.ndarray:
    """A mask of the entries that are wrong or, in float64, at which the candidate has a number and the oracle NaN."""
    if point.precision is not FLOAT64:
        return f.wrong
    return f.wrong | (np.isnan(f.oracle) & np.isfinite(f.candidate))


def _directions(oracle: Oracle, sample: Sample) -> Iterator[list[np.ndarray]]:
    """Directions within every input's domain: along and against single entries, then random ones.

    In these the point is left, not differentiated: a detached input moves, too, as its thresholds are choices as well.
    """
    names, shapes = oracle.inputs, sample.shapes
    rng = np.random.default_rng(sample.seed)
    entries = [(i, j) for i, shape in enumerate(shapes) for j in range(int(np.prod(shape)))]
    for k in rng.permutation(len(entries))[:_ENTRIES]:
        i, j = entries[k]
        for sign in (1.0, -1.0):
            direction = [np.zeros(shape) for shape in shapes]
            direction[i].flat[j] = sign
            yield [oracle.domains[n].project(d) for n, d in zip(names, direction, strict=True)]
    for _ in range(_RANDOM):
        yield [oracle.domains[n].project(rng.standard_normal(s)) for n, s in zip(names, shapes, strict=True)]


def _further_directions(point: OracleAtSample, name: str, findings: Sequence[Finding]) -> list[list[np.ndarray]]:
    """Directions for the wrong entries of gradients: along and against these entries, then many random ones.

    If several numbers are equal and the largest, each of them becomes the maximum in the direction along it. In a sort
    of n equal numbers, a given entry takes a given place in one of n random directions only. The number of directions
    does not depend on how many entries are wrong, so that the oracle is compiled only once for it.
    """
    oracle, sample, shapes = (
        point.oracle,
        point.sample,
        dict(zip(point.oracle.inputs, point.sample.shapes, strict=True)),
    )
    rng = np.random.default_rng((sample.seed, 1))
    likes = {slot.label: slot.like for slot in oracle.map(name).results}
    wrong = [
        (likes[f.label], j)
        for f in findings
        if isinstance(f, Comparison) and likes[f.label] in shapes
        for j in np.flatnonzero(f.wrong)
    ]
    directions = []
    for like, j in itertools.islice(itertools.cycle(wrong[k] for k in rng.permutation(len(wrong))), _ENTRIES):
        for sign in (1.0, -1.0):
            direction = {n: np.zeros(shape) for n, shape in shapes.items()}
            direction[like].flat[j] = sign
            directions.append([oracle.domains[n].project(d) for n, d in direction.items()])
    count = min(_MORE_RANDOM, _NUMBERS // max(1, sum(math.prod(shape) for shape in shapes.values())))
    for _ in range(count):
        directions.append([oracle.domains[n].project(rng.standard_normal(s)) for n, s in shapes.items()])
    return directions


def of_nan(
    point: OracleAtSample, args: Sequence[np.ndarray], results: Sequence, circumstance: str
) -> Iterator[Finding]:
    """Yield a convention for each output that is a number where the oracle's is NaN, which is a choice, too."""
    for truth, y in zip(point.truth("forward", args), results, strict=True):
        hidden = int((np.isnan(truth.value) & ~np.isnan(conversion.to_numpy(y))).sum())
        if hidden:
            yield Convention(truth.label, f"a number in {hidden} entries where the oracle has NaN", circumstance)
