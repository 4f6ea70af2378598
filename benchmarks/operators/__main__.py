"""The command line: python -m benchmarks.operators [NAME ...] [--costly]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.campaign import RESULTS, Campaign, about_run, say, say_bars
from benchmarks.operators._case import Case
from benchmarks.operators.costly import COSTLY
from benchmarks.operators.run import Outcome, judge_apart, judge_one
from benchmarks.operators.survey import CASES
from benchmarks.operators.table import as_markdown, bars, times
from benchmarks.run import commit

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def survey(
    names: Annotated[list[str] | None, typer.Argument(help="Operators of the survey; by default all.")] = None,
    jobs: Annotated[int, typer.Option("-j", min=1, help="How many are judged at a time.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the random inputs.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what the results have, and judge the others.")] = False,
    costly: Annotated[bool, typer.Option("--costly", help="The three whose judgment takes longest instead.")] = False,
    out: Annotated[Path | None, typer.Option(help="The results, .json; an .md beside it.")] = None,
    one: Annotated[bool, typer.Option("--one", hidden=True, help="Judge the operator in this process.")] = False,
) -> None:
    """Judge a hundred operators of PyTorch at the default settings, each in a process of its own.

    Exit codes: 0 all bars are met, 1 one is missed, 2 the run was interrupted.
    """
    cases, path = (COSTLY if costly else CASES), out or RESULTS / ("costly.json" if costly else "operators.json")
    unknown = [name for name in names or () if name not in cases]
    if unknown:
        raise typer.BadParameter(f"unknown operator {unknown[0]!r}; there are {', '.join(cases)}")
    if one:
        judge_one(cases[(names or [""])[0]], path, seed)
        return
    console, its = Console(), campaign(path, resume or bool(names), cases)
    its.about = about_run(schema=1, seed=seed) | ({"costly": True} if costly else {})
    judged = its.keyed(_judged(names or its.due(cases), jobs, seed, costly))
    its.keep(judged, lambda name, found: say(console, f"{name}: {found.verdict}, {found.seconds} s"))
    say(console, times(its.outcomes))
    raise typer.Exit(its.exit_code(say_bars(console, bars(its.outcomes, costly))))


def campaign(path: Path, resume: bool = True, cases: Mapping[str, Case] = CASES) -> Campaign[str, Outcome]:
    """The outcomes of these cases by operator."""
    return Campaign(path, Outcome, as_markdown, "operators", ("name",), items=list(cases), resume=resume)


def _judged(names: Sequence[str], jobs: int, seed: int, costly: bool) -> Iterator[Outcome]:
    judging = commit()
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(judge_apart, name, seed, costly) for name in names]
        try:
            for future in as_completed(futures):
                outcome = future.result()
                outcome.commit = judging
                yield outcome
        finally:
            pool.shutdown(cancel_futures=True)  # of a run that is interrupted


if __name__ == "__main__":
    app()
