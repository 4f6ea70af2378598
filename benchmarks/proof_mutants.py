"""Tries to prove wrong formulas: `python -m benchmarks.proof_mutants [OPERATOR ...]`.

Each text of the installed derivatives.yaml is changed in every way of `parity_tests.sweep.formula_mutants`, one at a
time, and judged by the check `proof` at the inputs of `benchmarks.proofs`, in a child process: some crash it, and one
never ends. One that is PROVED must be right at these inputs; the page names each, with what the sweep found at all of
its calls (`results/sweep_mutants.json`). Without OPERATOR those run that have no result with the installed versions.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import torch
import typer
from pebble import ProcessExpired, ProcessPool

from benchmarks.campaign import RESULTS, Campaign, Stamped, stamp, table, versions
from benchmarks.proofs import NO_CASE, PROVED, formulas, judged
from benchmarks.sweep_mutants import CONVICTED, not_convicted
from parity_tests.harness.findings import Verdict
from parity_tests.sweep.formula_cases import NoCase
from parity_tests.sweep.formula_mutants import planted
from torch_impl.derivatives import Entry

CRASH, NO_END = "CRASH", "NO END"
_LONGEST = 300  # seconds for a mistake: PyTorch's polygamma does not return at some numbers
_ACCUSED = (str(Verdict.MISMATCH), str(Verdict.ERROR), str(Verdict.UNRESOLVED))


@dataclass(frozen=True)
class Outcome(Stamped):
    """The result of all mistakes in the formulas of an entry.

    Attributes:
        seconds: by the clock.
        verdicts: the number of mistakes by verdict: of the first input with one that accuses, else PROVED if there is
            one, else SKIPPED or NO CASE; CRASH if the process has ended, NO END if it does not.
        proved: those that are PROVED at some input, and accused at none: the mistake, the input, and what the sweep
            found at all of its calls.
    """

    seconds: float
    verdicts: dict[str, int]
    proved: list[dict[str, str]] = field(default_factory=list)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Entries, as tanh or mul.Tensor; by default all.")] = None,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "proof_mutants.json",
) -> None:
    """Judge each planted mistake by `proof`; entries that have a result are not judged again.

    Exit codes: 0 the run has ended, 2 it was interrupted.
    """
    every = {name: entry for name, entry in formulas().items() if any(True for _ in planted(entry))}
    unknown = [name for name in names or () if name not in every]
    if unknown:
        raise typer.BadParameter(
            f"no mistake can be planted in an entry {unknown[0]!r} of the installed derivatives.yaml"
        )
    found = Campaign[str, Outcome](
        out,
        Outcome,
        lambda _, outcomes: page(outcomes, [*every]),
        order=str,
        since=lambda outcome: None if outcome.versions == versions() else outcome.ended,
    )
    with Child() as child:
        found.keep(((name, child.mistakes(name, every[name])) for name in names or found.due(every)), _tell)
    raise typer.Exit(found.exit_code(False))


def _tell(name: str, outcome: Outcome) -> None:
    print(name, outcome.verdicts, outcome.seconds, *outcome.proved, sep="  ", flush=True)  # noqa: T201


class Child:
    """A process that judges, in whose place another one comes when it has crashed, or takes too long."""

    def __init__(self) -> None:
        # A fork of a process in which JAX runs may hang
        self._pool = ProcessPool(1, initializer=_start, context=multiprocessing.get_context("spawn"))

    def __enter__(self) -> Child:
        """Itself; the process starts when it is needed."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End the process."""
        self._pool.stop()
        self._pool.join()

    def mistakes(self, name: str, entry: Entry) -> Outcome:
        """Judge each mistake that can be planted in an entry."""
        start, verdicts, proved = time.monotonic(), Counter[str](), []
        for i, (kind, formula, wrong) in enumerate(planted(entry)):
            verdict, where = self._judged(name, i)
            verdicts[verdict] += 1
            if verdict == PROVED:
                of = f"{', '.join(formula.names)} = {formula.text}"
                mode = "vjp" if wrong.vjps != entry.vjps else "jvp"
                by_sweep = not_convicted().get((entry.name, mode, kind, of), CONVICTED)
                proved.append({"mistake": f"{kind}: {of}", "where": where, "sweep": by_sweep})
        return Outcome(*stamp(), round(time.monotonic() - start, 1), dict(verdicts), proved)

    def _judged(self, name: str, i: int) -> tuple[str, str]:
        try:
            return self._pool.schedule(judge_mistake, args=[name, i], timeout=_LONGEST).result()
        except ProcessExpired:
            return CRASH, ""
        except TimeoutError:
            return NO_END, ""


def _start() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of PyTorch's own, about its samples


def judge_mistake(name: str, i: int) -> tuple[str, str]:
    """Judge one of the mistakes that can be planted in an entry, by its number: the verdict, and the inputs."""
    *_, wrong = next(itertools.islice(planted(formulas()[name]), i, None))
    try:
        return _verdict(wrong)
    finally:
        jax.clear_caches()


def _verdict(wrong: Entry) -> tuple[str, str]:
    """The verdict on a mistake, and the inputs that have it; what is accused once needs no further inputs."""
    found: dict[str, str] = {}
    try:
        for verdict, where, _ in judged(wrong):
            if verdict in _ACCUSED:
                return verdict, where
            found.setdefault(verdict, where)
    except NoCase:
        return NO_CASE, ""
    verdict = PROVED if PROVED in found else next(iter(found))
    return verdict, found[verdict]


def page(outcomes: Mapping[str, Any], names: Sequence[str]) -> str:
    """The results as text: how many are accused, and each that is proved."""
    done = {name: outcomes[name] for name in names if name in outcomes}
    counts = sum((Counter(each.verdicts) for each in done.values()), Counter[str]())
    alike: dict[tuple[str, str, str], list[str]] = {}
    for name, each in done.items():
        for one in each.proved:
            alike.setdefault((f"`{name}`", one["where"], one["sweep"]), []).append(one["mistake"])
    rows = [(name, "; ".join(of), where, sweep) for (name, where, sweep), of in alike.items()]
    changing = sum(one["sweep"] == CONVICTED for each in done.values() for one in each.proved)
    return "\n".join(
        [
            "# Mistakes in PyTorch's derivative formulas, under `proof`",
            "",
            "Made by `python -m benchmarks.proof_mutants`, whose docstring says how. What is PROVED has the right",
            "numbers at the inputs where it is: the check compares them first.",
            "",
            f"{sum(counts.values())} mistakes in {len(done)} of {len(names)} entries: "
            + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
            + f". Of the PROVED the sweep convicts {changing}, at other calls.",
            "",
            *sorted({each.versions for each in done.values()}),
            "",
            *table("| entry | mistakes | PROVED at | the sweep, at all of its calls |", rows),
            "",
        ]
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    app()
