"""A row as one line of a log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.printable import in_a_line
from parity_tests.harness.report.results import Row

_REASON = 160  # characters of a row's reason in a line; all of it comes at the end
_VERSIONS = ("gradparity", "python", "jax", "torch", "numpy", "platform", "seed")


def row_line(row: Row) -> Text:
    """The verdict, the largest error of a row that passes, and the beginning of the reason."""
    line = f"{_name(row)}: {row.verdict}"
    if row.verdict is Verdict.PASS:
        line += f" {row.error_over_bound:.2f}"
    reason = row.reason
    if row.failure is not None and not reason:
        wrong = row.failure.wrong[0]
        reason = f"{wrong.label} {wrong.pattern}"
    reason = reason.partition("\n")[0]
    line += f": {reason if len(reason) <= _REASON else reason[:_REASON] + '...'}" if reason else ""
    return Text(line)


def whole_row_line(row: Row) -> Text:
    """Everything about a row: its numbers, how long it took, the whole reason, and what else was found."""
    numbers = [f"{row.comparisons:,} comparisons"] if row.comparisons else []
    if row.comparisons and math.isfinite(row.error_over_bound):
        numbers.insert(0, f"error {row.error_over_bound:.3g} of the bound")
    numbers.append(f"{row.seconds:.2f} s")
    said = [f"{row.verdict}, {', '.join(numbers)}", *_said_of(row)]
    return Text(f"{_name(row)}: {'; '.join(in_a_line(part) for part in said)}")


def environment_line(environment: Mapping[str, Any]) -> Text:
    """The versions and the machine."""
    told = [f"{name} {environment[name]}" for name in _VERSIONS if environment.get(name) is not None]
    return Text(", ".join(told), style="dim")


def _said_of(row: Row) -> Iterator[str]:
    if row.reason:
        yield row.reason
    for wrong in row.failure.wrong if row.failure is not None and not row.reason else ():
        yield f"{wrong.label} {wrong.pattern}"
    yield from (f"a convention: {line}" for line in row.conventions)
    yield from row.proofs
    yield from (f"loses digits: {line}" for line in row.lost_digits)
    if row.linearized:
        yield f"linearized bounds: {', '.join(row.linearized)}"


def _name(row: Row) -> str:
    return f"{row.op}, {row.candidate}, {row.check}, {row.dtype}, {row.device}"
