"""A limit on the time of a run, which holds even if a candidate hangs."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from parity_tests.harness.exceptions.frames import Frame, is_candidate_s, is_oracle_s

TRIAL_SECONDS = 600.0  # without an answer at one sample, or while a case is loaded, after which it counts as hanging
GRACE = 2.0  # seconds for the row that is being judged when the time is up


class Spent(Exception):
    """Raised when the budget is spent."""


Check = Callable[[object], None]


def clock(seconds: float | None) -> tuple[float, Check]:
    """When a budget ends, by `time.monotonic`, and a function that raises `Spent` from then on.

    It is given the row that has just been judged; None while one is being judged, which has `GRACE` seconds more.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds

    def check(row: object) -> None:
        if time.monotonic() > deadline + (GRACE if row is None else 0.0):
            raise Spent(f"the budget of {seconds:g} s is spent")

    return deadline, check


@contextlib.contextmanager
def budget(seconds: float | None, last_words: Callable[[str], object], exit_code: int) -> Iterator[tuple[float, Check]]:
    """A block with a limit on its time, which ends the process if it hangs; yields what `clock` returns.

    Whoever hangs never gets there, and Python cannot stop it: then `last_words` is told where it hangs, and the process
    ends with `exit_code`. A call that never lets other threads run, as a regular expression, holds this up, too; it
    takes another process to end that (see `guard.py`).
    """
    deadline, check = clock(seconds)
    if seconds is None:
        yield deadline, check
        return
    judging = threading.get_ident()

    def give_up() -> None:
        frame = sys._current_frames().get(judging)
        calls = [Frame(Path(f.filename), f.lineno or 0, f.name) for f in traceback.extract_stack(frame)[::-1]]
        last_words(f"the budget of {seconds:g} s is spent, and {_who_hangs(calls)}")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)

    watchdog = threading.Timer(seconds + GRACE, give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield deadline, check
    finally:
        watchdog.cancel()


def _who_hangs(calls: Sequence[Frame]) -> str:
    """The innermost call, and whose it is: "the candidate hangs (at case.py:11, in candidate)"."""
    if not calls:
        return "where it hangs is not known"
    who = "the oracle" if is_oracle_s(calls) else "the candidate" if is_candidate_s(calls) else "the run"
    return f"{who} hangs (at {calls[0].file}:{calls[0].line}, in {calls[0].name})"
