"""The samples at which a candidate is judged, and notes on the others: those that it refuses, or beyond the format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.exceptions.errors import first_line, map_of, where_of
from parity_tests.harness.exceptions.from_solution import REFUSALS
from parity_tests.harness.judging.certified import overflows_everywhere
from parity_tests.harness.judging.outcome import End, Outcome
from parity_tests.harness.judging.turn import Turn
from parity_tests.harness.report.results import Note
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.trial.empty_axes import of_another_shape


@dataclass(frozen=True)
class Accepted:
    """The samples that are judged. `notes`: on the others. `overflow`: why none of the values exists in the format."""

    samples: Sequence[Sample]
    notes: Sequence[Note]
    overflow: str


def accepted_by(turn: Turn, cases: Iterable[Sample]) -> Accepted:
    """Return the samples that a candidate accepts, by a call of its forward at those with an empty axis."""
    called = [s for s in cases if not turn.plan.earlier.avoids(turn.candidate.name, s.name)]
    refusals = [_refusal(turn, s) if s.has_empty_axis else None for s in called]
    accepted = [s for s, note in zip(called, refusals, strict=True) if note is None]
    usual = [s for s in accepted if not s.whole]
    beyond = [s for s in usual if overflows_everywhere(turn.oracle.at(s), s, turn.precision)]
    name, largest = turn.precision.name, turn.precision.largest
    why, notes = f"all values of the oracle exceed the largest number of {name}, {largest:g}", [*filter(None, refusals)]
    if beyond and all(s in beyond for s in usual if not s.has_empty_axis):
        return Accepted(accepted, notes, overflow=f"at every sample {why}")
    return Accepted(accepted, [*notes, *(turn.note(s, why) for s in beyond)], overflow="")


def notes_on(turn: Turn, outcomes: Iterable[Outcome]) -> list[Note]:
    """Return a note on each sample that a check did not judge."""
    notes = []
    for outcome in outcomes:
        sample, error = outcome.trial.sample, outcome.error
        if error is not None and outcome.end is End.EMPTY_REFUSED:
            what = f"{turn.candidate.name} refuses an empty axis in {map_of(error) or 'a derivative'}"
            notes.append(turn.note(sample, what, first_line(error)))
        if error is not None and outcome.end is End.EMPTY_UNDEFINED:
            notes.append(turn.note(sample, "the oracle has no derivative there", where_of(error)))
    return notes


def _refusal(turn: Turn, sample: Sample) -> Note | None:
    """How the candidate's forward refuses a sample with an empty axis, as PyTorch's own often do; None if not."""
    trial = turn.trial_at("forward", sample)
    try:
        outputs = trial.candidate.forward(trial.tensors(trial.primals))
        other = of_another_shape(trial, outputs)
    except Refused:
        return None  # the rows will say so, as of whatever else goes wrong
    except REFUSALS as error:
        return turn.note(sample, f"{turn.candidate.name} refuses an empty axis", first_line(error))
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return None if other is None else turn.note(sample, turn.candidate.name, other)
