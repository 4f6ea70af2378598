"""The end of a judging process, and the row that reports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from parity_tests.harness.exceptions.frames import frames as frames
from parity_tests.harness.exceptions.frames import innermost_calls as innermost_calls
from parity_tests.harness.exceptions.frames import is_oracle_s as is_oracle_s
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.results import Failure, Row, WrongResult
from parity_tests.harness.specs.seeds import shown


@dataclass(frozen=True)
class Place:
    """A sample at which a candidate is called, as plain data.

    Attributes:
        title: its name with its sizes.
        generic: see `samples.Sample.generic`.
        shrinking: has the row failed already, at a sample of which this is a smaller version?
    """

    name: str
    title: str
    why: str
    sizes: Mapping[str, int]
    seed: int
    generic: bool
    shrinking: bool


def row_of(blank: Row, place: Place, how: str, trace: str, file: Path | None, replay: str) -> Row:
    """The row of a candidate that has ended a process at a sample.

    `how`: see `processes.end_of`. `trace`: of `faulthandler`; `file`: where it is kept.
    """
    calls = frames(trace)
    reason = f"{how} at sample {place.title}"
    if is_oracle_s(calls):
        return replace(blank, verdict=Verdict.ERROR, reason=f"the oracle {reason}{innermost_calls(calls)}")
    pattern = f"{how}{innermost_calls(calls)}" + (f"; all calls: {file}" if file else "")
    failure = Failure(
        op=blank.op,
        candidate=blank.candidate,
        check=blank.check,
        dtype=blank.dtype,
        device=blank.device,
        sample=place.name,
        why=place.why,
        sizes=place.sizes,
        seed=shown(place.seed),
        wrong=(WrongResult("the process", pattern),),
        replay=replay,
    )
    return replace(blank, verdict=Verdict.MISMATCH, comparisons=1, reason=reason, failure=failure)
