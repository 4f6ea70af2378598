"""The outcome of one check on one trial: what it found, and how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum, auto

from parity_tests.harness.candidates.torch_candidate import BadOutput, Candidate, Refused
from parity_tests.harness.candidates.torch_refusals import BackwardOnly
from parity_tests.harness.checks import Check
from parity_tests.harness.exceptions.defects import message_of
from parity_tests.harness.exceptions.errors import (
    circumstance_of,
    first_line,
    is_candidates,
    is_oracles,
    map_of,
    place_of,
)
from parity_tests.harness.exceptions.from_solution import REFUSALS, NoAnswer
from parity_tests.harness.findings import Comparison, Fact, Finding, NotApplicable, Suspicion
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.oracle.oracle import OracleError
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.report.first_order import HIGHER_ORDER
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.trial.trial import Trial

_WRONG_SHAPE = "returned an invalid gradient|forward gradient that has a different size"  # PyTorch looks at it itself


class End(Enum):
    """How a check ended on a trial."""

    COMPLETE = auto()
    INAPPLICABLE = auto()  # it has nothing to say about the operator, or about the candidate
    REFUSED = auto()  # the candidate does not support the property
    EMPTY_REFUSED = auto()  # the candidate does not support the sample, which has an empty axis
    EMPTY_UNDEFINED = auto()  # nor does the oracle
    UNRESOLVED = auto()  # the oracle cannot tell
    RAISED = auto()  # the candidate raised an exception
    BROKEN = auto()  # the oracle or the harness did


@dataclass(frozen=True)
class Outcome:
    """The findings of a check on a trial, and how it ended. `error`: the exception that ended it, if one did."""

    trial: Trial
    findings: tuple[Finding, ...]
    end: End
    error: BaseException | None = None

    @property
    def wrong(self) -> list[Finding]:
        """The findings that do not hold."""
        return [finding for finding in self.findings if not finding.holds]

    @property
    def suspicions(self) -> list[Suspicion]:
        """The results whose errors do not look like rounding."""
        return [finding for finding in self.findings if isinstance(finding, Suspicion)]

    @property
    def is_final(self) -> bool:
        """True if further samples are unnecessary. Not if the candidate raised: elsewhere it may be silently wrong."""
        return bool(self.wrong or self.suspicions) or self.end in (End.REFUSED, End.UNRESOLVED)


def outcome_of(check: Check, trial: Trial) -> Outcome:
    """Run a check on a trial. Findings are kept one by one, so that a later exception loses none.

    Of a candidate that refuses `torch.autograd.grad` for `.backward()` the check runs again, by that.
    """
    outcome = _outcome_of(check, trial)
    if isinstance(outcome.error, BackwardOnly) and isinstance(trial.candidate, Candidate):
        candidate = trial.candidate.by_backward()
        if candidate is not None:
            return _outcome_of(check, replace(trial, candidate=candidate))
    return outcome


def _outcome_of(check: Check, trial: Trial) -> Outcome:
    findings: list[Finding] = []
    try:
        for finding in check.run(trial):
            findings.append(finding)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit(), too
        # Checks are generators, in which Python makes a RuntimeError of a StopIteration that somebody else has raised.
        own = error.__cause__ if isinstance(error.__cause__, StopIteration) else error
        return Outcome(trial, tuple(findings), _end(own, trial.sample), own)
    return Outcome(trial, tuple(findings), End.COMPLETE)


def _end(error: BaseException, sample: Sample) -> End:
    empty = sample.has_empty_axis
    if isinstance(error, NotApplicable):
        return End.INAPPLICABLE
    if isinstance(error, Refused):
        return End.REFUSED
    if isinstance(error, BadOutput):
        return End.RAISED
    if not isinstance(error, OracleError) and is_candidates(error):
        refuses = empty and isinstance(error, REFUSALS) and not re.search(_WRONG_SHAPE, message_of(error))
        return End.EMPTY_REFUSED if refuses else End.RAISED
    if empty and isinstance(error, Exception) and is_oracles(error) and not isinstance(error, NoRule | NotFloat64):
        return End.EMPTY_UNDEFINED
    return End.UNRESOLVED if isinstance(error, NoRule | NotFloat64 | OracleError) else End.BROKEN


def raised(outcome: Outcome, check: str) -> Fact:
    """The exception by which a candidate ended a check of this name, as a fact that does not hold."""
    error = outcome.error
    assert error is not None
    label = map_of(error) or check
    if isinstance(error, BadOutput | NoAnswer):
        return Fact(label, False, first_line(error), circumstance_of(error))
    text = f"raises {type(error).__name__}: {first_line(error)} ({place_of(error)})"
    return Fact(label, False, text, circumstance_of(error))


def is_beyond_first_order(outcome: Outcome, check: str) -> bool:
    """True if all that a check of this name has found wrong is a derivative of a higher order than the first."""
    if check in HIGHER_ORDER:
        return True
    maps = [f.call[0] if isinstance(f, Comparison) and f.call is not None else "" for f in outcome.wrong]
    if outcome.end is End.RAISED:
        assert outcome.error is not None
        maps.append(map_of(outcome.error))
    return bool(maps) and all(len(ORDERS.get(name, ())) > 1 for name in maps)
