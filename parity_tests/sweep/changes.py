"""The differences between two sweeps, and between a sweep and the discrepancies that are expected of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parity_tests.harness.data_files import Malformed, field, read_json
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.results_file import Results, read_results

TABLE = "table of gradparity sweep"
EXPECTED = "expected discrepancies of gradparity sweep"


@dataclass(frozen=True)
class Change:
    """A derivative whose verdict differs; None where there is none."""

    key: tuple[str, str, str, str]
    before: Verdict | None
    after: Verdict | None

    def __str__(self) -> str:
        """The change in a line: "new", "vanished" or "changed", and what it is about."""
        operator, mode, of, dtype = self.key
        where = f"{operator}, {mode} of {of}, {dtype}"
        if self.before is None:
            return f"new       {where}: {self.after}"
        if self.after is None:
            return f"vanished  {where}: {self.before}"
        return f"changed   {where}: {self.before} -> {self.after}"


def table_text(results: Results) -> str:
    """The whole table as JSON: schema 1, with every line."""
    lines = [line.as_json() for line in results.all_lines]
    header = results.header
    about = {"versions": header.versions, "options": header.options, "environment": header.environment}
    return json.dumps({"schema": 1, "kind": TABLE, **about, "lines": lines}, indent=1) + "\n"


def expected_text(results: Results) -> str:
    """The verdicts of the lines that do not agree, as JSON that is read line by line, without what varies between runs.

    Of each operator, by verdict, the derivatives: {"abs": {"overflows": ["vjp_of_vjp self complex128"]}}.
    """
    verdicts: dict[str, dict[str, list[str]]] = {}
    for line in sorted(discrepancies(results.all_lines), key=lambda line: line.key):
        of_operator = verdicts.setdefault(line.operator, {})
        of_operator.setdefault(str(line.verdict), []).append(f"{line.mode} {line.of} {line.dtype}")
    versions = {name: results.header.versions[name] for name in ("torch", "jax")}
    about = json.dumps({"schema": 2, "kind": EXPECTED, "versions": versions})
    rows = [f" {json.dumps(operator)}: {json.dumps(found)}" for operator, found in verdicts.items()]
    return about[:-1] + ', "verdicts": {\n' + ",\n".join(rows) + "\n}}\n"


def read_lines(path: Path) -> tuple[list[Line], bool]:
    """Return the lines of a file of results, a table or a file of expected discrepancies, and whether it has all.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none of these.
    """
    what = "a file of the results of a sweep"
    try:
        data = read_json(path, what)
    except Malformed as error:  # a file of results has several values, one in a line
        try:
            return read_results(path).all_lines, True
        except ValueError as of_results:
            raise of_results from error
    if not isinstance(data, dict):
        raise Malformed(f"{path} has no results of a sweep")
    if data.get("kind") not in (EXPECTED, TABLE):
        return read_results(path).all_lines, True
    try:
        if data["kind"] == TABLE:
            return field(data, "lines", list[Line]), True
        return list(_expected_lines(field(data, "verdicts", dict[str, dict[Verdict, list[str]]]))), False
    except Malformed as error:
        raise Malformed(f"{path}: not {what}: {error}") from error


def _expected_lines(verdicts: Mapping[str, Mapping[Verdict, Sequence[str]]]) -> Iterator[Line]:
    for operator, of_operator in verdicts.items():
        for verdict, derivatives in of_operator.items():
            for derivative in derivatives:
                parts = derivative.split(" ")
                if len(parts) != 3:
                    place = f"verdicts[{json.dumps(operator)}][{json.dumps(verdict)}]"
                    raise Malformed(f'{place} must be of "mode of dtype", and has {derivative[:40]!r}')
                mode, of, dtype = parts
                yield Line(operator, mode, of, dtype, verdict)


def changes(before: Iterable[Line], after: Iterable[Line]) -> list[Change]:
    """The derivatives whose verdicts differ, by their keys."""
    one, other = _verdicts(before), _verdicts(after)
    keys = sorted({*one, *other})
    return [Change(key, one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)]


def compared(before: Path, after: Path) -> list[Change]:
    """Return the differences between two files; if one has discrepancies only, only these are compared.

    Raises:
        OSError: one cannot be read.
        ValueError: one has no results of a sweep.
    """
    (one, has_all), (other, too) = read_lines(before), read_lines(after)
    return changes(one, other) if has_all and too else changes(discrepancies(one), discrepancies(other))


def unexpected(results: Results, expected: Sequence[Line], operators: Collection[str]) -> list[Change]:
    """The discrepancies that are new, have vanished or are others than expected, of what has been judged."""
    options = results.header.options
    of_interest = [
        line
        for line in expected
        if line.operator in operators and line.mode in options["modes"] and line.dtype in options["dtypes"]
    ]
    found = [line for line in results.all_lines if line.operator in operators]
    return changes(discrepancies(of_interest), discrepancies(found))


def discrepancies(lines: Iterable[Line]) -> list[Line]:
    """The lines that do not agree."""
    return [line for line in lines if line.verdict is not Verdict.AGREES]


def _verdicts(lines: Iterable[Line]) -> Mapping[tuple[str, str, str, str], Verdict]:
    return {line.key: line.verdict for line in lines}
