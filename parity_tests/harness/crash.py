"""How a process that judges came to its end, and the row that tells it."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parity_tests.harness.findings import Verdict
from parity_tests.harness.report import Failure, Row, WrongResult

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$', re.MULTILINE)
_HARNESS = Path(__file__).parent
# Where the harness calls the oracle, or works out a bound, and where it calls the candidate.
_OF_ORACLE = re.compile(r"^(oracle|rounding\w*|taylor|kinks|domains|samples)$")
_OF_CANDIDATE = re.compile(r"^(jax_)?candidate$")
_TOLD = 4  # of the innermost calls


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


@dataclass(frozen=True)
class Frame:
    """A call in a trace of `faulthandler`."""

    file: Path
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line} in {self.name}"


def end_of(exit_code: int | None) -> str:
    """What a process did that ended with this exit code, which is a signal's number below zero."""
    if exit_code is None or exit_code >= 0:
        return f"ended the process (exit code {exit_code})"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return "was killed (SIGKILL; out of memory?)" if name == "SIGKILL" else f"crashed ({name})"


def frames(trace: str) -> list[Frame]:
    """The calls of the thread that crashed, the innermost first; none if there is no trace."""
    threads = re.split(r"^(?=(?:Current thread|Thread) )", trace, flags=re.MULTILINE)
    current = next((thread for thread in threads if thread.startswith("Current thread")), "")
    return [Frame(Path(m["file"]), int(m["line"]), m["name"]) for m in _FRAME.finditer(current)]


def is_oracle_s(calls: Sequence[Frame]) -> bool:
    """Was it the oracle that was called, and not the candidate? It is the candidate if there is no trace."""
    for call in calls:
        if call.file.parent == _HARNESS and _OF_CANDIDATE.match(call.file.stem):
            return False
        if call.file.parent == _HARNESS and _OF_ORACLE.match(call.file.stem):
            return True
    return False


def told(calls: Sequence[Frame]) -> str:
    """The innermost calls outside of the harness: " at case.py:11 in backward, called by case.py:20 in apply"."""
    outside = [str(call) for call in calls if _HARNESS not in call.file.parents][:_TOLD]
    return f" at {', called by '.join(outside)}" if outside else ""


def row_of(blank: Row, place: Place, how: str, trace: str, file: Path | None, replay: str) -> Row:
    """The row of a candidate that has ended a process at a sample.

    `how`: see `end_of`. `trace`: of `faulthandler`; `file`: where it is kept.
    """
    calls = frames(trace)
    reason = f"{how} at sample {place.title}"
    if is_oracle_s(calls):
        return replace(blank, verdict=Verdict.ERROR, reason=f"the oracle {reason}{told(calls)}")
    pattern = f"{how}{told(calls)}" + (f"; all calls: {file}" if file else "")
    failure = Failure(
        op=blank.op,
        candidate=blank.candidate,
        check=blank.check,
        dtype=blank.dtype,
        device=blank.device,
        sample=place.name,
        why=place.why,
        sizes=place.sizes,
        seed=place.seed,
        wrong=(WrongResult("the process", pattern),),
        replay=replay,
    )
    return replace(blank, verdict=Verdict.MISMATCH, comparisons=1, reason=reason, failure=failure)
