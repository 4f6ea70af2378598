"""A result in a 16-bit format that is within its bound, and what its error says of the arithmetic that made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers.contracts import Arithmetic
from parity_tests.harness.oracle.arithmetics import (
    computes_few_numbers,
    ladder,
    right_code,
    right_code_beside,
    scales_by_constants,
    with_rounded_constants,
)
from parity_tests.harness.oracle.kinks import jumps
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.statistics.scores import LINES, RUNS
from parity_tests.harness.trial.trial import Trial

_FEW = 0.5  # of code that rounds a number for each entry besides the entry, most entries differ


@dataclass(frozen=True, eq=False)
class RoundedResult:
    """A result that is within its bound, at its place among those of its map, and what right code computes there.

    `oracle`: the one whose program right code runs; that of the trial, or the same after a shift. `has_choice`: whether
    the candidate was seen to choose otherwise than the oracle. `shown`, `others`: the results that hold this one to
    float32, see `first_that_shows` and `others_that_show`.
    """

    comparison: Comparison
    name: str
    place: int
    args: Arrays
    is_inside_float32: bool
    trial: Trial
    oracle: Oracle
    has_choice: bool = False
    shown: str | None = None
    others: Sequence[str] = ()

    @property
    def jumping(self) -> np.ndarray:
        """A mask of the entries at which another choice at a kink is as right as the oracle's."""
        return jumps(self.trial, self.name, self.args)[self.place] > 0

    @property
    def runs(self) -> list[np.ndarray]:
        """The results of right code that rounds every operation; only the part that is compared."""
        return self._compared(right_code(self.oracle, self.name, self.args, self.trial.precision, RUNS))

    @property
    def runs_beside_others(self) -> list[np.ndarray]:
        """The same if what the others are computed from is not rounded."""
        found = right_code_beside(self.oracle, self.name, self.args, self.trial.precision, RUNS, self.others)
        return self._compared(found)

    @property
    def rounded_once(self) -> list[np.ndarray]:
        """The results of float32 inside, rounded once: of the program as it is, and with its constants rounded.

        Where they are, or where the candidate has others: as a factor of the result that is off by a rounding.
        """
        p, oracle = self.trial.precision, self.comparison.oracle
        constants = with_rounded_constants(self.oracle, self.name, self.args, p)
        found = [oracle, *self._compared([[x] for x in constants])]
        if scales_by_constants(self.oracle, self.name, self.args):
            found.append(oracle * (1 + self._common_factor))
        return [p.rounded(x) for x in found]

    @property
    def _common_factor(self) -> float:
        """The error as a multiple of the result, at most a rounding of it."""
        y = np.nan_to_num(self.comparison.oracle, posinf=0.0, neginf=0.0)
        error = np.nan_to_num(self.comparison.candidate - y, posinf=0.0, neginf=0.0)
        u = self.trial.precision.u
        return float(np.clip((error * y).sum() / max((y * y).sum(), np.finfo(float).tiny), -u, u))

    def _compared(self, found: list[list[np.ndarray]]) -> list[np.ndarray]:
        like = self.trial.oracle.map(self.name).results[self.place].like
        return [self.trial.oracle.compared(self.name, like, x) for x in found[self.place]]

    @property
    def shows_float32(self) -> bool:
        """True if it is explained by float32 inside, and no run of code that rounds every operation would be."""
        if not self.is_inside_float32:
            return False
        bound = self.bound(ladder(self.trial.oracle, self.trial.sample)[0])
        return not any((np.abs(run - self.comparison.oracle) <= bound).all() for run in self.runs)

    def beyond_float32(self, x: np.ndarray) -> np.ndarray:
        """A mask of the entries of a candidate, or of a run, whose error float32 inside does not explain."""
        bound = self.bound(ladder(self.trial.oracle, self.trial.sample)[0])
        with np.errstate(invalid="ignore"):
            return np.abs(x - self.comparison.oracle) > bound

    @property
    def is_mostly_inside_float32(self) -> bool:
        """True if float32 inside explains half of its entries.

        What right code rounds once for several results may be seen in a few entries of one of them alone.
        """
        return bool(self.beyond_float32(self.comparison.candidate).mean() < 0.5)

    @property
    def is_nearly_inside_float32(self) -> bool:
        """True if far fewer entries than of any run of right code that rounds more are beyond float32 inside."""
        own = self.beyond_float32(self.comparison.candidate)
        runs = [self.beyond_float32(run) for run in self.runs]
        return all(own.mean() <= _FEW * run.mean() for run in runs) and any(run.any() for run in runs)

    def is_shown_by(self, arithmetic: Arithmetic) -> bool:
        """True if an arithmetic explains it, and would not explain zeros."""
        bound = self.bound(arithmetic)
        return bool((self.comparison.error <= bound).all() and (np.abs(self.comparison.oracle) > bound).any())

    def is_same_as(self, other: RoundedResult) -> bool:
        """True of results that are equal by the operator's definition, such as the gradients of x and y in x + y."""
        return np.array_equal(self.comparison.oracle, other.comparison.oracle)

    def bound(self, arithmetic: Arithmetic) -> np.ndarray:
        """The bound of its error under an arithmetic."""
        return bounds(replace(self.trial, oracle=self.oracle), self.name, self.args, arithmetic)[self.place]


def bounds(trial: Trial, name: str, args: Arrays, arithmetic: Arithmetic) -> list[np.ndarray]:
    """The bounds of the results of a map under an arithmetic, of what is compared of each."""
    truths = trial.oracle.ask(name, args, trial.precision.under(arithmetic))
    return [trial.oracle.compared_errors(name, t.like, t.bound, t.value) for t in truths]


def first_that_shows(result: RoundedResult, results: Sequence[RoundedResult]) -> str | None:
    """A result that shows float32 inside: then no number is rounded that is a factor of all entries of this one.

    Of the same map; or of another one, unless the map has such numbers of its own: a constant, such as 1 / n of a mean,
    or sums of all entries or of a few large parts, which may have been saved for it.
    """
    about = result.oracle, result.name, result.args
    has_factors = computes_few_numbers(*about, LINES) or scales_by_constants(*about)
    showing = (each for each in results if (each.name == result.name or not has_factors) and each.shows_float32)
    return next((each.comparison.label for each in showing), None)


def others_that_show(result: RoundedResult, results: Sequence[RoundedResult]) -> list[str]:
    """The results of the same map that are float32 inside and show it, if all but this one and its equals are.

    And if all outputs are, since the backward of right code may go on with them.
    """
    others = [each for each in results if each.name in ("forward", result.name) and not each.is_same_as(result)]
    if not all(each.is_inside_float32 for each in others):
        return []
    return [each.comparison.label for each in others if each.name == result.name and each.shows_float32]
