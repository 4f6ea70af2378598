"""Runs the soak tests file by file: `python -m benchmarks.soak [FILE ...]`.

What came of a file is written to `results/soak.json` and `results/soak.md` when it has ended; results of other files
are kept. Without FILE those files run whose results are not of this tree: first those without a result, then the
oldest. So a run that was stopped goes on where it was.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.campaign import RESULTS, ROOT, Campaign, Stamped, is_of_this_tree, stamp, table

_INTERRUPTED, _NOTHING_COLLECTED = 2, 5  # exit codes of pytest


@dataclass(frozen=True)
class Outcome(Stamped):
    """The result of the soak tests of a file.

    Attributes:
        seconds: wall time, with the start of the process.
        code: pytest's exit code, or minus the signal that has ended it.
        failures: the tests that failed.
        skips: the reasons of those that were skipped.
    """

    seconds: float
    code: int
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)


def main(files: Sequence[str], results: Path = RESULTS / "soak.json") -> int:
    """Run the files, show pytest's output, and keep what came of each; 1 if one has failed, 2 if it was stopped."""
    soak = campaign(results)
    chosen = list(files) or soak.due(collected())
    soak.keep(((file, run(file)) for file in chosen), lambda file, outcome: None)
    return soak.exit_code(any(soak.kept[file].code for file in chosen if file in soak.kept))


def campaign(path: Path) -> Campaign[str, Outcome]:
    """The outcomes by file, of which those of another tree are out of date."""
    return Campaign(
        path,
        Outcome,
        lambda _, outcomes: page(outcomes),
        order=str,
        since=lambda outcome: None if is_of_this_tree(outcome.commit) else outcome.ended,
    )


def collected() -> list[str]:
    """The files with soak tests, from the root of the repository; those with few tests first.

    Raises:
        subprocess.CalledProcessError: the tests cannot be collected; pytest's output says why.
    """
    command = [sys.executable, "-m", "pytest", "-m", "soak", "--collect-only", "-qq"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(done.stdout)  # noqa: T201
        done.check_returncode()
    counts = [line.rpartition(": ") for line in done.stdout.splitlines() if ": " in line]
    return [file for file, _, _ in sorted(counts, key=lambda each: int(each[2]))]


def run(file: str, root: Path = ROOT, marks: str = "soak", options: Sequence[str] = ()) -> Outcome:
    """Run the soak tests of a file, or those with other marks; `options` are pytest's.

    Raises:
        ValueError: it has none.
        KeyboardInterrupt: pytest was interrupted.
    """
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "results.xml")
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-m", marks, "-rsfE", f"--junitxml={xml}", *options, file]
        code = subprocess.run(command, cwd=root, check=False).returncode
        seconds = time.monotonic() - start
        if code == _NOTHING_COLLECTED:
            raise ValueError(f"{file} has no {marks} tests")
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        return Outcome(*stamp(root), round(seconds, 1), code, *_cases(xml))


def _cases(xml: Path) -> tuple[int, list[str], list[str]]:
    """How many passed, which failed, and why others were skipped; nothing if the process has ended before."""
    cases = list(ElementTree.parse(xml).iter("testcase")) if xml.exists() else []
    failures, skips, passed = [], [], 0
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failures.append(case.get("name", ""))
        elif (skipped := case.find("skipped")) is not None:
            skips.append(skipped.get("message", ""))
        else:
            passed += 1
    return passed, failures, skips


def page(outcomes: Mapping[str, Outcome]) -> str:
    """The results as text: a row for each file, then what failed, and why tests were skipped."""
    rows = [
        (f"`{file}`", o.ended[:10], o.commit, o.passed, _failed(o), len(o.skips), f"{o.seconds:.0f}")
        for file, o in sorted(outcomes.items())
    ]
    failures = [f"- `{file}`: `{name}`" for file, o in sorted(outcomes.items()) for name in o.failures]
    skips = [
        f"- `{file}`: {o.skips.count(reason)} x {reason}"
        for file, o in sorted(outcomes.items())
        for reason in sorted(set(o.skips))
    ]
    verdict = "A file has failed." if any(o.code for o in outcomes.values()) else "All of these passed."
    ran_on = sorted({o.versions for o in outcomes.values()})
    return "\n".join(
        [
            "# The soak tests",
            "",
            "Made by `python -m benchmarks.soak`; see CONTRIBUTING.md. A file without a row has not run yet.",
            verdict,
            "",
            *ran_on,
            "",
            *table("| file | day | commit | passed | failed | skipped | s |", rows),
            *(["", "## Failed", "", *failures] if failures else []),
            *(["", "## Skipped", "", *skips] if skips else []),
            "",
        ]
    )


def _failed(outcome: Outcome) -> str:
    """How many tests; of a process that has ended otherwise its exit code."""
    count = len(outcome.failures)
    return str(count) if outcome.code == 0 or count else f"pytest ended with {outcome.code}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
