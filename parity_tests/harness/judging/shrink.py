"""The smallest input at which a check still fails: the sizes of the axes first, then the entries.

By hand, and downwards from the input that has failed. Hypothesis would have to meet a failure again by chance, one of a
long axis hardly ever; and whatever its settings, drawing an integer makes it parse every module of the user's for
constants, and write them into .hypothesis/ in the current folder.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.checks import Check
from parity_tests.harness.exceptions.defects import message_of
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.judging.outcome import End, Outcome, outcome_of
from parity_tests.harness.numbers.complex_parts import by_parts
from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.samples import Sample, at_sizes, cut, given_arrays
from parity_tests.harness.specs.signature import Place
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.harness.trial.trial import Trial

_SIZES = 0.8  # of the time at most for the sizes: a size that is new makes JAX compile
_DRAWS = 3  # of integers and masks, at each of the sizes
_FEW = 8  # entries; more primals than these are rounded, not numbered

Fails = Callable[[Sample], bool]
TrialAt = Callable[[Sample], Trial]


class _Spent(Exception):
    """Raised when the time for shrinking is up."""


class _Search:
    """The smallest failing sample so far. `share`: of the time until the deadline, up to which the search may go on."""

    def __init__(self, sample: Sample, fails: Fails, deadline: float) -> None:
        self.best, self._fails, self._start, self.share = sample, fails, time.monotonic(), 1.0
        self._seconds = deadline - self._start

    def accepts(self, sample: Sample) -> bool:
        """Return whether a sample fails, too; if so, it is the smallest so far.

        Raises:
            _Spent: there is no time left to find out.
        """
        if time.monotonic() - self._start > self.share * self._seconds:
            raise _Spent
        if not self._fails(sample):
            return False
        self.best = sample
        return True


def fails_at(
    spec: OpSpec, trial_at: TrialAt, check: Check, sample: Sample, findings: Sequence[Finding], deadline: float
) -> tuple[Trial, Finding] | None:
    """The smallest trial at which one of these findings still does not hold, and that finding there.

    None if it holds when the check is run again, or if there is no time to shrink. `deadline`: of `time.monotonic`;
    what is smallest by then is it.
    """
    wrong = {(type(finding), finding.label) for finding in findings if not finding.holds}

    def violated(sample: Sample) -> tuple[Trial, Finding] | None:
        try:
            trial = trial_at(sample)
            trial.oracle.check(sample)
            found = [f for f in check.run(trial) if not f.holds and (type(f), f.label) in wrong and _is_defined(f)]
        except KeyboardInterrupt:
            raise
        except BaseException:  # another failure than the one that is shrunk; or the operator has no value there
            return None
        return (trial, found[0]) if found else None

    inputs = trial_at(sample).oracle.inputs
    smallest = shrunk(spec, sample, inputs, lambda sample: violated(sample) is not None, deadline)
    return None if smallest is None else violated(replace(smallest.with_arrays({}), name=f"{sample.name}, shrunk"))


def raises_at(spec: OpSpec, trial_at: TrialAt, check: Check, outcome: Outcome, deadline: float) -> Outcome | None:
    """Return the outcome at the smallest sizes at which the candidate raises the same exception; numbers may differ.

    `outcome`: of the trial at which the candidate has raised it.
    """
    assert outcome.error is not None
    kind, found = _kind(outcome.error), {}

    def raises(sample: Sample) -> bool:
        try:
            trial = trial_at(sample)
            trial.oracle.check(sample)
        except Exception:  # the operator has no value there
            return False
        again = outcome_of(check, trial)
        if again.end is not End.RAISED or again.error is None or _kind(again.error) != kind:
            return False
        found[0] = again
        return True

    if spec.signature is None:
        return None
    smallest = shrunk(spec, outcome.trial.sample, (), raises, deadline, entries=False)
    return None if smallest is None else found[0]


def _kind(error: BaseException) -> tuple[type, str]:
    return type(error), re.sub(r"\d+", "", message_of(error))


def _is_defined(finding: Finding) -> bool:
    """True if the oracle is finite wherever the candidate is wrong. Elsewhere the operator may have no derivative."""
    return not isinstance(finding, Comparison) or bool(np.isfinite(finding.oracle[finding.wrong]).all())


def shrunk(
    spec: OpSpec,
    sample: Sample,
    inputs: tuple[str, ...],
    fails: Fails,
    deadline: float = math.inf,
    entries: bool = True,
) -> Sample | None:
    """A sample that fails and of which, as far as was tried, no smaller one does; None if it does not fail again.

    `inputs`: the names of those that are differentiated. `fails` must draw all that it needs from the sample. Without
    `entries` only the sizes are shrunk.
    """
    search = _Search(sample, fails, deadline)
    with contextlib.suppress(_Spent):
        if not search.accepts(replace(sample)):  # a copy, whose arrays will be those that the check draws
            return None
        search.share = _SIZES
        with contextlib.suppress(_Spent):
            if spec.signature is None:
                _shrink_given_sizes(search)
            else:
                _shrink_sizes(spec, search)
        search.share = 1.0
        if entries:
            _shrink_directions(search, inputs)
            _shrink_primals(search, inputs, sample.fixed)
            _shrink_constants(spec, search)
    return search.best if search.best is not sample else None


def _shrink_sizes(spec: OpSpec, search: _Search) -> None:
    sample, drawn = search.best.name, any(x is not None for x in search.best.constants.values())

    def accepts(changed: Mapping[str, int]) -> bool:
        # A short index or mask may miss what fails by chance: it is drawn a few times.
        names = [search.best.name, *(f"{sample}, draw {i}" for i in range(1, _DRAWS) if drawn)]
        sizes = {**search.best.sizes, **changed}
        try:
            return any(search.accepts(at_sizes(spec, replace(search.best, name=name), sizes)) for name in names)
        except EmptyDomain:
            return False

    sizes, defined = search.best.sizes, spec.size_rules.defined
    if any(
        accepts({axis: min(size, n) for axis, size in sizes.items()})
        for n in (1, 2)
        if max(sizes.values(), default=0) > n
    ):
        sizes = search.best.sizes
    while True:
        before = search.best.sizes
        for axis in sorted((axis for axis in before if axis not in defined), key=lambda axis: -before[axis]):
            _shrink_size(lambda size, axis=axis: accepts({axis: size}), before[axis])
        if search.best.sizes == before:
            return


def _shrink_given_sizes(search: _Search) -> None:
    """Cut given inputs along all axes of one size at once: more is not known of which axes belong together."""
    places: dict[int, set[Place]] = {}
    for i, x in given_arrays(search.best).items():
        for axis, size in enumerate(x.shape):
            places.setdefault(size, set()).add((i, axis))

    def accepts(axes: set[Place], smaller: int, last: bool) -> bool:
        try:
            return search.accepts(cut(search.best, axes, smaller, last))
        except EmptyDomain:
            return False

    for _, axes in sorted(places.items(), reverse=True):
        for last in (False, True):  # an entry in the middle is the last one of the first
            i, axis = next(iter(axes))
            size = given_arrays(search.best)[i].shape[axis]
            _shrink_size(lambda n, axes=axes, last=last: accepts(axes, n, last), size, least=1)


def _shrink_size(accepts: Callable[[int], bool], size: int, least: int = 0) -> None:
    """Try the small sizes one by one, then their doubles, and bisect, as if every larger size failed, too."""
    passing = least - 1
    for n in (*range(least, 4), *(2**i for i in range(2, 16))):
        if n >= size:
            break
        if accepts(n):
            size = n
            break
        passing = n
    while size - passing > 1:
        middle = (passing + size) // 2
        passing, size = (passing, middle) if accepts(middle) else (middle, size)


def _is_primal(role: str, inputs: tuple[str, ...]) -> bool:
    return role.rsplit(" ", 1)[0] in inputs


def _shrink_directions(search: _Search, inputs: tuple[str, ...]) -> None:
    """Shrink cotangents and tangents: as many zeros as possible, then ones."""
    for role in reversed([role for role in search.best.arrays if not _is_primal(role, inputs)]):

        def accepts(x: np.ndarray, role: str = role) -> bool:
            return search.accepts(search.best.with_arrays({role: x}))

        x = search.best.arrays[role]
        if not x.any() or accepts(np.zeros_like(x)):
            continue
        for block in _blocks(x.size):
            thinner = search.best.arrays[role].copy()
            thinner.flat[block] = 0.0
            if (thinner != search.best.arrays[role]).any():
                accepts(thinner)
        x = search.best.arrays[role]
        if not accepts((x != 0).astype(x.dtype)):
            accepts(by_parts(lambda part: np.sign(part) * np.ceil(np.abs(part)), x))


def _blocks(size: int) -> Iterator[slice]:
    """Slices of an array to set to zero: halves, quarters, ... and single entries."""
    length = -(-size // 2)
    while length:
        yield from (slice(start, start + length) for start in range(0, size, length))
        length = -(-length // 2) if length > 1 else 0


def _shrink_primals(search: _Search, inputs: tuple[str, ...], given: tuple[np.ndarray, ...] | None = None) -> None:
    """Shrink inputs that may be any number to small integers, or to few digits.

    Never a zero, and never two alike: an operator may have a kink there, where both sides may be right. Of inputs that
    are `given` no domain is known: they stay between the smallest and the largest of their entries.
    """
    sample = search.best
    free = {name for name, domain in zip(inputs, sample.domains, strict=True) if domain.is_real}
    roles = [role for role in sample.arrays if role.rsplit(" ", 1)[0] in free]
    values = np.concatenate([sample.arrays[role].ravel() for role in roles]) if roles else np.zeros(0)
    ranks = np.empty(values.size)
    ranks[np.argsort(np.abs(values), kind="stable")] = np.arange(1, values.size + 1)
    simpler = [np.sign(values) * ranks] if values.size <= _FEW and not sample.complex else []
    simpler += [np.round(values * 2**digits) / 2**digits for digits in (0, 2, 4, 6)]
    for numbers in simpler:
        if 0 in numbers or len(np.unique(np.abs(numbers))) < numbers.size:
            continue
        remaining, simple = numbers, dict[str, np.ndarray]()
        for role in roles:
            x = sample.arrays[role]
            simple[role], remaining = remaining[: x.size].reshape(x.shape), remaining[x.size :]
        within = given is None or all(
            _is_within(simple[role], x) for name, x in zip(inputs, given, strict=True) for role in _of(name, roles)
        )
        if within and search.accepts(sample.with_arrays(simple)):
            return


def _of(name: str, roles: Sequence[str]) -> list[str]:
    return [role for role in roles if role.rsplit(" ", 1)[0] == name]


def _is_within(x: np.ndarray, given: np.ndarray) -> bool:
    """True if every entry is between the smallest and the largest that are given, of complex numbers by their parts."""
    return all(
        bool(((part(given).min() <= part(x)) & (part(x) <= part(given).max())).all()) for part in (np.real, np.imag)
    )


def _shrink_constants(spec: OpSpec, search: _Search) -> None:
    """Shrink integers to as near zero as possible, all of an input at once or one by one.

    Those of a sampler of the user's own stay: nothing is known of what else it may draw.
    """
    if search.best.fixed is not None:
        return
    domains = spec.drawn_from
    for i, x in search.best.constants.items():
        nearest_to_zero = domains[i].nearest_to_zero
        if nearest_to_zero is None or x is None:
            continue
        target = nearest_to_zero(search.best.sizes)

        def accepts(x: np.ndarray, i: int = i) -> bool:
            return search.accepts(replace(search.best, constants={**search.best.constants, i: x}))

        if (x == target).all() or accepts(np.full_like(x, target)):
            continue
        for block in _blocks(x.size):
            known = search.best.constants[i]
            assert known is not None
            nearer = known.copy()
            nearer.flat[block] = target
            if (nearer != known).any():
                accepts(nearer)
        for position in range(x.size):
            _shrink_integer(accepts, search, i, position, target)


def _shrink_integer(
    accepts: Callable[[np.ndarray], bool], search: _Search, i: int, position: int, passing: int
) -> None:
    """Shrink one entry, by bisection between a value that passes and its own."""
    while True:
        x = search.best.constants[i]
        assert x is not None
        value = int(x.flat[position])
        if abs(value - passing) <= 1:
            return
        middle = (passing + value) // 2
        nearer = x.copy()
        nearer.flat[position] = middle
        if not accepts(nearer):
            passing = middle
