"""Judges the sweep's calls by the harness: `python -m benchmarks.sweep_shadow [OPERATOR ...]`.

The sweep compares PyTorch with JAX by digits, and asks a witness where they differ. Here the harness judges the same
calls by bounds, and the page says where the two disagree, and why. What came of an operator is written to
`results/sweep_shadow.json` and `.md` when it has ended. Without OPERATOR those run that have no result with the
installed versions, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import jax
import torch
import typer

from benchmarks.campaign import RESULTS, ROOT, Campaign, Stamped, stamp, table, versions
from benchmarks.proofs import formulas
from parity_tests.harness.findings import Verdict
from parity_tests.harness.maps import BASES
from parity_tests.harness.report.results import Row
from parity_tests.sweep.cases import Case, NoReference
from parity_tests.sweep.compared_case import REFUSALS, shortened
from parity_tests.sweep.harness_rows import rows_of
from parity_tests.sweep.judgement import NoDerivative, cases_of
from parity_tests.sweep.lines import DTYPES, MODES
from parity_tests.sweep.lines import Verdict as OfSweep
from parity_tests.sweep.varied_calls import judged_calls

_EXPECTED = ROOT / "parity_tests" / "suite" / "sweep" / "expected" / "torch-2.13-jax-0.10.json"
_ACCUSING = {str(OfSweep.WRONG_IN_PYTORCH), str(OfSweep.WRONG_IN_BOTH)}
_OTHERWISE = (OfSweep.WRONG_IN_JAX, OfSweep.LOSES_DIGITS, OfSweep.OVERFLOWS, OfSweep.CONVENTION)
_NUMBERS = re.compile(r": (\S+), oracle (\S+?)(;|$)")
_DIGITS = 2.0**-38  # relative: what the sweep's filter lets pass, of two numbers and their sum


@dataclass(frozen=True)
class Outcome(Stamped):
    """The result of judging an operator.

    Attributes:
        seconds: of the processor.
        counts: of the rows, by verdict; and of the cases that the harness does not take.
        mismatches: the first one of each map and dtype, "vjp float64", in words.
    """

    seconds: float
    counts: dict[str, int]
    mismatches: dict[str, str]


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Entries, as tanh or mul.Tensor; by default all.")] = None,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "sweep_shadow.json",
) -> None:
    """Judge the sweep's calls by the harness; operators that have a result are not judged again.

    Exit codes: 0 all were judged, 2 the run was interrupted.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of PyTorch's own, about its samples
    every = formulas()
    unknown = [name for name in names or () if name not in every]
    if unknown:
        raise typer.BadParameter(f"the installed derivatives.yaml has no entry {unknown[0]!r} with a formula")
    found = campaign(out)
    found.keep(((name, judged(name)) for name in names or found.due(every)), _tell)
    raise typer.Exit(found.exit_code(missed=False))


def campaign(path: Path) -> Campaign[str, Outcome]:
    """The outcomes by entry, of which those with other versions are out of date."""
    return Campaign(
        path,
        Outcome,
        lambda _, outcomes: page(outcomes, expected()),
        order=str,
        since=lambda outcome: None if outcome.versions == versions() else outcome.ended,
    )


def _tell(name: str, outcome: Outcome) -> None:
    print(name, outcome.seconds, outcome.counts, *outcome.mismatches, sep="  ", flush=True)  # noqa: T201


def judged(name: str) -> Outcome:
    """Judge an operator at all its ordinary calls."""
    start, counts, mismatches = time.process_time(), Counter[str](), dict[str, str]()
    with jax.enable_x64(True):
        for dtype in DTYPES:
            for row in _rows(name, dtype, counts):
                counts[str(row.verdict)] += 1
                if row.verdict is Verdict.MISMATCH:
                    mismatches.setdefault(f"{row.check} {dtype}", _in_words(row))
    jax.clear_caches()
    return Outcome(*stamp(), round(time.process_time() - start, 1), dict(counts), mismatches)


def _rows(name: str, dtype: str, counts: Counter[str]) -> Iterator[Row]:
    cases: Iterator[Case] = cases_of(formulas()[name], judged_calls(name, dtype))
    try:
        for case in cases:
            try:
                found = [] if case.may_draw else rows_of(case, case.jax_function(), ("forward", *MODES), dtype)
            except (NoReference, *REFUSALS) as error:
                counts[shortened(error).partition(":")[0]] += 1
                continue
            yield from found
    except NoDerivative as reason:
        counts[str(reason)] += 1


def _in_words(row: Row) -> str:
    wrong = () if row.failure is None else row.failure.wrong
    return "; ".join(f"{w.label} {w.pattern}: {w.candidate}, oracle {w.oracle}" for w in wrong) or row.reason


def expected() -> dict[str, dict[str, set[str]]]:
    """The sweep's verdicts by entry, and by map and dtype, that are not "agrees"."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, verdicts in json.loads(_EXPECTED.read_text(encoding="utf-8"))["verdicts"].items():
        for verdict, lines in verdicts.items():
            for line in lines:
                mode, *_, dtype = line.split()
                found[name][f"{mode} {dtype}"].add(verdict)
    return found


def disagreement(which: str, text: str, outcome: Outcome, sweep: Mapping[str, set[str]]) -> str | None:
    """Say why the harness accuses and the sweep does not; None if both do."""
    mode, dtype = which.split()
    verdicts, base = sweep.get(which, set()), f"{BASES[mode]} {dtype}" if mode in BASES else ""
    if verdicts & _ACCUSING:
        return None
    if "raises " in text or "sparse" in text:
        return "PyTorch raises an error, or the gradient is sparse, which the sweep does not compare"
    for other in _OTHERWISE:
        if str(other) in verdicts:
            return f"the sweep says: {other}"
    numbers = _NUMBERS.search(text)
    if numbers and abs(complex(numbers[1]) - complex(numbers[2])) <= _DIGITS * max(1.0, abs(complex(numbers[2]))):
        return "by the last digits, which the sweep lets pass"
    if mode == "forward":
        return "the values differ, so that the sweep compares nothing"
    if {base, f"forward {dtype}"} & {*outcome.mismatches} or sweep.get(base, set()) & _ACCUSING:
        return "the map that is differentiated differs already, so that the sweep compares nothing"
    return "another reason"


def page(outcomes: Mapping[str, Outcome], sweep: Mapping[str, Mapping[str, set[str]]]) -> str:
    """The results as text: how many both accuse, and where one alone does, by reason."""
    reasons: dict[str, list[str]] = defaultdict(list)
    both, alone = 0, list[str]()
    for name, outcome in outcomes.items():
        for which, text in outcome.mismatches.items():
            reason = disagreement(which, text, outcome, sweep.get(name, {}))
            both += reason is None
            reasons[reason or ""] += [f"`{name}` {which}"]
        alone += [
            f"`{name}` {which}"
            for which, verdicts in sweep.get(name, {}).items()
            if verdicts & _ACCUSING and which.split()[0] in MODES and which not in outcome.mismatches
        ]
    reasons.pop("", None)
    counts = sum((Counter(outcome.counts) for outcome in outcomes.values()), Counter[str]())
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    return "\n".join(
        [
            "# The sweep's calls, judged by the harness",
            "",
            "Made by `python -m benchmarks.sweep_shadow`, whose docstring says how: at ordinary calls, not at special",
            "points or with tangents of unequal size.",
            "",
            f"{len(outcomes)} entries, {seconds:.0f} s of a processor: "
            + ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
            + ".",
            "",
            *sorted({each.versions for each in outcomes.values()}),
            "",
            f"Both accuse PyTorch of {both} maps of an operator in a dtype.",
            "",
            "## The harness alone",
            "",
            *_listed(reasons),
            "",
            "## The sweep alone",
            "",
            f"{len(alone)}, at special points or where the harness has no bound: {', '.join(alone) or 'none'}.",
            "",
        ]
    )


def _listed(reasons: Mapping[str, Sequence[str]]) -> list[str]:
    by_size = sorted(reasons.items(), key=lambda one: -len(one[1]))
    return table("| why | | maps |", ((reason, len(maps), ", ".join(maps)) for reason, maps in by_size))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    app()
