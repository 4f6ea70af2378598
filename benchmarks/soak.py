"""Runs the soak tests file by file: `python -m benchmarks.soak [FILE ...]`.

What came of a file is written to `results/soak.json` and `results/soak.md` when it has ended; results of other files
are kept. Without FILE those files run whose results are not of this tree: first those without a result, then the
oldest. So a run that was stopped goes on where it was.
"""

from __future__ import annotations

import datetime
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.run import commit
from parity_tests.harness.report.atomic_file import write_text

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "soak.json"
PACKAGES = ("torch", "jax", "jaxlib", "numpy", "scipy", "triton", "jax-triton")
_INTERRUPTED, _NOTHING_COLLECTED = 2, 5  # exit codes of pytest


@dataclass(frozen=True)
class Outcome:
    """The result of the soak tests of a file.

    Attributes:
        ended: when, in UTC, as ISO 8601 has it.
        commit: of the working tree, with a plus sign if it was edited; None outside of a repository.
        versions: of Python, the machine and the packages.
        seconds: wall time, with the start of the process.
        code: pytest's exit code, or minus the signal that has ended it.
        failures: the tests that failed.
        skips: the reasons of those that were skipped.
    """

    ended: str
    commit: str | None
    versions: str
    seconds: float
    code: int
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)


def main(files: Sequence[str], results: Path = RESULTS) -> int:
    """Run the files, show pytest's output as it comes, and keep what came of each; 1 if one has failed."""
    outcomes = read(results)
    chosen = list(files) or order(collected(), outcomes, is_of_this_tree)
    for file in chosen:
        outcome = run(file)
        outcomes[file] = outcome
        write_text(results, json.dumps({file: asdict(outcomes[file]) for file in sorted(outcomes)}, indent=1) + "\n")
        write_text(results.with_suffix(".md"), page(outcomes))
    return int(any(outcomes[file].code for file in chosen))


def read(path: Path) -> dict[str, Outcome]:
    """The results that were kept; none if there is no file."""
    if not path.exists():
        return {}
    return {file: Outcome(**outcome) for file, outcome in json.loads(path.read_text("utf-8")).items()}


def order(files: Sequence[str], outcomes: Mapping[str, Outcome], is_current: Callable[[str | None], bool]) -> list[str]:
    """The files to run: those without a result, then those of another tree, the oldest first."""
    due = [file for file in files if file not in outcomes or not is_current(outcomes[file].commit)]
    return sorted(due, key=lambda file: outcomes[file].ended if file in outcomes else "")


def is_of_this_tree(of: str | None, root: Path = ROOT) -> bool:
    """True if nothing but results has changed since that commit in the repository with this root."""
    if of is None or of.endswith("+"):
        return False
    command = ["git", "diff", "--quiet", of, "--", ".", ":!benchmarks/results"]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).returncode == 0


def commit_of_code(root: Path = ROOT) -> str | None:
    """The commit as `benchmarks.run.commit` has it, but results that are written are no edit."""
    found = commit(root)
    clean = found.removesuffix("+") if found else None
    return clean if is_of_this_tree(clean, root) else found


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
        ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return Outcome(ended, commit_of_code(root), versions(), round(seconds, 1), code, *_cases(xml))


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
        f"| `{file}` | {o.ended[:10]} | {o.commit} | {o.passed} | {_failed(o)} | {len(o.skips)} | {o.seconds:.0f} |"
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
            "| file | day | commit | passed | failed | skipped | s |",
            "|---|---|---|---|---|---|---|",
            *rows,
            *(["", "## Failed", "", *failures] if failures else []),
            *(["", "## Skipped", "", *skips] if skips else []),
            "",
        ]
    )


def _failed(outcome: Outcome) -> str:
    """How many tests; of a process that has ended otherwise its exit code."""
    count = len(outcome.failures)
    return str(count) if outcome.code == 0 or count else f"pytest ended with {outcome.code}"


def versions() -> str:
    """The versions of Python, the machine and the packages."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}; {', '.join(found)}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
