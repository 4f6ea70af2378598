"""The call stack of a process that crashed or hung, and whether it was in the candidate or in the oracle."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$', re.MULTILINE)
_HARNESS = Path(__file__).parents[1]
# Where the harness calls the oracle, or works out a bound, and where it calls the candidate.
_OF_ORACLE = frozenset(_HARNESS / name for name in ("oracle", "rounding", "specs"))
_OF_CANDIDATE = _HARNESS / "candidates"
_LIBRARIES = frozenset(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
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
    """The innermost calls outside of the harness: " at case.py:11 in backward, called by case.py:20 in apply".

    Those within libraries are told on the way to the user's code, or of a candidate, which may be a library's. Of the
    harness alone, and of libraries that it has called, the innermost call of the harness is; if there is none, nothing.
    """
    own = [i for i, call in enumerate(calls) if _HARNESS in call.file.parents]
    calls = calls[: own[-1] + 1] if own else calls  # those further out have started the process
    outside = [call for call in calls if _HARNESS not in call.file.parents]
    users = next((i for i, call in enumerate(outside) if not _is_library_s(call)), None)
    if users is None:
        shown = outside if outside and is_candidate_s(calls) and not is_oracle_s(calls) else [calls[i] for i in own[:1]]
    else:
        shown = outside if users < _SHOWN else outside[users:]
    return f" at {', called by '.join(map(str, shown[:_SHOWN]))}" if shown else ""


def _is_library_s(call: Frame) -> bool:
    """True of the standard library's and installed packages', and of code without a file, such as "<frozen runpy>"."""
    return str(call.file).startswith("<") or not _LIBRARIES.isdisjoint(call.file.parents)
