"""What failed in the last run of a source, for `--last-failed` and `--failed-first`: a small file in a cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from parity_tests.cli.sources.source import Source
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE

if TYPE_CHECKING:
    from parity_tests.cli.run_spec import RunSpec, Survey

ALL = "all"  # in place of a check, a dtype and a device: a candidate that was not built, none of which is known


class FailedRow(NamedTuple):
    """Which row did not pass."""

    op: str
    candidate: str
    check: str
    dtype: str
    device: str


def folder() -> Path:
    """Where it is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "gradparity", "last-failed")


def recall(source: Source) -> frozenset[FailedRow]:
    """What failed in the last run; nothing if nothing did, or if there was no run."""
    try:
        rows = json.loads(_file(source).read_text(encoding="utf-8"))["failed"]
        return frozenset(FailedRow(*row) for row in rows)
    except (OSError, ValueError, KeyError, TypeError):  # it is a cache: what cannot be read was never there
        return frozenset()


def remember(source: Source, op: str, report: Report) -> None:
    """Keep what has failed; of what was not judged in this run, what is known of an earlier one.

    Args:
        source: where the operator was found.
        op: its name, since a report may have several.
        report: of the run.

    Raises:
        OSError: it cannot be written.
    """
    before, judged, failed = recall(source), set[FailedRow](), set[FailedRow]()
    failing = {id(row) for row in report.failed}
    for row in report.rows:
        if row.op == op and row.candidate != ORACLE:
            of_row = FailedRow(op, row.candidate, row.check, row.dtype, row.device)
            judged |= {of_row, FailedRow(op, row.candidate, ALL, ALL, ALL)}
            failed |= {of_row} if id(row) in failing else set()
    broken = [each for each in report.not_built if not each.expected and each.op in ("", op)]
    failed |= {FailedRow(op, each.name, ALL, ALL, ALL) for each in broken}
    _keep(source, sorted(failed | (before - judged)))


def _keep(source: Source, failed: Sequence[FailedRow]) -> None:
    file = _file(source)
    if not failed:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"of": _identity(source), "failed": failed}) + "\n")


def _file(source: Source) -> Path:
    return folder() / f"{hashlib.sha256(_identity(source).encode()).hexdigest()[:32]}.json"


def _identity(source: Source) -> str:
    """What stays the same from one run to the next: the file, or what else it takes to find the source again."""
    place = source.file and os.path.realpath(source.file)
    return json.dumps([type(source).__name__, place or source.origin or source.command("")])


def rows_of(failed: Iterable[FailedRow], op: str, device: str) -> frozenset[tuple[str, str | None, str | None]]:
    """Those of an operator on a device, as `LastFailed` has them."""
    return frozenset(
        (row.candidate, None, None) if row.check == ALL else (row.candidate, row.check, row.dtype)
        for row in failed
        if row.op == op and row.device in (device, ALL)
    )


class Arranged(NamedTuple):
    """What is judged, once it is known what there is.

    Attributes:
        orders: of each source.
        length: the number of rows.
        message: a line that tells the user; empty if there is nothing to tell.
        partial: is something left out that passed?
    """

    orders: list[list[RunSpec]]
    length: int
    message: str = ""
    partial: bool = False


def arranged(found: Sequence[tuple[Survey, list[RunSpec]]], requested: bool) -> Arranged:
    """What is judged of what was found: all of it, or only what failed in the last run, if something did.

    Args:
        found: of each source the survey, and an order for each device that is there, with what failed.
        requested: was `--last-failed` given, so that it must be said if nothing failed?
    """
    whole = sum(survey.length * len(orders) for survey, orders in found)
    failed = sum(survey.failed[order.device][0] for survey, orders in found for order in orders)
    if not failed:
        plain = [[replace(order, last_failed=frozenset(), alone=False) for order in orders] for _, orders in found]
        message = "nothing of this failed in the last run: all of it is judged" if requested else ""
        return Arranged(plain, whole, message)
    rows = f"{failed} row{'' if failed == 1 else 's'}"
    if not any(order.alone for _, orders in found for order in orders):
        return Arranged([orders for _, orders in found], whole, f"first what failed in the last run: {rows}")
    alone = [[order for order in orders if survey.failed[order.device][0]] for survey, orders in found]
    length = sum(survey.failed[order.device][1] for survey, orders in found for order in orders)
    return Arranged(alone, length, f"only what failed in the last run is judged: {rows}", partial=True)
