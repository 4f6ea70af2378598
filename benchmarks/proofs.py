"""Proves PyTorch's derivative formulas: `python -m benchmarks.proofs [OPERATOR ...]`.

Each entry of the installed derivatives.yaml is judged by the check `proof` against the derivative of `jax_ref.aten`'s
operator, in float64, at inputs that are made for it and at a sample of PyTorch's own. What came of an entry is written
to `results/proofs.json` and `.md` when it has ended. Without OPERATOR those run that have no result with the installed
versions, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import torch
import typer

from benchmarks.campaign import RESULTS, Campaign, Stamped, stamp, table, versions
from parity_tests.harness.crosscheck import crosscheck
from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.results import Row
from parity_tests.sweep.formula_cases import FormulaCase, NoCase, cases
from torch_impl.derivatives import Entry, entries

PROVED, NO_CASE = str(Verdict.PROVED), "NO CASE"
_BEST_FIRST = (str(Verdict.MISMATCH), str(Verdict.ERROR), str(Verdict.UNRESOLVED), PROVED, str(Verdict.SKIPPED))


@dataclass(frozen=True)
class Outcome(Stamped):
    """The result of proving the formulas of an entry.

    Attributes:
        seconds: of the processor.
        verdict: that of its cases: one that fails, else PROVED if one is proved, else SKIPPED; or NO CASE.
        where: the inputs of the case that has the verdict.
        text: its proof, or the reason why there is none.
    """

    seconds: float
    verdict: str
    where: str
    text: str


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Entries, as tanh or mul.Tensor; by default all.")] = None,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "proofs.json",
) -> None:
    """Prove the formulas of the installed derivatives.yaml; entries that have a result are not proved again.

    Exit codes: 0 no formula fails, 1 one does, 2 the run was interrupted.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of PyTorch's own, about its samples
    every = formulas()
    unknown = [name for name in names or () if name not in every]
    if unknown:
        raise typer.BadParameter(f"the installed derivatives.yaml has no entry {unknown[0]!r} with a formula")
    found = campaign(out)
    found.keep(((name, proved(every[name])) for name in names or found.due(every)), _tell)
    raise typer.Exit(found.exit_code(any(each.verdict in _BEST_FIRST[:3] for each in found.kept.values())))


def formulas() -> dict[str, Entry]:
    """The entries of the installed derivatives.yaml that have a formula, by their names."""
    found = (entry for entry in entries() if entry.key == "Default" and (entry.vjps or entry.jvps))
    return {entry.name: entry for entry in sorted(found, key=attrgetter("name"))}


def campaign(path: Path) -> Campaign[str, Outcome]:
    """The outcomes by entry, of which those with other versions are out of date."""
    return Campaign(
        path,
        Outcome,
        lambda _, outcomes: page(outcomes, [*formulas()]),
        order=str,
        since=lambda outcome: None if outcome.versions == versions() else outcome.ended,
    )


def _tell(name: str, outcome: Outcome) -> None:
    print(name, outcome.verdict, outcome.seconds, outcome.text, sep="  ", flush=True)  # noqa: T201


def proved(entry: Entry) -> Outcome:
    """Prove an entry at two cases of real numbers at most."""
    start = time.process_time()
    try:
        found = [*judged(entry)]
    except NoCase as reason:
        found = [(NO_CASE, "", str(reason).replace(str(entry.path), entry.path.name))]
    jax.clear_caches()
    of = min(found, key=lambda one: _BEST_FIRST.index(one[0]) if one[0] in _BEST_FIRST else len(_BEST_FIRST))
    return Outcome(*stamp(), round(time.process_time() - start, 1), *of)


def judged(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """The verdict at each case, the case's inputs, and the proof or the reason.

    Raises:
        NoCase: there is none of real numbers.
    """
    real = [case for case in cases(entry, most=1) if case.spec.formats[0] == "float64"]
    if not real:
        raise NoCase("its samples are complex")
    for case in real[:2]:
        yield _of_case(entry, case)


def _of_case(entry: Entry, case: FormulaCase) -> tuple[str, str, str]:
    report = crosscheck({entry.name: case.call}, case.spec, checks=["proof"], dtypes=["float64"], progress=False)
    (row,) = (row for row in report.rows if row.candidate == entry.name)
    text = "; ".join(row.proofs) or row.reason or _wrong(row)
    return str(row.verdict), case.where, text


def _wrong(row: Row) -> str:
    results = row.failure.wrong if row.failure is not None else ()
    return "; ".join(f"{w.label} {w.pattern}: {w.candidate}, oracle {w.oracle}" for w in results)


def page(outcomes: Mapping[str, Outcome], names: Sequence[str]) -> str:
    """The results as text: how many are proved, which differ, and which are not told and why."""
    done = {name: outcomes[name] for name in names if name in outcomes}
    counts = Counter(each.verdict for each in done.values())
    seconds = sorted(each.seconds for each in done.values() if each.verdict != NO_CASE)
    by_reason: dict[str, list[str]] = {}
    for name, each in done.items():
        if each.verdict in (str(Verdict.SKIPPED), NO_CASE):
            by_reason.setdefault(each.text.splitlines()[0], []).append(f"`{name}`")
    differ = [(name, each) for name, each in done.items() if each.verdict in _BEST_FIRST[:3]]
    days = sorted({each.ended[:10] for each in done.values()})
    return "\n".join(
        [
            "# PyTorch's derivative formulas, proved",
            "",
            "Made by `python -m benchmarks.proofs`, whose docstring says how; `docs/certainty.md` says what it is.",
            "A MISMATCH is judged by numbers and their bounds, before the programs are compared.",
            "",
            f"{len(done)} of {len(names)} entries with a formula: "
            + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
            + f". Median {np.median(seconds) if seconds else 0:.1f} s of a processor, with tracing; "
            + f"{' to '.join(dict.fromkeys((days[0], days[-1]))) if days else 'never'}.",
            "",
            *sorted({each.versions for each in done.values()}),
            "",
            "## Not proved, by reason",
            "",
            *table(
                "| reason | entries |",
                ((reason, ", ".join(of)) for reason, of in sorted(by_reason.items(), key=lambda one: -len(one[1]))),
            ),
            "",
            "## Failing",
            "",
            *[f"- `{name}`, {each.where}: {each.verdict}: {each.text}" for name, each in differ],
            "",
            "## Proved",
            "",
            ", ".join(f"`{name}`" for name, each in done.items() if each.verdict == PROVED) or "none",
            "",
        ]
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    app()
