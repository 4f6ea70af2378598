"""The options of `gradparity run` and `gradparity check`, and what can be said of them before anything is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parity_tests.cli.expression import matching
from parity_tests.cli.report_files import ReportFiles, report_files
from parity_tests.harness.names import CHECKS, COSTLY, FORMATS, ON_REQUEST, selected


@dataclass(frozen=True)
class Options:
    """The choices of a run: its checks, formats and devices, how they are judged, and the files to write.

    Attributes:
        start: the folder in which the command was started.
        only, dtypes, devices: by name; none for the usual ones.
        match: an expression that the names of checks must match, also those of `only`; see `expression.matching`.
        exit_first: is the first row that does not pass the last one?
        quiet: are only failures and the verdict shown?
        verbose: is each row shown with its numbers, and every failure in full?
        last_failed: is only judged what failed in the last run?
        failed_first: is what failed in the last run judged first?
        watch: is all judged again as soon as a file changes?
        drawn: was no seed given?
        failures: the folder for reproducers.
        budget: seconds, or None.
        isolate: in other processes?
        trial_seconds: what a candidate may take at one sample.
        allow_suspect: does SUSPECT count as agreement?
        apart: do solutions run in processes of their own, which the processes that judge have started?
    """

    only: tuple[str, ...]
    match: str | None
    exit_first: bool
    quiet: bool
    verbose: bool
    last_failed: bool
    failed_first: bool
    watch: bool
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]
    quick: bool
    seed: int
    json: Path | None
    html: Path | None
    markdown: Path | None
    junit: Path | None
    failures: Path
    budget: float | None
    jobs: int
    isolate: bool
    trial_seconds: float
    allow_suspect: bool
    start: Path = field(default_factory=Path.cwd)
    drawn: bool = False
    apart: bool = False

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks that are asked for, of `only` and by `match`; none for the usual ones."""
        return self.only if self.match is None else tuple(matching(self.match, self._selectable))

    @property
    def _selectable(self) -> Sequence[str]:
        """The checks of which `match` selects: those of `only`, or those that run by default."""
        left_out = ON_REQUEST | (COSTLY if self.quick else frozenset())
        return self.only or [name for name in CHECKS if name not in left_out]

    def checked(self) -> ReportFiles:
        """The files for the report, once all options are in order.

        Raises:
            ValueError: one is not; the message names it.
        """
        if self.jobs < 1:
            raise ValueError(f"-j {self.jobs}: give at least 1 process")
        if self.jobs > 1 and not self.isolate:
            raise ValueError(
                f"-j {self.jobs} judges in {self.jobs} processes, and --no-isolate in this one; leave one out"
            )
        for option, seconds in (("--budget", self.budget), ("--trial-timeout", self.trial_seconds)):
            if seconds is not None and not seconds >= 0:  # it is not a number
                raise ValueError(f"{option} {seconds}: give a number of seconds")
        if self.only:
            selected("check", self.only, CHECKS)
        if self.match is not None:
            matching(self.match, self._selectable)
        if self.dtypes:
            selected("dtype", self.dtypes, FORMATS)
        if os.path.exists(self.failures) and not os.path.isdir(self.failures):
            raise ValueError(f"--failures {self.failures}: is no folder; give another name, or remove it")
        return report_files(self.json, self.html, self.markdown, self.junit)
