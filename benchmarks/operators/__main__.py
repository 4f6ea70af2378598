"""The command line: python -m benchmarks.operators [NAME ...] [--costly]."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.operators._case import Case
from benchmarks.operators.costly import COSTLY
from benchmarks.operators.run import Outcome, from_dict, judge_apart, judge_one
from benchmarks.operators.survey import CASES
from benchmarks.operators.table import as_markdown, bars, times
from benchmarks.run import commit, facts

RESULTS = Path(__file__).parents[1] / "results" / "operators.json"
RESULTS_OF_COSTLY = RESULTS.with_name("costly.json")

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

    Exit codes: 0 all bars are met, 1 one is missed.
    """
    cases, path = (COSTLY if costly else CASES), out or (RESULTS_OF_COSTLY if costly else RESULTS)
    unknown = [name for name in names or () if name not in cases]
    if unknown:
        raise typer.BadParameter(f"unknown operator {unknown[0]!r}; there are {', '.join(cases)}")
    if one:
        judge_one(cases[(names or [""])[0]], path, seed)
        return
    console, outcomes = Console(), read(path, cases) if resume or names else {}
    waiting = [name for name in names or cases if name in (names or ()) or name not in outcomes]
    measured = facts()
    about = {key: measured[key] for key in ("date", "machine", "versions")} | {"schema": 1, "seed": seed}
    about |= {"costly": True} if costly else {}
    judging = commit()
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(judge_apart, name, seed, costly) for name in waiting]
        for future in as_completed(futures):
            outcome = future.result()
            outcome.commit = judging
            outcomes[outcome.name] = outcome
            write(about, outcomes, path, cases)
            console.print(f"{outcome.name}: {outcome.verdict}, {outcome.seconds} s", highlight=False, markup=False)
    console.print(times(list(outcomes.values())), highlight=False)
    found = bars(list(outcomes.values()), costly)
    for bar, value, met in found:
        console.print(f"{'met   ' if met else 'MISSED'} {bar}: {value}", highlight=False, markup=False)
    raise typer.Exit(0 if all(met for *_, met in found) else 1)


def read(path: Path, cases: Mapping[str, Case] = CASES) -> dict[str, Outcome]:
    """The outcomes of an earlier run, by operator."""
    if not path.exists():
        return {}
    stored = map(from_dict, json.loads(path.read_text(encoding="utf-8"))["operators"])
    return {outcome.name: outcome for outcome in stored if outcome.name in cases}


def write(about: dict[str, Any], outcomes: dict[str, Outcome], path: Path, cases: Mapping[str, Case] = CASES) -> None:
    """Write the results as JSON, whole or not at all, and as a Markdown table beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    in_order = [outcomes[name] for name in cases if name in outcomes]
    about = about | {"complete": len(in_order) == len(cases)}
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(about | {"operators": [asdict(x) for x in in_order]}, indent=1) + "\n", "utf-8")
    os.replace(partial, path)
    path.with_suffix(".md").write_text(as_markdown(about, in_order), encoding="utf-8")


if __name__ == "__main__":
    app()
