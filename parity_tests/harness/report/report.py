"""What a run found: rows, failures, the environment; as text, as JSON, as an exception."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.exceptions.explaining import explain
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.conclusions import conclusions
from parity_tests.harness.report.html import as_fragment, to_html
from parity_tests.harness.report.markdown import to_markdown
from parity_tests.harness.report.results import (
    ORACLE,
    AllRows,
    Event,
    Failure,
    Note,
    Row,
    WrongResult,
    failure_as_dict,
    result_from_dict,
    smallest_from_dict,
)
from parity_tests.harness.report.text import as_text, verdict_line

SCHEMA = 1


class ParityError(AssertionError):
    """A candidate did not agree with the oracle; the message is the report."""


@dataclass(repr=False)
class Report:
    """Every row of a run; what was skipped or not built, with the reasons; and, if it ended early, why.

    `seconds`: how long all of it took ("total"), and, of that, what came before the first row. `catches`: of each check
    that was run, the mistakes that it is there to catch. `allow_suspect`: whether SUSPECT counts as agreement.
    """

    environment: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    not_built: list[NotBuilt] = field(default_factory=list)
    error: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    catches: dict[str, str] = field(default_factory=dict)
    allow_suspect: bool = False

    def add(self, event: Event) -> None:
        """Add a row; or a note, or a candidate that is not built, unless it is there already; or put rows in order."""
        match event:
            case Row():
                self.rows.append(event)
            case NotBuilt():
                self.not_built.extend([event] if event not in self.not_built else [])
            case Note(text):
                self.skipped.extend([text] if text not in self.skipped else [])
            case AllRows(rows):
                self.rows[:] = rows

    @overload
    def collect(self, events: Iterable[Event]) -> Generator[Row, None, None]: ...

    @overload
    def collect(
        self, events: Iterable[Event | None], remaining: Callable[[], Iterable[Event]]
    ) -> Generator[Row | None, None, None]: ...

    def collect(
        self, events: Iterable[Event | None], remaining: Callable[[], Iterable[Event]] = tuple
    ) -> Generator[Row | None, None, None]:
        """Add events as they come, and yield the rows among them, each once it has been added.

        Args:
            events: None among them, which says that there is no event yet, is handed on.
            remaining: what else there is to add after the last event, also if this generator is closed before, or if an
                exception ends the events.
        """
        try:
            with contextlib.ExitStack() as stack:
                if isinstance(events, Generator):
                    stack.enter_context(contextlib.closing(events))
                for event in events:
                    if event is not None:
                        self.add(event)
                    if event is None or isinstance(event, Row):
                        yield event
        finally:
            for event in remaining():
                self.add(event)

    @property
    def passed(self) -> bool:
        """True if something ran and all of it agreed. Listed limits do not count against a candidate."""
        judged = [row for row in self.rows if row.candidate != ORACLE]
        agree = any(row.verdict is Verdict.PASS for row in judged) and not self.failed
        return agree and self.error is None and all(candidate.expected for candidate in self.not_built)

    @property
    def failed(self) -> list[Row]:
        """The rows that do not pass."""
        allowed = (Verdict.SUSPECT,) if self.allow_suspect else ()
        return [row for row in self.rows if not row.passed and row.verdict not in allowed]

    @property
    def failures(self) -> list[Failure]:
        """The diagnosed failures."""
        return [row.failure for row in self.rows if row.failure is not None]

    def save_failures(self, folder: str | os.PathLike[str], start: str | os.PathLike[str] = "") -> None:
        """Write a reproducer of every failure that was shrunk: of each check, in the first dtype in which it fails.

        A failure of which none can be made says why. `start`: see `Failure.save`.

        Raises:
            OSError: the folder, or a file in it, cannot be written. The other failures' files are written.
        """
        unwritten: list[OSError] = []
        for i, row in enumerate(self.rows):
            if row.failure is not None and row.failure.evidence is not None and row.failure.script is None:
                failure, error = _saved(row.failure, folder, start)
                self.rows[i] = dataclasses.replace(row, failure=failure)
                unwritten.extend([error] if error is not None else [])
        if unwritten:
            raise unwritten[0]

    @property
    def exit_code(self) -> int:
        """0: all agree; 1: a candidate disagrees, is suspect, or refuses what no limit lists; 2: one was not judged."""
        if self.passed:
            return 0
        disagree = (Verdict.MISMATCH, Verdict.SUSPECT, Verdict.UNSUPPORTED)
        found = any(row.verdict in disagree for row in self.failed if row.candidate != ORACLE)
        return 1 if found and self.error is None else 2

    def raise_if_failed(self) -> None:
        """Raise `ParityError`, with the report as its message, unless everything agreed."""
        if not self.passed:
            raise ParityError(str(self))

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        ops = ", ".join(dict.fromkeys(row.op for row in self.rows))
        return f"<Report of {ops or 'nothing'}: {verdict_line(self).plain}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the report in HTML, with styles that are nested in a class of their own."""
        return as_fragment(self)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, schema 1. A number that is not finite becomes None, a complex one a pair.

        The `failure` of a row is the place of its diagnosis among the `failures`, or None. The `summary` has a record
        for each candidate, see `conclusions`; it follows from the rows.
        """
        places = itertools.count()
        rows = [
            {**dataclasses.asdict(dataclasses.replace(row, failure=None)), "failure": row.failure and next(places)}
            for row in self.rows
        ]
        return _plain(
            {
                "schema": SCHEMA,
                "passed": self.passed,
                "environment": self.environment,
                "skipped": self.skipped,
                "not_built": [dataclasses.asdict(candidate) for candidate in self.not_built],
                "error": self.error,
                "seconds": self.seconds,
                "catches": self.catches,
                "allow_suspect": self.allow_suspect,
                "summary": conclusions(self),
                "rows": rows,
                "failures": [failure_as_dict(failure) for failure in self.failures],
            }
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """The report that `as_dict` was made from; a number that was not finite comes back as infinity."""
        failures = []
        for item in data["failures"]:
            wrong = tuple(WrongResult(**result_from_dict(result)) for result in item["wrong"])
            fields = {"wrong": wrong, "smallest": smallest_from_dict(item.get("smallest"))}
            fields |= {name: tuple(item.get(name, ())) for name in ("agrees", "unexplained")}
            failures.append(Failure(**item | fields))
        rows = []
        for item in data["rows"]:
            place = item["failure"]
            error = math.inf if item["error_over_bound"] is None else item["error_over_bound"]
            failure = None if place is None else failures[place]
            fields = {"verdict": Verdict(item["verdict"]), "error_over_bound": error, "failure": failure}
            fields |= {name: tuple(item.get(name, ())) for name in ("conventions", "lost_digits", "unseen")}
            rows.append(Row(**item | fields))
        not_built = [NotBuilt(**item) for item in data["not_built"]]
        return cls(
            environment=data["environment"],
            rows=rows,
            skipped=list(data["skipped"]),
            not_built=not_built,
            error=data["error"],
            seconds=data.get("seconds", {}),
            catches=data.get("catches", {}),
            allow_suspect=data.get("allow_suspect", False),
        )

    @classmethod
    def merged(cls, reports: Sequence[Report]) -> Report:
        """One report of several."""
        return cls(
            environment=reports[0].environment if reports else {},
            rows=[row for report in reports for row in report.rows],
            skipped=list(dict.fromkeys(line for report in reports for line in report.skipped)),
            not_built=list(dict.fromkeys(candidate for report in reports for candidate in report.not_built)),
            error="; ".join(report.error for report in reports if report.error) or None,
            catches={check: text for report in reports for check, text in report.catches.items()},
            allow_suspect=bool(reports) and all(report.allow_suspect for report in reports),
        )

    def as_json(self) -> str:
        """`as_dict()` as text."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write `as_dict()` to a file, whole or not at all."""
        write_text(path, self.as_json())

    def to_markdown(self, path: str | os.PathLike[str]) -> None:
        """Write the report as Markdown that fits the thread of an issue, whole or not at all."""
        to_markdown(self, path)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one self-contained HTML file, whole or not at all."""
        to_html(self, path)


def _saved(
    failure: Failure, folder: str | os.PathLike[str], start: str | os.PathLike[str]
) -> tuple[Failure, OSError | None]:
    """A failure with its reproducer; without, if none can be made of it, or if its files cannot be written, and why."""

    def save() -> tuple[Failure, OSError | None]:
        try:
            return failure.save(folder, start), None
        except OSError as error:
            return failure, error

    saved = explain("the reproducer", save)
    if saved.value is not None:
        return saved.value
    lines = (*failure.unexplained, *saved.unexplained)
    return dataclasses.replace(failure, evidence=None, unexplained=lines), None


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(value) for value in x]
    if isinstance(x, complex):
        return _plain([x.real, x.imag])
    if isinstance(x, float) and not math.isfinite(x):
        return None
    return str(x) if isinstance(x, Verdict) else x
