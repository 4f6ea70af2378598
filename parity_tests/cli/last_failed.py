"""The rows of a source's last run that failed and that passed, in a cache: for `--last-failed` and `--failed-first`.

A run may end early, or be about other checks: a row that is not known to have passed is judged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from parity_tests.cli.sources.source import Source
from parity_tests.harness.data_files import Malformed, field, read_json
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE

ALL = "all"  # in place of a check, a dtype and a device: a candidate that was not built, none of which is known


class FailedRow(NamedTuple):
    """Which row did not pass, or did."""

    op: str
    candidate: str
    check: str
    dtype: str
    device: str


def folder() -> Path:
    """Where it is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gradparity", "last-failed")


class LastRun(NamedTuple):
    """The rows that failed in the last run, and those that passed."""

    failed: frozenset[FailedRow] = frozenset()
    passed: frozenset[FailedRow] = frozenset()


def recall(source: Source) -> LastRun:
    """Return the rows that the cache has of the last run; none if nothing failed, or if there was no run."""
    try:
        kept = read_json(_file(source), "what `gradparity check` has kept of its last run")
        rows = (field(kept, key, list[tuple[str, str, str, str, str]]) for key in ("failed", "passed"))
        return LastRun(*(frozenset(FailedRow(*row) for row in of_key) for of_key in rows))
    except (OSError, Malformed):  # it is a cache: what cannot be read was never there
        return LastRun()


def remember(source: Source, op: str, report: Report) -> None:
    """Keep what has failed and what has passed; of what was not judged in this run, what is known of an earlier one.

    Args:
        source: where the operator was found.
        op: its name, since a report may have several.
        report: of the run.

    Raises:
        OSError: it cannot be written.
    """
    before, judged, failed, passed = recall(source), set[FailedRow](), set[FailedRow](), set[FailedRow]()
    failing = {id(row) for row in report.failed}
    for row in report.rows:
        if row.op == op and row.candidate != ORACLE:
            of_row = FailedRow(op, row.candidate, row.check, row.dtype, row.device)
            judged |= {of_row, FailedRow(op, row.candidate, ALL, ALL, ALL)}
            (failed if id(row) in failing else passed).add(of_row)
    broken = [each for each in report.not_built if not each.expected and each.op in ("", op)]
    failed |= {FailedRow(op, each.name, ALL, ALL, ALL) for each in broken}
    _keep(source, sorted(failed | (before.failed - judged)), sorted(passed | (before.passed - judged)))


def _keep(source: Source, failed: Sequence[FailedRow], passed: Sequence[FailedRow]) -> None:
    file = _file(source)
    if not failed:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"of": _identity(source), "failed": failed, "passed": passed}) + "\n")


def _file(source: Source) -> Path:
    return folder() / f"{hashlib.sha256(_identity(source).encode()).hexdigest()[:32]}.json"


def _identity(source: Source) -> str:
    """The identity of a source, which no run changes: the file, or all else that it takes to find the source again."""
    place = source.file and os.path.realpath(source.file)
    return json.dumps([type(source).__name__, place or source.origin or source.command("")])


def rows_of(failed: Iterable[FailedRow], op: str, device: str) -> frozenset[tuple[str, str | None, str | None]]:
    """Those of an operator on a device, as `LastFailed` has them."""
    return frozenset(
        (row.candidate, None, None) if row.check == ALL else (row.candidate, row.check, row.dtype)
        for row in failed
        if row.op == op and row.device in (device, ALL)
    )
