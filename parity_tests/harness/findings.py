"""The findings of a check: comparisons of numbers, and facts that hold or do not."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from parity_tests.harness.statistics.scores import Errors, Score


class Verdict(StrEnum):
    """The verdict on one candidate under one check."""

    PASS = "PASS"
    PROVED = "PROVED"  # the candidate's program and the oracle's are the same formula, see `harness.proof`
    MISMATCH = "MISMATCH"  # it disagrees with the oracle, or raises where the oracle has a value
    SUSPECT = "SUSPECT"  # its errors are within their bounds and do not look like rounding
    UNRESOLVED = "UNRESOLVED"  # the witnesses cannot tell, or nothing could be compared
    UNSUPPORTED = "UNSUPPORTED"  # the candidate refuses with a clear error
    ERROR = "ERROR"  # the oracle or the harness raised
    SKIPPED = "SKIPPED"  # the check does not apply to the operator or the candidate, for the reason given


AGREE = (Verdict.PASS, Verdict.PROVED)


class NotApplicable(Exception):
    """Raised where a check does not apply to an operator or a candidate; the message is the reason."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """One result of a candidate against the oracle's, with the error that rounding may make; float64 arrays.

    `call`: the map that it is a result of, and the arguments that it was evaluated at, if it is the result of one call.
    `linearized`: True if the bound is, see `rounding.linearized`.
    """

    label: str
    candidate: np.ndarray
    oracle: np.ndarray
    bound: np.ndarray
    circumstance: str = ""
    call: tuple[str, Sequence[np.ndarray | None]] | None = None
    linearized: bool = False

    @functools.cached_property
    def error(self) -> np.ndarray:
        """|candidate - oracle|; infinite where the candidate is NaN and the oracle is not, 0 where both are."""
        with np.errstate(invalid="ignore"):
            error = np.abs(self.candidate - self.oracle)
        if np.isfinite(error).all():
            return error
        same = (self.candidate == self.oracle) | (np.isnan(self.candidate) & np.isnan(self.oracle))
        return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))

    @functools.cached_property
    def wrong(self) -> np.ndarray:
        """The entries that rounding does not explain."""
        return self.error > self.bound

    @property
    def error_over_bound(self) -> float:
        """The largest error in units of its bound; 0 for an empty array."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(self.error == 0, 0.0, self.error / self.bound)
        return float(np.max(np.where(np.isnan(ratio), 0.0, ratio), initial=0.0))

    @functools.cached_property
    def holds(self) -> bool:
        """Every entry is within its bound."""
        return not self.wrong.any()

    @property
    def evidence(self) -> int:
        """The number of entries compared; 0 if an answer of zeros, or no answer, would have passed as well."""
        telling = (np.abs(self.oracle) > self.bound).any()
        return int(np.isfinite(self.bound).sum()) if telling else 0


@dataclass(frozen=True)
class Fact:
    """A property that is true or not, without a tolerance: "k was not written to"."""

    label: str
    holds: bool
    violation: str
    circumstance: str = ""
    evidence: int = 1


@dataclass(frozen=True)
class Convention:
    """A difference that is no mistake: where the operator has no derivative, or outside of an input's domain."""

    label: str
    text: str
    circumstance: str = ""
    violation: str = ""  # it has none
    holds: bool = True
    evidence: int = 0


AS_JAX = "; JAX's formula loses them, too"  # in the text of lost digits


@dataclass(frozen=True)
class LostDigits:
    """A result that is within the bound of the oracle's formula and has lost digits that the problem does not force."""

    label: str
    text: str
    circumstance: str = ""
    violation: str = ""  # it has none: with OpSpec(accurate=True) a Comparison is found besides
    holds: bool = True
    evidence: int = 0


@dataclass(frozen=True)
class Explanation:
    """The arithmetic in words that explains the error of a result: "float32 inside, results rounded once"."""

    label: str
    text: str
    circumstance: str = ""
    violation: str = ""  # it has none
    holds: bool = True
    evidence: int = 0


@dataclass(frozen=True, eq=False)
class Suspicion:
    """A result within its bound whose error does not look like rounding.

    Attributes:
        label: the result's.
        scores: the statistics that right code does not reach, the largest first.
        comparison: the result against the oracle's.
        errors: the candidate's errors, and those of runs of right code, in units of their size; see `statistics`.
        spacing: the distance of the format's numbers at each entry.
        shown: a result that is computed in float32 inside, if one is; then the others are, too.
        others: the other results of the map that show float32 inside, if all are float32 inside but this one.
    """

    label: str
    scores: tuple[Score, ...]
    comparison: Comparison
    errors: Errors
    spacing: np.ndarray
    shown: str | None = None
    others: Sequence[str] = ()
    circumstance: str = ""
    violation: str = ""  # it has none: it is no disagreement
    holds: bool = True
    evidence: int = 0


@dataclass(frozen=True)
class Proof:
    """The candidate's program for a map beside the oracle's, at a random point of a finite field.

    Attributes:
        label: the map's name.
        text: what is proved, and on what it rests; or which entries differ; or which operation was not modelled.
        same: True if all results are the same, False if some differ, None if that cannot be told.
    """

    label: str
    text: str
    same: bool | None
    circumstance: str = ""
    violation: str = ""  # it has none: a difference alone is no mistake: the numbers decide
    holds: bool = True

    @property
    def evidence(self) -> int:
        """1 if it proves something."""
        return int(bool(self.same))


Finding = Proof | Explanation | Suspicion | Comparison | Fact | Convention | LostDigits
