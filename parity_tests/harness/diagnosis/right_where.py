"""Where else a wrong result is right: with an argument of ones, of zeros, or of equal entries. It tells the wrong term.

A factor that a term lacks does not show where that factor is 1, and a wrong term does not where it is 0. Candidate and
oracle are both asked again, with one argument replaced; only an agreement that could hardly be an accident is reported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from parity_tests.harness.diagnosis.fit import ENOUGH, log10_power
from parity_tests.harness.findings import Comparison
from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.specs.domains import DOMAINS, REAL
from parity_tests.harness.trial.trial import Trial

_CALLS = 16  # of the candidate, for one wrong result
_SECONDS = 5.0  # after which nothing more is asked, as in shrinking

# The numbers that take the place of all entries of an argument of a domain, the first of which is tried first.
_EQUAL_ENTRIES: Mapping[str, tuple[float, ...]] = {
    "real": (1.0, 0.5, 2.0, -2.0),
    "extended": (1.0, 0.5, 2.0, -2.0),
    "complex": (1.0, 0.5, 2.0, -2.0),
    "nonzero": (1.0, 0.5, 2.0, -2.0),
    "positive": (1.0, 0.5, 2.0),
}
_HAS_ZERO = ("real", "extended", "complex")


def right_where(trial: Trial, wrong: Comparison) -> str | None:
    """Say with which arguments replaced a wrong result is right; None where there is none, or no call shows it.

    If bounds in the format are too wide to tell, at the same arguments in the double format.
    """
    if wrong.call is None:
        return None
    narrow = trial.precision is not trial.precision.double
    found = _said(_Places(trial, wrong.label, *wrong.call))
    if found is not None or not narrow or not trial.exists_in(trial.precision.double):
        return found
    found = _said(_Places(trial.widened(), wrong.label, *wrong.call))
    return None if found is None else f"in {trial.precision.double.name} {found}"


def _said(at: _Places) -> str | None:
    if not at.is_wrong_as_it_is:
        return None
    slots = at.trial.oracle.map(at.name).arguments
    given = [(i, slot, x) for i, (slot, x) in enumerate(zip(slots, at.args, strict=True)) if x is not None and x.size]
    found = [_of_an_argument(at, i, slot.label, x, at.domain(slot.like)) for i, slot, x in given]
    facts = [fact for fact in found if fact is not None]
    if not facts:
        return None
    factors, vanishing = (" or ".join(f.label for f in facts if f.at == n) for n in (1, 0))
    term = f"a term that vanishes with {vanishing}" if vanishing else "one of its terms"
    text = f"{at.label} is right {', and '.join(fact.where for fact in facts)}"
    if factors:
        return f"{text}: does {term} lack a factor {factors}, or have one too many?"
    return text


@dataclass(frozen=True)
class _Fact:
    """Where a result is right. `label`: of the argument; `at`: 0 or 1, if with entries of this number and no other."""

    label: str
    where: str
    at: int | None = None


@dataclass
class _Places:
    """A result of a map of a candidate, at its arguments with one of them replaced."""

    trial: Trial
    label: str
    name: str
    args: Arrays
    calls: int = field(default=0, init=False)
    until: float = field(default_factory=lambda: time.monotonic() + _SECONDS, init=False)

    def __post_init__(self) -> None:
        found = self._compared(self.args)
        self.is_wrong_as_it_is = False
        if found is None or found.holds or not np.isfinite(found.candidate).all():
            return
        known = np.isfinite(found.bound) & np.isfinite(found.oracle)
        self.is_wrong_as_it_is = bool(found.wrong[known].any())
        if not self.is_wrong_as_it_is:
            return
        with np.errstate(all="ignore"):
            self.error = float(np.sqrt(np.mean(found.error[known] ** 2)))
            size = float(np.sqrt(np.mean(np.abs(found.oracle[known]) ** 2)))
        self.relative = self.error / size if size else math.inf

    def domain(self, like: str) -> str:
        """The name of the domain of an argument, that of the input or output that it is like; empty of a user's own."""
        domain = self.trial.oracle.domains.get(like, REAL)
        return domain.name if DOMAINS.get(domain.name) == domain.unscaled else ""

    def with_entries(self, i: int, number: float) -> bool | None:
        """Whether the result is right where all entries of an argument are this number; None if that cannot be told.

        It can be told where an error of the size that it has, or of that part of the result, would be seen.
        """
        replaced = list(self.args)
        replaced[i] = np.full_like(np.asarray(self.args[i]), number)
        found = self._compared(replaced)
        if found is None:
            return None
        if not found.holds:
            return False
        with np.errstate(all="ignore"):
            expected = np.minimum(self.error, self.relative * np.abs(found.oracle))
        return True if log10_power(expected, found.bound) >= ENOUGH + math.log10(_CALLS) else None

    def _compared(self, args: Arrays) -> Comparison | None:
        """The result against the oracle's; None where it is no comparison of numbers, or after `_SECONDS`.

        Other choices at a kink are not accepted: of equal entries each may be one, and thousands take minutes.
        """
        self.calls += 1
        if self.calls > _CALLS or time.monotonic() > self.until:
            return None
        try:
            results = self.trial.evaluate(self.name, args)
            truths = self.trial.truth(self.name, args)
            findings = [f for f in self.trial.compare_with(truths, self.name, results) if f.label == self.label]
        except Exception:  # either side may refuse arguments that no check has asked it for: they explain nothing
            return None
        compared = [f for f in findings if isinstance(f, Comparison)]
        return compared[0] if len(findings) == len(compared) == 1 else None


def _of_an_argument(at: _Places, i: int, label: str, x: np.ndarray, domain: str) -> _Fact | None:
    """Where a result is right with this argument replaced."""
    right, wrong = [], []
    for number in _EQUAL_ENTRIES.get(domain, ()):
        if (found := at.with_entries(i, number)) is not None:
            (right if found else wrong).append(number)
        if not right:
            break
    if right and wrong:
        where = f"where {label} = {_listed(right)} (not where it is {_listed(wrong)})"
        return _Fact(label, where, 1 if right == [1] else None)
    if right and len(right) == len(_EQUAL_ENTRIES[domain]) and x.size > 1:
        return _Fact(label, f"where all entries of {label} are equal (tried: {', '.join(map(_short, right))})")
    if right:
        return _Fact(label, f"where {label} = {_listed(right)}")
    return _Fact(label, f"where {label} = 0", 0) if domain in _HAS_ZERO and at.with_entries(i, 0.0) else None


def _listed(numbers: Sequence[float]) -> str:
    texts = [_short(number) for number in numbers]
    return " or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _short(number: float) -> str:
    return f"{number:g}"
