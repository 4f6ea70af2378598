"""Judge published functions by their case files, and compare the verdicts with those that are expected."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from parity_tests.gallery.verdicts import ROOT, Published, expected, record


def report_on(published: Published, quick: bool) -> Mapping:
    """Return the report of `gradparity check` on a case, in a process of its own, as its user would run it.

    Raises:
        RuntimeError: there is none; the message has what the command has said.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        command = [sys.executable, "-m", "gradparity", "check", str(published.file), "--json", str(path)]
        environment = ["--quick"] if quick else []
        ended = subprocess.run([*command, *environment], cwd=ROOT, capture_output=True, text=True, check=False)
        if not path.is_file() or not path.stat().st_size:
            raise RuntimeError(f"{published.case}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return json.loads(path.read_text(encoding="utf-8"))


def chosen(published: Sequence[Published], names: Sequence[str], tenth: int | None) -> list[Published]:
    """Return the functions of these names, all without one; of a tenth every tenth that is not judged by hand.

    Raises:
        typer.BadParameter: there is no case of a name.
    """
    unknown = sorted(set(names) - {each.case for each in published})
    if unknown:
        raise typer.BadParameter(f"no case {unknown[0]!r}; there are {', '.join(each.case for each in published)}")
    named = [each for each in published if not names or each.case in names]
    return named if tenth is None else [each for each in named if not each.by_hand][tenth % 10 :: 10]


def requirements(published: Sequence[Published], alone: bool) -> list[str]:
    """Return what is installed for these cases, each requirement once: with what it requires itself, or `alone`."""
    if alone:
        return [f"{each.package}=={each.version}" for each in published if each.alone]
    needed = [each.requires if each.alone else each.requirements for each in published]
    return list(dict.fromkeys(requirement for several in needed for requirement in several))


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Names of cases; all by default.")] = None,
    tenth: Annotated[int | None, typer.Option(help="Only every tenth case: which one, modulo 10.")] = None,
    quick: Annotated[bool, typer.Option(help="As gradparity check --quick.")] = False,
    needs: Annotated[
        bool, typer.Option("--requirements", help="Print what pip installs for these cases, and judge nothing.")
    ] = False,
    needs_alone: Annotated[
        bool, typer.Option("--alone", help="Print what pip installs for them with --no-deps, and judge nothing.")
    ] = False,
    write: Annotated[bool, typer.Option("--record", help="Write the verdicts down as expected.")] = False,
) -> None:
    """Judge published functions, and exit with 1 if a verdict is not the one that is expected."""
    console, every, differing, judged = Console(highlight=False), expected(), [], 0
    cases = chosen(every, names or [], tenth)
    if needs or needs_alone:
        print("\n".join(requirements(cases, needs_alone)))  # noqa: T201  which pip reads
        return
    for each in cases:
        reason = each.why_not_judged()
        if reason is not None and (not write or "not installed" in reason):
            console.print(f"{each.case}: skipped: {reason}")
            continue
        try:
            report = report_on(each, quick and not each.never_quick)
        except RuntimeError as error:
            differing.append(str(error))
            console.print(str(error), markup=False)
            continue
        found = [] if write else each.differences(report)
        every[every.index(each)] = each.judged_as(report, quick and not each.never_quick)
        differing, judged = differing + found, judged + 1
        console.print("\n".join(found or [f"{each.case}: as expected"]), markup=False)
    if write:
        record(every)
    console.print(f"{judged} judged, {len(differing)} differ from what is expected")
    raise typer.Exit(1 if differing else 0)


if __name__ == "__main__":
    typer.run(main)
