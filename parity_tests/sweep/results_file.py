"""The file of a sweep's results: a line of JSON for each operator, below a header, whole at every moment.

An operator's results are written at once, when it is judged. Of a run that was killed the last line may be torn: it
does not count, and is removed when the run goes on.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from parity_tests.harness.data_files import Malformed, built, parsed_json
from parity_tests.harness.data_files import field as field_of
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import Line
from parity_tests.sweep.sharding import Shard

_KIND = "results of gradparity sweep"
_WHAT = "a result of a sweep"
_PACKAGES = ("gradparity", "torch", "jax", "jaxlib", "numpy")


@dataclass(frozen=True)
class Header:
    """The versions, options and environment that the results of a sweep depend on.

    Attributes:
        versions: of the packages.
        options: modes, dtypes, limits.
        environment: the rest, in which two runs may differ: date, Python, machine.
    """

    versions: Mapping[str, str]
    options: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls, modes: Sequence[str], dtypes: Sequence[str], limits: Limits, third_order_of_norms: bool = False
    ) -> Self:
        """The header of a run in this environment; `third_order_of_norms`: of other operators there is none."""
        environment = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "platform": platform.platform(),
        }
        options = {"modes": [*modes], "dtypes": [*dtypes], "seconds": limits.seconds, "memory": limits.memory}
        if third_order_of_norms:
            options["third_order"] = "of norms"
        return cls({name: _version(name) for name in _PACKAGES}, options, environment)

    def of_part(self, part: str, operators: int) -> Header:
        """The header of a run of so many operators; `part`: "2/5", or empty if it is none of several."""
        return replace(self, environment={**self.environment, "part": part, "operators": str(operators)})

    def missing(self, judged: Sized) -> str:
        """Say which parts, or how many operators, a file does not have; empty if it has all that it was begun for."""
        parts, operators = self.environment.get("part", "").split(), self.environment.get("operators", "")
        if not operators:
            return "a file does not say how many operators it was begun for, as one of an earlier version"
        known = {Shard.parse(part) for part in parts}
        whole = {Shard(i, one.count) for one in known for i in range(1, one.count + 1)}
        absent = sorted(map(str, whole - known))
        if absent:
            return f"--shard {', '.join(absent)} of the sweep {'is' if len(absent) == 1 else 'are'} not among the files"
        left = int(operators) - len(judged)
        return f"{left} operators were not judged; go on with their file by --resume" if left > 0 else ""

    def difference(self, other: Header) -> str:
        """In which versions and options another header differs, in words; "" if in none."""
        mine, its = ({**header.versions, **header.options} for header in (self, other))
        names = dict.fromkeys([*mine, *its])
        return "; ".join(
            f"{n} {_text(mine.get(n))} and {_text(its.get(n))}" for n in names if mine.get(n) != its.get(n)
        )


@dataclass(frozen=True)
class Results:
    """The contents of a file of results: its header, and the lines of each operator."""

    header: Header
    lines: Mapping[str, Sequence[Line]]

    @property
    def all_lines(self) -> list[Line]:
        """The lines of all operators, by their keys."""
        return sorted((line for lines in self.lines.values() for line in lines), key=lambda line: line.key)

    def as_jsonl(self) -> str:
        """The text of the file, by operator."""
        return "".join([_header_text(self.header), *(_record(name, self.lines[name]) for name in sorted(self.lines))])


def read_results(path: Path) -> Results:
    """Return what a file has, without a torn last line.

    Raises:
        OSError: it cannot be read.
        ValueError: it has no such results, or two for one operator.
    """
    return _parsed(path, path.read_bytes())[0]


def merged(paths: Sequence[Path]) -> Results:
    """Return the results of several files, such as those of the shards of a sweep.

    Raises:
        OSError: one cannot be read.
        ValueError: they are of different versions or options, or have different verdicts on one derivative.
    """
    first, *others = [(path, read_results(path)) for path in paths]
    lines, source = dict(first[1].lines), dict.fromkeys(first[1].lines, first[0])
    for path, results in others:
        difference = first[1].header.difference(results.header)
        if difference:
            raise ValueError(f"{first[0]} and {path} cannot be merged: {difference}")
        for operator, its in results.lines.items():
            if operator in lines and not _equal(lines[operator], its):
                raise ValueError(f"{source[operator]} and {path} differ on {operator}")
            lines.setdefault(operator, its)
            source.setdefault(operator, path)
    headers = [first[1].header, *(results.header for _, results in others)]
    return Results(_of_all(headers, len(lines)), lines)


def _of_all(headers: Sequence[Header], judged: int) -> Header:
    """The header of several files; what two of them have is counted once."""
    environments = [header.environment for header in headers]
    if not all("operators" in environment for environment in environments):
        environment = {key: text for key, text in headers[0].environment.items() if key not in ("part", "operators")}
        return replace(headers[0], environment=environment)
    parts = dict.fromkeys(part for environment in environments for part in environment["part"].split())
    counts = [int(environment["operators"]) for environment in environments]
    total = sum(counts) if parts else max(*counts, judged)
    return headers[0].of_part(" ".join(parts), total)


class ResultsFile:
    """A file of results that is being written; nobody else may write to it meanwhile.

    Attributes:
        path: where it is.
        lines: those of each operator that has been judged, earlier or now.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Begin a file, or go on with the one that is there.

        Raises:
            OSError: it cannot be written.
            ValueError: what is there is no file of results, is of other versions or options, or is being written.
        """
        if not path.exists() or path.stat().st_size == 0:
            write_text(path, _header_text(header))
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            _lock(self._descriptor, path)
            results, length = _parsed(path, path.read_bytes())
            difference = results.header.difference(header)
            if difference:
                raise ValueError(f"{path} cannot be gone on with, since there and here differ: {difference}")
            os.ftruncate(self._descriptor, length)
        except BaseException:
            os.close(self._descriptor)
            raise
        self.path, self.header, self.lines = path, results.header, dict(results.lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def append(self, operator: str, lines: Sequence[Line]) -> None:
        """Write the lines of an operator that the file does not have.

        Raises:
            OSError: they cannot be written.
            ValueError: it has this operator.
        """
        if operator in self.lines:
            raise ValueError(f"{self.path} has {operator} already")
        data = _record(operator, lines).encode()
        if os.write(self._descriptor, data) != len(data):
            raise OSError(f"{self.path} cannot be written: the disk is full")
        self.lines[operator] = list(lines)

    def results(self) -> Results:
        """The results that the file has now."""
        return Results(self.header, dict(self.lines))


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # gradparity, run from a checkout that is not installed
        return "not installed"


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _header_text(header: Header) -> str:
    return json.dumps({"kind": _KIND, "schema": 1, **dataclasses.asdict(header)}) + "\n"


def _record(operator: str, lines: Sequence[Line]) -> str:
    return json.dumps({"operator": operator, "lines": [line.as_json() for line in lines]}) + "\n"


def _parsed(path: Path, data: bytes) -> tuple[Results, int]:
    """The results, and how many bytes of the file have them."""
    length = data.rfind(b"\n") + 1
    first, *others = data[:length].split(b"\n")
    try:
        about = parsed_json(first, f"{path}:1", _WHAT)
        header = built(Header, about)
        if about.get("kind") != _KIND or about.get("schema") != 1:
            raise Malformed("it is of another kind")
    except Malformed as error:
        raise ValueError(f"{path} is no file of results of a sweep: {error}") from error
    lines: dict[str, list[Line]] = {}
    for number, text in enumerate(others[:-1], 2):
        try:
            record = parsed_json(text, f"{path}:{number}", _WHAT)
            operator, its = field_of(record, "operator", str), field_of(record, "lines", list[Line])
        except Malformed as error:
            raise ValueError(f"{path}:{number} is no result of a sweep: {error}") from error
        if operator in lines:
            raise ValueError(f"{path}:{number} has {operator} again")
        if not its or any(line.operator != operator for line in its):
            whose = "lines of another operator" if its else "no line"
            raise ValueError(f"{path}:{number} has {whose} for {operator}, which was not judged: remove that line")
        lines[operator] = its
    return Results(header, lines), length


def _equal(some: Sequence[Line], others: Sequence[Line]) -> bool:
    """The same, but for the time that it took."""
    return {replace(line, seconds=0.0) for line in some} == {replace(line, seconds=0.0) for line in others}


def _lock(descriptor: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # on Windows
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(f"{path} is being written by another run") from error
