"""The report of a run: rows, failures, the environment; as text, as JSON, as an exception."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from parity_tests.harness.candidates.definition import Definition
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.data_files import Malformed, built
from parity_tests.harness.data_files import field as field_of
from parity_tests.harness.exceptions.explaining import explain
from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.conclusions import conclusions
from parity_tests.harness.report.judged import unjudged
from parity_tests.harness.report.lines_of_failures import what_is_wrong
from parity_tests.harness.report.markdown import to_markdown
from parity_tests.harness.report.results import (
    ORACLE,
    AllRows,
    Event,
    Failure,
    Note,
    Row,
    WrongResult,
    contradiction,
    failure_as_dict,
)
from parity_tests.harness.report.table import SHORT
from parity_tests.harness.report.text import as_text, verdict_line

SCHEMA = 1


class ParityError(AssertionError):
    """A candidate did not agree with the oracle; the message is the first failure in a line, and the report."""

    __module__ = "gradparity"  # where users import it from: pytest's summary begins with this name


@dataclass(repr=False)
class Report:
    """Every row of a run; what was skipped or not built, with the reasons; and, if it ended early, why.

    `seconds`: how long all of it took ("total"), and, of that, what came before the first row. `catches`: of each check
    that was run, the mistakes that it is there to catch. `allow_suspect`: whether SUSPECT counts as agreement.
    `definitions`: the file and the line of each candidate, as far as they are known.
    """

    environment: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    not_built: list[NotBuilt] = field(default_factory=list)
    error: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    catches: dict[str, str] = field(default_factory=dict)
    allow_suspect: bool = False
    definitions: list[Definition] = field(default_factory=list)

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
        """True if something ran and all of it agreed. Listed limits do not count against a candidate.

        A candidate that refuses every derivative that was asked of it has not been judged: see `report.judged`.
        """
        judged = [row for row in self.rows if row.candidate != ORACLE]
        agree = any(row.verdict in AGREE for row in judged) and not self.failed and not unjudged(self.rows)
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
        return 1 if found else 2

    def raise_if_failed(self) -> None:
        """Raise `ParityError`, with the first failure in a line and the report, unless everything agreed."""
        __tracebackhide__ = True  # of pytest: the message says more
        if not self.passed:
            first = "".join(f"{row.check}: {what_is_wrong(row)}\n\n" for row in self.failed[:1])
            raise ParityError(f"{first}{self}")

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        ops = ", ".join(dict.fromkeys(row.op for row in self.rows))
        return f"<Report of {ops or 'nothing'}: {verdict_line(self).plain}>"

    def _repr_html_(self) -> str:
        """Return the report in HTML for a notebook, with styles that are nested in a class of their own."""
        from parity_tests.harness.report.html import as_fragment  # its templates take a sixth of a second to import

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
                "definitions": [dataclasses.asdict(definition) for definition in self.definitions],
                "summary": [dataclasses.asdict(conclusion) for conclusion in conclusions(self)],
                "rows": rows,
                "failures": [failure_as_dict(failure) for failure in self.failures],
            }
        )

    @classmethod
    def from_dict(cls, data: Any) -> Report:
        """The report that `as_dict` was made from; a number that was not finite comes back as infinity.

        Of rows that are there more than once it has a line that says so.

        Raises:
            Malformed: the data are not those of a report of this schema; names the place.
        """
        if (schema := field_of(data, "schema", Any)) != SCHEMA:
            raise Malformed(f"a report of schema {str(schema)[:20]}, and this version reads {SCHEMA}")
        failures = field_of(data, "failures", list[Failure])
        for i, failure in enumerate(failures):
            if not failure.wrong:
                raise Malformed(f"failures[{i}].wrong must be a list of one result or more, and is empty")
            _check_shown(failure.dtype, (*failure.wrong, *_smallest(failure)), f"failures[{i}]")
        rows = []
        for i, item in enumerate(field_of(data, "rows", list[dict[str, Any]])):
            place = field_of(item, "failure", int | None, f"rows[{i}]")
            if place is not None and not 0 <= place < len(failures):
                raise Malformed(f"rows[{i}].failure must be one of the {len(failures)} failures, and is {place}")
            row = built(Row, item | {"failure": None}, f"rows[{i}]")
            _check_shown(row.dtype, (), f"rows[{i}]")
            _check_numbers(row, f"rows[{i}]")
            rows.append(replace(row, failure=None if place is None else failures[place]))
        optional: Mapping[str, tuple[Any, Any]] = {
            "seconds": (dict[str, float], {}),
            "catches": (dict[str, str], {}),
            "allow_suspect": (bool, False),
            "definitions": (list[Definition], []),
        }
        report = cls(
            environment=field_of(data, "environment", dict[str, Any]),
            rows=rows,
            skipped=list(dict.fromkeys([*field_of(data, "skipped", list[str]), *_repeated(rows)])),
            not_built=field_of(data, "not_built", list[NotBuilt]),
            error=field_of(data, "error", str | None),
            **{name: field_of({name: default} | data, name, kind) for name, (kind, default) in optional.items()},
        )
        if not field_of(data, "passed", bool) and report.passed:
            raise Malformed("says that it did not pass, and no row of it fails: rows are missing")
        return report

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
            definitions=[*{(d.op, d.candidate): d for report in reports for d in report.definitions}.values()],
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
        from parity_tests.harness.report.html import to_html

        to_html(self, path)


def _smallest(failure: Failure) -> tuple[WrongResult, ...]:
    return () if failure.smallest is None else (failure.smallest.wrong,)


def _check_shown(dtype: str, wrong: Sequence[WrongResult], place: str) -> None:
    """Raise Malformed if a format has no name that is known, or a heat map is no rectangle: they cannot be shown."""
    if dtype not in SHORT:
        raise Malformed(f"{place}.dtype must be one of {', '.join(SHORT)}, and is {dtype[:40]!r}")
    for i, result in enumerate(wrong):
        if result.heat is not None and (not result.heat or len({*map(len, result.heat), 0}) != 2):
            raise Malformed(f"{place}.wrong[{i}].heat must be rows of one length")


def _check_numbers(row: Row, place: str) -> None:
    """Raise Malformed for numbers that gradparity writes in no row, such as those by which no candidate passes."""
    if not 0 <= row.seconds < math.inf:
        raise Malformed(f"{place}.seconds must be a number from 0 on, and is {row.seconds:g}")
    if (found := contradiction(row)) is not None:
        name, expected = found
        raise Malformed(f"{place}.{name} must be {expected} in a row that passes, and is {getattr(row, name):g}")


def _repeated(rows: Sequence[Row]) -> list[str]:
    """A line if rows are there twice, as in a report of several calls, or in one that somebody has edited."""
    counts = Counter((row.op, row.candidate, row.check, row.dtype, row.device) for row in rows)
    twice = [key for key, count in counts.items() if count > 1]
    return [f"{len(twice)} rows are there more than once, such as {', '.join(twice[0])}: all count"] if twice else []


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
