"""Ctrl-C at random moments of a run: how long it takes to end, and whether it leaves a whole report.

    python -m parity_tests.suite.faults.measure_interrupts [COUNT]

A measurement and no test, since it depends on what else the machine does: `test_interrupt.py` has a test of each kind
of moment. The moments are between the first writing of the report, when the options have been read, and the end of the
run. Before that there is nothing to write a report to.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from parity_tests.cli.interruption import INTERRUPTED
from parity_tests.suite.faults._program import RIGHT, case, started

_SEED = 0
_ALLOWED = 2.0  # seconds
_OPTIONS = ("--only", "forward,vjp,jvp", "--dtype", "float64", "--device", "cpu", "--json", "report.json")


class End(NamedTuple):
    """How a run ended. `moment`, `seconds`: from the first report to Ctrl-C, and from there to the end."""

    moment: float
    seconds: float
    code: int
    output: str
    report: str

    @property
    def fault(self) -> str:
        """What is wrong with it; empty if nothing is."""
        try:
            report = json.loads(self.report)
        except ValueError:
            return "the report is not whole"
        if self.code != INTERRUPTED:
            return f"exit code {self.code}"
        if report["error"] != "interrupted" or report["passed"]:
            return f"the report says {report['error']!r}"
        if "Traceback" in self.output:
            return "a traceback"
        return f"it took {self.seconds:.1f} s" if self.seconds > _ALLOWED else ""


def interrupted(folder: Path, moment: float) -> End:
    """Start a run in this folder, and interrupt it so many seconds after its first report."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    process = started(folder, "check", "case.py", *_OPTIONS)
    while not report.exists() and process.poll() is None:
        time.sleep(0.005)
    began = time.monotonic()
    try:
        process.wait(timeout=moment)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    sent = time.monotonic()
    output, _ = process.communicate(timeout=120)
    return End(sent - began, time.monotonic() - sent, process.returncode, output, report.read_text(encoding="utf-8"))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Interrupt runs, and print each that does not end as it should."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    moments, late, faults, slowest = random.Random(_SEED), 0, 0, 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case(folder, RIGHT)
        length = interrupted(folder, 600.0).moment
        _say(f"a run takes {length:.1f} s from its first report")
        done = 0
        while done < count:
            end = interrupted(folder, moments.uniform(0.0, length))
            if end.code == 0 and '"passed": true' in end.report:
                late += 1  # it was done before
                continue
            done, slowest = done + 1, max(slowest, end.seconds)
            if end.fault:
                faults += 1
                _say(f"at {end.moment:.2f} s: {end.fault}\n{end.output[-500:]}")
    _say(f"{count - faults} of {count} as they should; the slowest took {slowest:.1f} s; {late} had ended before")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    main()
