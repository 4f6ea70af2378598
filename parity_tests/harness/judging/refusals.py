"""Rows that the candidate refuses: by which reasons they are excused."""

from __future__ import annotations

from dataclasses import replace

from parity_tests.harness.candidates.reasons import AUTHOR, ITS_FRAMEWORK, REQUIRED, Reason, remedy
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.exceptions.from_solution import REFUSALS
from parity_tests.harness.judging.turn import Turn
from parity_tests.harness.report.results import Row
from parity_tests.harness.trial.trial import Trial


def refused_row(turn: Turn, row: Row, trial: Trial, refusal: Refused) -> Row:
    """A row that the candidate refuses; excused by the reason, unless the author lists the limits."""
    is_excused = refusal.excuses(row.check, row.dtype) and turn.candidate.limits is None
    if is_excused and refusal.reason is Reason.FORMAT and row.check in REQUIRED:
        is_excused = _forward_refuses(trial)
    if not is_excused:
        is_listed = row.check in (turn.candidate.limits or {})
        return row if is_listed else replace(row, reason=f"{refusal}; {remedy(refusal, row.check)}")
    whose = refusal.reason.whose
    named = turn.candidate.framework if whose == ITS_FRAMEWORK else whose
    return replace(row, listed=True, declared=whose == AUTHOR, limit_of="" if whose == AUTHOR else named)


def _forward_refuses(trial: Trial) -> bool:
    """True if the forward, recorded, is refused by PyTorch for the format: then its derivative need not exist there."""
    try:
        trial.candidate.record(trial.tensors(trial.primals))
    except Refused as refusal:
        return refusal.reason is Reason.FORMAT
    except REFUSALS:
        return False
    return False
