"""Judges that stand in for the sweep's own, most of them with a mistake; they import neither PyTorch nor JAX."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from parity_tests.sweep.lines import Line, Verdict

HERE = "parity_tests.suite.sweep._judges"


def agrees(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """One line for each mode and dtype."""
    return [Line(operator, mode, "self", dtype, Verdict.AGREES, calls=1) for mode in modes for dtype in dtypes]


def misbehaves(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """Do what the operator's name says."""
    lines = agrees(operator, modes, dtypes)
    if operator == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if operator == "waits":
        time.sleep(1000)
    if operator == "computes":
        while True:
            pass
    if operator == "eats":
        _ = b"x" * (400 << 20)
        time.sleep(1000)
    if operator == "raises":
        raise ZeroDivisionError("division of zero")
    if operator == "exits":
        raise SystemExit(3)
    if operator == "twice":
        return lines * 2
    if operator == "another":
        return agrees("sin", modes, dtypes)
    if operator == "nothing":
        return []
    return lines


def crashes_if_used(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """An operator before it has left something behind that "second" stumbles over."""
    if operator == "second" and "LEFT_BEHIND" in os.environ:
        os.kill(os.getpid(), signal.SIGSEGV)
    os.environ["LEFT_BEHIND"] = "1"
    return agrees(operator, modes, dtypes)


def tells_environment(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """The value of the variable that is given as the operator, and the number of this process."""
    (mode,), (dtype,) = modes, dtypes
    value = f"{os.environ.get(operator)} {os.getpid()}"
    return [Line(operator, mode, "self", dtype, Verdict.AGREES, reason=value)]


def slow(operator: str, modes: Sequence[str], dtypes: Sequence[str]) -> list[Line]:
    """Half a second, and a note that it was asked, in the folder that the environment names.

    Once more than GRADPARITY_MOST operators have a note, it never ends: so a test can stop a run in the middle of it,
    however slow the machine is.
    """
    notes = Path(os.environ["GRADPARITY_NOTES"])
    with open(notes / operator, "a", encoding="utf-8") as file:
        file.write("asked\n")
    while len(list(notes.iterdir())) > int(os.environ.get("GRADPARITY_MOST", "1000")):
        time.sleep(0.1)
    time.sleep(0.5)
    return agrees(operator, modes, dtypes)
