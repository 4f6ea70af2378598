"""The files that a command writes its report to: checked before anything is judged, and whole at every moment."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from parity_tests.harness.report.atomic_file import is_endless_link, is_special, write_text

_BEGINNINGS = {
    "--json": ("{",),
    "--html": ("<!doctype html", "<html"),
    "--markdown": ("<!-- gradparity -->",),
    "--junit": ("<?xml", "<testsuite"),
    "--gradparity-json": ("{",),
    "--gradparity-html": ("<!doctype html", "<html"),
    "--output": ("{",),  # of a sweep
    "--save-expected": ("{",),
}
_LOOKED_AT = 200  # characters of a file that would be replaced


@dataclass(frozen=True)
class ReportFile:
    """A file for a report.

    Attributes:
        option: by which it was named: "--json", ...; see `_BEGINNINGS`.
        given: its name, as it was given.
        path: the same from the root, since a candidate may change to another folder; None for standard output.
    """

    option: str
    given: str
    path: Path | None

    @classmethod
    def of(cls, option: str, given: Path | None) -> ReportFile | None:
        """The file that an option names.

        Raises:
            ValueError: a report cannot be written there, or what is there is no report, and would be lost.
        """
        if given is None:
            return None
        if str(given) == "-" or _is_standard_output(given):
            return cls(option, str(given), None)
        if not given.parent.is_dir():
            raise ValueError(f"{option} {given}: there is no folder {given.parent}")
        if is_endless_link(given):
            raise ValueError(f"{option} {given}: is a link that leads to itself; remove it, or give another name")
        if given.is_dir():
            raise ValueError(f"{option} {given}: is a directory; give the name of a file")
        if given.is_file() and not _may_be_replaced(given, _BEGINNINGS[option]):
            raise ValueError(f"{option} {given}: already exists and is not a report; give another name, or remove it")
        return cls(option, str(given), given.absolute())

    @property
    def kept(self) -> bool:
        """True if the file can be written again and again, each time in place of its contents."""
        return self.path is not None and not is_special(self.path)

    def write(self, text: str) -> None:
        """Write it.

        Raises:
            OSError: it cannot be written.
        """
        if self.path is not None:
            write_text(self.path, text)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()


class ReportFiles(NamedTuple):
    """The files for a report in each of its forms; None for a form that nobody asked for."""

    json: ReportFile | None = None
    html: ReportFile | None = None
    markdown: ReportFile | None = None
    junit: ReportFile | None = None


def report_files(
    json: Path | None, html: Path | None, markdown: Path | None = None, junit: Path | None = None
) -> ReportFiles:
    """The files of all options.

    Raises:
        ValueError: see `ReportFile.of`; or two options name the same one.
    """
    given = {"--json": json, "--html": html, "--markdown": markdown, "--junit": junit}
    files = ReportFiles(*(ReportFile.of(option, path) for option, path in given.items()))
    places: dict[str | None, ReportFile] = {}
    for file in files:
        if file is None:
            continue
        other = places.setdefault(_place(file), file)
        if other is not file:
            raise ValueError(f"{other.option} {other.given} and {file.option} {file.given} are the same file; give two")
    return files


def empty_report(error: str) -> str:
    """The JSON of a report in which nothing is judged yet, so that it does not pass; see `Report.as_dict`."""
    data: dict[str, Any] = {
        "schema": 1,
        "passed": False,
        "environment": {},
        "skipped": [],
        "not_built": [],
        "summary": [],
    }
    return json.dumps(data | {"error": error, "rows": [], "failures": []}, indent=1) + "\n"


def _place(file: ReportFile) -> str | None:
    return None if file.path is None else os.path.realpath(file.path)


def _may_be_replaced(path: Path, beginnings: tuple[str, ...]) -> bool:
    """True if a file is empty, or begins as a report does."""
    with path.open(encoding="utf-8", errors="replace") as file:
        beginning = file.read(_LOOKED_AT).lstrip().lower()
    if not beginning:
        return True
    return beginning.startswith(beginnings) and (beginnings[0] != "{" or '"schema"' in beginning)


def _is_standard_output(path: Path) -> bool:
    """/dev/stdout, by whatever name: what is printed goes to the same place, in the same order."""
    try:
        there, out = os.stat(path), os.fstat(1)
    except OSError:
        return False
    return os.path.samestat(there, out) and os.path.realpath(path) != os.path.realpath(os.devnull)
