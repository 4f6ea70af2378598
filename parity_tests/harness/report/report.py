"""What a run found: rows, failures, the environment; as text, as JSON, as an exception."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.exceptions.explaining import explain
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.reproducer_files import ReproducerFiles
from parity_tests.harness.report.whole_file import write_text

SCHEMA = 1
ORACLE = "oracle"


class ParityError(AssertionError):
    """A candidate did not agree with the oracle; the message is the report."""


@dataclass(frozen=True)
class WrongResult:
    """One result that is wrong, or one property that does not hold.

    `candidate`, `oracle`: their values at `index`, floats unless the result is complex.
    `heat`: the error of every entry in units of its bound, as rows and columns; of a large result, of its blocks.
    """

    label: str
    pattern: str
    circumstance: str = ""
    index: tuple[int, ...] | None = None
    candidate: complex | None = None
    oracle: complex | None = None
    error: float | None = None
    allowed: float | None = None
    looks_like: str | None = None
    equation: str | None = None
    heat: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True)
class Smallest:
    """The smallest input that was found at which the same check fails, and what is wrong there.

    `entries`: what each cotangent, tangent and input is, in words; what is not there is 0.
    """

    sizes: Mapping[str, int]
    entries: Mapping[str, str]
    wrong: WrongResult


class Evidence(Protocol):
    """What a failure can be shown with, while the candidate is still at hand: see `reproducer.py`."""

    def files(self) -> ReproducerFiles:
        """The arrays and the script as plain data, which needs the candidate no longer."""
        ...

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the arrays and a script that needs no harness; returns the path of the arrays."""
        ...

    def command(self, arrays: Path, start: Path) -> str:
        """The command that judges it again, in the folder `start`, by the path of the arrays."""
        ...


@dataclass(frozen=True)
class Failure:
    """The diagnosis of one failing row, on the first sample that shows it.

    `unexplained`: a line for each explanation that raised an exception itself. `log`: the last lines that PyTorch
    logged while the check ran.
    """

    op: str
    candidate: str
    check: str
    dtype: str
    device: str
    sample: str
    why: str
    sizes: Mapping[str, int]
    seed: int
    wrong: tuple[WrongResult, ...]
    agrees: tuple[str, ...] = ()
    judge: str | None = None
    replay: str | None = None
    smallest: Smallest | None = None
    script: str | None = None
    unexplained: tuple[str, ...] = ()
    log: str = ""
    evidence: Evidence | None = field(default=None, compare=False, repr=False)

    def save(self, folder: str | os.PathLike[str], start: str | os.PathLike[str] = "") -> Failure:
        """Write a reproducer into a folder, which is made if need be: an .npz of arrays, a script, and PyTorch's log.

        The script calls PyTorch: there is none for a candidate of another framework. `start`: where a relative `folder`
        begins, if that is not the current one, to which a candidate may have changed.

        Returns:
            The same failure, whose `replay` and `script` say where they are.

        Raises:
            ValueError: the failure was read from a file, so that there is no candidate to reproduce it with.
        """
        if self.evidence is None:
            raise ValueError(f"{self.op}, {self.candidate}, {self.check}: no reproducer can be made of this failure")
        arrays = self.evidence.save(Path(start, folder))
        if self.log:
            write_text(arrays.with_suffix(".log"), self.log + "\n")
        told = Path(folder, arrays.name)
        replay = self.evidence.command(told, Path(start))
        script = str(told.with_suffix(".py")) if arrays.with_suffix(".py").exists() else None
        return dataclasses.replace(self, replay=replay, script=script)


@dataclass(frozen=True)
class Row:
    """One candidate under one check in one dtype on one device.

    `comparisons` counts the entries (and properties) that could have told a wrong answer; `error_over_bound` is the
    largest error in units of what rounding explains, infinite where rounding explains nothing. `listed`: an UNSUPPORTED
    that was expected; `declared`: by the means of the candidate's author, and not by `limits`. `conventions`: where the
    candidate has another derivative than the oracle has at a kink, and is right.
    """

    op: str
    candidate: str
    check: str
    dtype: str
    device: str
    verdict: Verdict
    error_over_bound: float
    comparisons: int
    reason: str = ""
    listed: bool = False
    seconds: float = 0.0
    conventions: tuple[str, ...] = ()
    failure: Failure | None = None
    declared: bool = False

    @property
    def passed(self) -> bool:
        """PASS, or a limit that is listed, or a check that does not apply."""
        return self.verdict in (Verdict.PASS, Verdict.SKIPPED) or (self.verdict is Verdict.UNSUPPORTED and self.listed)


@dataclass
class Report:
    """Every row of a run; what was skipped or not built, with the reasons; and, if it ended early, why.

    `seconds`: how long all of it took ("total"), and, of that, what came before the first row.
    """

    environment: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    not_built: list[NotBuilt] = field(default_factory=list)
    error: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Did something run, and did all of it agree? Listed limits do not count against a candidate."""
        judged = [row for row in self.rows if row.candidate != ORACLE]
        agree = any(row.verdict is Verdict.PASS for row in judged) and all(row.passed for row in self.rows)
        return agree and self.error is None and all(candidate.expected for candidate in self.not_built)

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
                self.rows[i] = dataclasses.replace(row, failure=_saved(row.failure, folder, start, unwritten))
        if unwritten:
            raise unwritten[0]

    @property
    def exit_code(self) -> int:
        """0: all agree; 1: a candidate disagrees, or refuses what no limit lists; 2: something could not be judged."""
        if self.passed:
            return 0
        disagree = (Verdict.MISMATCH, Verdict.UNSUPPORTED)
        found = any(row.verdict in disagree and not row.passed for row in self.rows if row.candidate != ORACLE)
        return 1 if found and self.error is None else 2

    def raise_if_failed(self) -> None:
        """Raise `ParityError`, with the report as its message, unless everything agreed."""
        if not self.passed:
            raise ParityError(str(self))

    def __str__(self) -> str:
        from parity_tests.harness.report.render import as_text  # the renderer needs the classes of this file

        return as_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, schema 1. A number that is not finite becomes None, a complex one a pair.

        The `failure` of a row is the place of its diagnosis among the `failures`, or None.
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
                "rows": rows,
                "failures": [_as_dict(failure) for failure in self.failures],
            }
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """The report that `as_dict` was made from; a number that was not finite comes back as infinity."""
        failures = []
        for item in data["failures"]:
            wrong = tuple(WrongResult(**_restored(result)) for result in item["wrong"])
            fields = {"wrong": wrong, "smallest": _smallest(item.get("smallest"))}
            fields |= {name: tuple(item.get(name, ())) for name in ("agrees", "unexplained")}
            failures.append(Failure(**item | fields))
        rows = []
        for item in data["rows"]:
            place = item["failure"]
            error = math.inf if item["error_over_bound"] is None else item["error_over_bound"]
            failure = None if place is None else failures[place]
            fields = {"verdict": Verdict(item["verdict"]), "error_over_bound": error, "failure": failure}
            rows.append(Row(**item | fields | {"conventions": tuple(item["conventions"])}))
        not_built = [NotBuilt(**item) for item in data["not_built"]]
        return cls(data["environment"], rows, list(data["skipped"]), not_built, data["error"], data.get("seconds", {}))

    @classmethod
    def merged(cls, reports: Sequence[Report]) -> Report:
        """One report of several."""
        return cls(
            environment=reports[0].environment if reports else {},
            rows=[row for report in reports for row in report.rows],
            skipped=list(dict.fromkeys(line for report in reports for line in report.skipped)),
            not_built=list(dict.fromkeys(candidate for report in reports for candidate in report.not_built)),
            error="; ".join(report.error for report in reports if report.error) or None,
        )

    def as_json(self) -> str:
        """`as_dict()` as text."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write `as_dict()` to a file, whole or not at all."""
        write_text(path, self.as_json())

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one self-contained HTML file, whole or not at all."""
        from parity_tests.harness.report.html import to_html  # the renderer needs the classes of this file

        to_html(self, path)


def _saved(
    failure: Failure, folder: str | os.PathLike[str], start: str | os.PathLike[str], unwritten: list[OSError]
) -> Failure:
    """A failure with its reproducer; without, if none can be made of it, or if its files cannot be written."""

    def save() -> Failure:
        try:
            return failure.save(folder, start)
        except OSError as error:
            unwritten.append(error)
            return failure

    lost: list[str] = []
    saved = explain("the reproducer", save, lost)
    if saved is not None:
        return saved
    return dataclasses.replace(failure, evidence=None, unexplained=(*failure.unexplained, *lost))


def _as_dict(failure: Failure) -> dict[str, Any]:
    fields = dataclasses.asdict(dataclasses.replace(failure, evidence=None))
    del fields["evidence"]
    return fields


def _smallest(data: Mapping[str, Any] | None) -> Smallest | None:
    return None if data is None else Smallest(**{**data, "wrong": WrongResult(**_restored(data["wrong"]))})


def _restored(result: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a WrongResult, from JSON: tuples for lists, infinity for None in a heat map, complex for a pair."""
    index, heat = result["index"], result["heat"]
    values = {
        side: complex(*(math.inf if part is None else part for part in result[side]))
        for side in ("candidate", "oracle")
        if isinstance(result[side], list)
    }
    if heat is not None:
        heat = tuple(tuple(math.inf if ratio is None else ratio for ratio in line) for line in heat)
    return {**result, **values, "index": None if index is None else tuple(index), "heat": heat}


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
