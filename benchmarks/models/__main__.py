"""The command line: python -m benchmarks.models [MODEL ...] [--by torchax] [--tenth N]."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.apart import Lost, run_apart
from benchmarks.campaign import RESULTS, Campaign, say, say_bars, stamp
from benchmarks.models.judged import CONVERTERS, Outcome, judged
from benchmarks.models.table import as_markdown, bars
from benchmarks.models.zoo import MODELS

SECONDS = 900  # that a model may take

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help='"family/name", such as torch.nn/LSTM; by default all.')
    ] = None,
    by: Annotated[
        list[str] | None, typer.Option(help=f"The converter, by default gradparity: {', '.join(CONVERTERS)}.")
    ] = None,
    jobs: Annotated[int, typer.Option("-j", min=1, help="How many are converted at a time.")] = 1,
    tenth: Annotated[int | None, typer.Option(help="Each tenth model only; another part for each number.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what the results have, and judge the others.")] = False,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "models.json",
    one: Annotated[bool, typer.Option("--one", hidden=True, help="Judge the model in this process.")] = False,
) -> None:
    """Convert a hundred models of PyTorch's packages to JAX, and compare values and all gradients with PyTorch's.

    Exit codes: 0 all bars are met, 1 one is missed, 2 the run was interrupted.
    """
    chosen = names or [*(MODELS if tenth is None else MODELS[tenth % 10 :: 10])]
    for given, known in ((chosen, MODELS), (by or (), CONVERTERS)):
        if unknown := [each for each in given if each not in known]:
            raise typer.BadParameter(f"unknown: {unknown[0]!r}; there are {', '.join(known)}")
    converters = by or ["gradparity"]
    if one:
        out.write_text(json.dumps(asdict(judged(chosen[0], converters[0]))), encoding="utf-8")
        return
    console, its = Console(), campaign(out, resume)
    due = its.due([(name, each) for each in converters for name in chosen])
    its.keep(its.keyed(_each(due, jobs)), lambda key, found: say(console, f"{key[0]}, {key[1]}: {found.told}"))
    raise typer.Exit(its.exit_code(say_bars(console, bars(its.outcomes, None if chosen == [*MODELS] else _refused()))))


def campaign(path: Path, resume: bool = True) -> Campaign[tuple[str, str], Outcome]:
    """The outcomes by model and what converted it."""
    items = [(name, by) for by in CONVERTERS for name in MODELS]
    return Campaign(path, Outcome, as_markdown, "models", ("name", "by"), items=items, resume=resume)


def _refused() -> set[str]:
    """The models that the committed results have as refused."""
    committed = json.loads((RESULTS / "models.json").read_text(encoding="utf-8"))["models"]
    return {one["name"] for one in committed if one["error"] and one["by"] == "gradparity"}


def _each(keys: Sequence[tuple[str, str]], jobs: int) -> Iterator[Outcome]:
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(_judged_apart, *key) for key in keys]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # of a run that is interrupted


def _judged_apart(name: str, by: str) -> Outcome:
    found = run_apart("benchmarks.models", name, "--by", by, "--one", seconds=SECONDS)
    if isinstance(found, Lost):
        return Outcome(*stamp(), name, by, f"{found.error}: {found.text.splitlines()[-1] if found.text else ''}")
    return Outcome(**found)


if __name__ == "__main__":
    app()
