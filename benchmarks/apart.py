"""Runs a program of the benchmarks in a process of its own, which may crash, hang or use up its memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.run import THREAD_COUNTS

ROOT = Path(__file__).parents[1]


class Lost(NamedTuple):
    """A process that wrote no outcome: how it ended, and the last lines that it printed."""

    error: str
    text: str


def run_apart(module: str, *arguments: str, seconds: float | None = None) -> dict[str, Any] | Lost:
    """Run `python -m module *arguments --out FILE` in one thread, and return the outcome that it writes to the file.

    Args:
        module: the program's.
        arguments: for it.
        seconds: that it may take.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, start = Path(folder) / "outcome.json", time.monotonic()
        command = [sys.executable, "-m", module, *arguments, "--out", str(path)]
        environment = os.environ | dict.fromkeys(THREAD_COUNTS, "1")
        try:
            done = subprocess.run(
                command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return Lost(f"not ended after {seconds:.0f} s", "")
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
    last = "\n".join(done.stderr.strip().splitlines()[-12:])
    return Lost(f"{_how_it_ended(done.returncode)} after {time.monotonic() - start:.0f} s", last)


def _how_it_ended(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
