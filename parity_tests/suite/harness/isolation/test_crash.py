"""What ended a process, and whose fault it was."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from multiprocessing import spawn
from pathlib import Path

import numpy as np
import pytest

from parity_tests import Verdict
from parity_tests.harness.isolation import crash
from parity_tests.harness.isolation.processes import end_of

from ._rows import blank_row, place


def _trace(*places: str) -> str:
    def lines(places: tuple[str, ...]) -> str:
        return "".join(f'  File "{place}", line 7 in f\n' for place in places)

    other, current = "Thread 0x01 (most recent call first):\n", "Current thread 0x02 (most recent call first):\n"
    return "Fatal Python error: Aborted\n\n" + other + lines(("/other.py",)) + "\n" + current + lines(places) + "\n"


HARNESS = Path(crash.__file__).parents[1]


@pytest.mark.parametrize(
    ("exit_code", "text"),
    [
        (-signal.SIGSEGV, "crashed (SIGSEGV)"),
        (-signal.SIGABRT, "crashed (SIGABRT)"),
        (-signal.SIGKILL, "was killed (SIGKILL; out of memory?)"),
        (-200, "crashed (signal 200)"),
        (0, "ended the process (exit code 0)"),
        (3, "ended the process (exit code 3)"),
    ],
)
def test_what_ended_a_process(exit_code: int, text: str) -> None:
    assert end_of(exit_code) == text


def test_the_candidate_is_to_blame_unless_the_oracle_was_called() -> None:
    def verdict(trace: str) -> Verdict:
        return crash.row_of(blank_row(), place(), "crashed (SIGSEGV)", trace, None, "").verdict

    candidate, oracle = str(HARNESS / "candidates" / "torch_candidate.py"), str(HARNESS / "oracle" / "oracle.py")
    trial, rounding = str(HARNESS / "trial" / "trial.py"), str(HARNESS / "rounding" / "sums.py")
    assert verdict("") is Verdict.MISMATCH
    assert verdict(_trace("/mine/case.py", candidate, trial)) is Verdict.MISMATCH
    assert verdict(_trace("/mine/oracle.py", candidate, trial)) is Verdict.MISMATCH  # the user's own file
    assert verdict(_trace("/mine/spec.py", oracle, trial)) is Verdict.ERROR
    assert verdict(_trace("/numpy.py", rounding, oracle)) is Verdict.ERROR


def test_a_failure_names_the_innermost_calls() -> None:
    trace = _trace("/lib/c.py", "/mine/case.py", str(HARNESS / "candidates" / "torch_candidate.py"))
    row = crash.row_of(blank_row(), place(), "crashed (SIGSEGV)", trace, Path("calls.txt"), "again")
    assert row.reason == "crashed (SIGSEGV) at sample zero_n (n=0)"
    assert row.failure is not None
    assert row.failure.replay == "again"
    (wrong,) = row.failure.wrong
    assert wrong.pattern == "crashed (SIGSEGV) at c.py:7 in f, called by case.py:7 in f; all calls: calls.txt"


SPAWN = [str(Path(spawn.__file__).with_name(name)) for name in ("process.py", "spawn.py")] + ["<string>"]
ORACLE, SHRINK = str(HARNESS / "oracle" / "oracle.py"), str(HARNESS / "judging" / "shrink.py")
CANDIDATE, WORKER = (str(HARNESS / name) for name in ("candidates/torch_candidate.py", "isolation/worker.py"))


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ((ORACLE, WORKER, *SPAWN), " at oracle.py:7 in f"),
        ((np.__file__, ORACLE, SHRINK, WORKER, *SPAWN), " at oracle.py:7 in f"),
        (("/mine/case.py", ORACLE, WORKER, *SPAWN), " at case.py:7 in f"),
        ((np.__file__, "/mine/case.py", ORACLE, WORKER, *SPAWN), " at __init__.py:7 in f, called by case.py:7 in f"),
        ((*[np.__file__] * 9, "/mine/case.py", ORACLE, WORKER, *SPAWN), " at case.py:7 in f"),
        ((np.__file__, CANDIDATE, ORACLE, WORKER, *SPAWN), " at __init__.py:7 in f"),
        ((CANDIDATE, WORKER, *SPAWN), " at torch_candidate.py:7 in f"),
        ((np.__file__, *SPAWN), ""),
        (SPAWN, ""),
        ((), ""),
    ],
    ids=[
        "oracle",
        "oracle in a library",
        "primal",
        "primal in a library",
        "deep",
        "candidate",
        "own",
        "import",
        "spawn",
        "none",
    ],
)
def test_calls_that_tell_the_reader_nothing_are_left_out(places: Sequence[str], told: str) -> None:
    """Those of the start of a process, and of libraries that the harness itself has called."""
    assert crash.innermost_calls(crash.frames(_trace(*places))) == told
