"""Runs the soak tests, and writes what came of them: python -m benchmarks.soak [options of pytest]."""

from __future__ import annotations

import datetime
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "soak.md"
PACKAGES = ("torch", "jax", "jaxlib", "numpy", "scipy", "triton")


def main(options: list[str]) -> int:
    """Run pytest, show its output as it comes, and keep the summary; its exit code."""
    command = ["-m", "pytest", "-m", "soak", "-rsfE", "--durations=30", *options]
    lines = []
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)  # noqa: T201
            lines.append(line.rstrip())
    RESULTS.write_text(page(lines, datetime.date.today(), process.returncode), encoding="utf-8")
    return process.returncode


def page(lines: list[str], day: datetime.date, code: int) -> str:
    """The result as text: on what it ran, and pytest's own summary, from the slowest tests on."""
    start = next(
        (i for i, line in enumerate(lines) if "slowest" in line and line.startswith("=")), max(0, len(lines) - 40)
    )
    verdict = "All passed." if code == 0 else f"**Failed**: pytest ended with {code}."
    return "\n".join(
        [
            f"# The soak tests, {day.isoformat()}",
            "",
            "Made by `python -m benchmarks.soak`; see CONTRIBUTING.md. " + verdict,
            "",
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}; {', '.join(_versions())}",
            "",
            "```",
            *lines[start:],
            "```",
            "",
        ]
    )


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
