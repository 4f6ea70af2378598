"""The call stack of a process that crashed or hung, and whether it was in the candidate or in the oracle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$', re.MULTILINE)
_HARNESS = Path(__file__).parents[1]
# Where the harness calls the oracle, or works out a bound, and where it calls the candidate.
_OF_ORACLE = frozenset(_HARNESS / name for name in ("oracle", "rounding", "specs"))
_OF_CANDIDATE = _HARNESS / "candidates"
_SHOWN = 4  # of the innermost calls


@dataclass(frozen=True)
class Frame:
    """A call in a trace of `faulthandler`."""

    file: Path
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line} in {self.name}"


def frames(trace: str) -> list[Frame]:
    """The calls of the thread that crashed, the innermost first; none if there is no trace."""
    threads = re.split(r"^(?=(?:Current thread|Thread) )", trace, flags=re.MULTILINE)
    current = next((thread for thread in threads if thread.startswith("Current thread")), "")
    return [Frame(Path(m["file"]), int(m["line"]), m["name"]) for m in _FRAME.finditer(current)]


def is_candidate_s(calls: Sequence[Frame]) -> bool:
    """True if one of the calls is in the code that calls the candidate."""
    return any(call.file.parent == _OF_CANDIDATE for call in calls)


def is_oracle_s(calls: Sequence[Frame]) -> bool:
    """True if the innermost call into the candidate or the oracle is into the oracle; False if there is none."""
    for call in calls:
        if call.file.parent == _OF_CANDIDATE:
            return False
        if call.file.parent in _OF_ORACLE:
            return True
    return False


def innermost_calls(calls: Sequence[Frame]) -> str:
    """The innermost calls outside of the harness: " at case.py:11 in backward, called by case.py:20 in apply"."""
    outside = [str(call) for call in calls if _HARNESS not in call.file.parents][:_SHOWN]
    return f" at {', called by '.join(outside)}" if outside else ""
