"""Which planted mistakes in PyTorch's formulas the sweep convicts: `python -m benchmarks.sweep_mutants [OPERATOR ...]`.

Each text of derivatives.yaml is changed in every way of `parity_tests.sweep.formula_mutants`, one at a time, and judged
by `parity_tests.sweep.mutant_judgement`. Operators run in a process of their own, as in the sweep. What came of each is
appended to a file at once, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.campaign import MET, MISSED, RESULTS, as_json, bar, listed, save, say, table
from benchmarks.run import commit
from parity_tests.sweep import mutant_judgement
from parity_tests.sweep.formula_mutants import KINDS, planted
from parity_tests.sweep.guard import WHOLE, Limits
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.operators import named, operators
from parity_tests.sweep.results_file import Header, Results, ResultsFile
from parity_tests.sweep.running import run
from torch_impl.derivatives import lookup

JUDGE = "parity_tests.sweep.mutant_judgement:judge_mutants"
MODES, DTYPES = ("vjp", "jvp"), ("float64", "complex128")
BAR = 0.95
_PARTS = 10  # each from everywhere in the file, so that what a run that was stopped has judged is a sample
# What came of a mistake, from what counts most: of its dtypes the first of these counts.
CONVICTED = "convicted"
SURVIVORS = (mutant_judgement.SURVIVES, mutant_judgement.SURVIVES_ELSEWHERE)
OUTCOMES = (
    CONVICTED,
    *SURVIVORS,
    mutant_judgement.STOPS,
    mutant_judgement.CHANGES_NOTHING,
    mutant_judgement.NOT_EVALUATED,
    mutant_judgement.NO_CALL,
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Mutant:
    """A planted mistake, and what came of it.

    Attributes:
        text: the names and the wrong formula: "self = -grad".
        outcome: one of `OUTCOMES`.
        reason: of a survivor, what the sweep says in each dtype in which a value changes.
        reached: whether the sweep has any verdict on the derivative where the value changes.
    """

    operator: str
    mode: str
    kind: str
    text: str
    outcome: str
    reason: str = ""
    reached: bool = True


def mutants_of(lines: Iterable[Line]) -> list[Mutant]:
    """The mistakes of a run, each with what came of it in the dtype that counts most."""
    of_each: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        if line.of != WHOLE:
            of_each.setdefault((line.operator, line.mode, line.of), []).append(line)
    return [_mutant(its) for its in of_each.values()]


def _mutant(lines: Sequence[Line]) -> Mutant:
    outcomes = [_outcome(line) for line in lines]
    outcome = min(outcomes, key=OUTCOMES.index)
    survive = [line for line, of in zip(lines, outcomes, strict=True) if of in SURVIVORS]
    reason = "; ".join(dict.fromkeys(f"{line.dtype}: {line.verdict}, {line.reason}" for line in survive))
    kind, _, text = lines[0].of.partition(": ")
    reached = not survive or any(line.verdict is not Verdict.UNREACHED for line in survive)
    remark = reason if outcome in SURVIVORS else ""
    return Mutant(lines[0].operator, lines[0].mode, kind, text, outcome, remark, reached)


def _outcome(line: Line) -> str:
    if mutant_judgement.is_conviction(line):
        return CONVICTED
    return next(outcome for outcome in OUTCOMES[1:] if line.reason.partition(":")[0] == outcome)


@functools.cache
def not_convicted() -> dict[tuple[str, str, str, str], str]:
    """The outcomes of the mistakes that the results name, by operator, mode, kind and text; others are convicted."""
    stored = json.loads((RESULTS / "sweep_mutants.json").read_text(encoding="utf-8"))
    return {(m["operator"], m["mode"], m["kind"], m["text"]): m["outcome"] for m in stored["mutants"]}


def share(mutants: Iterable[Mutant]) -> tuple[int, int]:
    """How many mistakes are convicted, of how many that change a value."""
    count = Counter(mutant.outcome for mutant in mutants)
    return count[CONVICTED], count[CONVICTED] + sum(count[outcome] for outcome in SURVIVORS)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="As tanh or sum.dim_IntList; by default all.")] = None,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="So many processes, each with one thread.")] = 1,
    resume: Annotated[
        Path, typer.Option("--resume", help="What comes is appended to this file; what it has is not judged again.")
    ] = Path("sweep-mutants.jsonl"),
    out: Annotated[
        Path | None, typer.Option(help="The results, .json; an .md beside it. Of all operators, in benchmarks/results.")
    ] = None,
) -> None:
    """Judge every planted mistake in the formulas of derivatives.yaml.

    Exit codes: 0 the bar is met, 1 it is missed.
    """
    console, limits = Console(), Limits(operators=100)  # each new process takes seconds to import what it needs
    chosen = _with_mistakes(names)
    with (
        ResultsFile(resume, Header.of(MODES, DTYPES, limits)) as file,
        ThreadPoolExecutor(jobs) as threads,
        bar(console) as progress,
    ):
        task = progress.add_task("", total=len(chosen), completed=sum(name in file.lines for name in chosen))
        for operator, _ in run(chosen, file, threads, JUDGE, limits):
            progress.update(task, advance=1, description=operator)
        results = file.results()
    results = Results(results.header, {name: results.lines[name] for name in chosen})
    mutants = mutants_of(results.all_lines)
    path = out or (None if names else RESULTS / "sweep_mutants.json")
    if path is not None:
        write(results, mutants, path)
    say(console, *summary(mutants))
    say(console, *(f"{m.outcome}: {m.operator}, {m.mode}, {m.kind}, {m.text}" for m in (mutants if names else ())))
    convicted, changing = share(mutants)
    raise typer.Exit(MET if convicted >= BAR * changing else MISSED)


def _with_mistakes(names: Sequence[str] | None) -> list[str]:
    """The operators in whose formulas a mistake can be planted."""
    try:
        every = [each for name in names for each in named(name)] if names else operators()
    except LookupError as error:
        raise typer.BadParameter(str(error)) from error
    chosen = [name for name in dict.fromkeys(every) if next(planted(lookup(name)), None) is not None]
    return [name for i in range(_PARTS) for name in chosen[i::_PARTS]]


def write(results: Results, mutants: Sequence[Mutant], path: Path) -> None:
    """Write the results as data, all mistakes but those that are convicted by name, and as a page beside it."""
    header = results.header
    whole = [line for line in results.all_lines if line.of == WHOLE]
    data = {
        "schema": 1,
        "versions": dict(header.versions),
        "environment": dict(header.environment) | {"commit": commit()},
        "cpu_seconds": round(sum(line.seconds for line in results.all_lines)),
        "kinds": {kind: dict(Counter(m.outcome for m in mutants if m.kind == kind)) for kind in KINDS},
        "not_judged": {line.operator: line.reason for line in whole},
        "mutants": [vars(m) for m in mutants if m.outcome != CONVICTED],
    }
    save(path, as_json(data), page(data, mutants))


def summary(mutants: Sequence[Mutant]) -> list[str]:
    """The counts, in words."""
    count = Counter(mutant.outcome for mutant in mutants)
    convicted, changing = share(mutants)
    reached = share(mutant for mutant in mutants if mutant.reached)
    return [
        f"{len(mutants)} mistakes in the formulas of {len({m.operator for m in mutants})} operators.",
        f"{changing} of them change a value; {convicted} of these are convicted: {_percent(convicted, changing)}.",
        f"Of derivatives that the sweep reaches, {reached[0]} of {reached[1]}: {_percent(*reached)}.",
        f"{count[mutant_judgement.STOPS]} others stop with an error, "
        f"{count[mutant_judgement.CHANGES_NOTHING]} change no value at any call, "
        f"{count[mutant_judgement.NOT_EVALUATED]} are in formulas that cannot be evaluated here, "
        f"{count[mutant_judgement.NO_CALL]} in formulas that no call reaches.",
    ]


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def page(data: Mapping[str, Any], mutants: Sequence[Mutant]) -> str:
    """The results as text: the share by kind, and the survivors with their reasons."""
    environment, versions = data["environment"], listed(data["versions"])
    rows = []
    for kind in KINDS:
        of_kind = [mutant for mutant in mutants if mutant.kind == kind]
        convicted, changing = share(of_kind)
        others = Counter(mutant.outcome for mutant in of_kind)
        rest = (others[outcome] for outcome in OUTCOMES[len(SURVIVORS) + 1 :])
        rows.append((kind, changing, convicted, _percent(convicted, changing), *rest))
    survivors = [mutant for mutant in mutants if mutant.outcome in SURVIVORS]
    return "\n".join(
        [
            "# Planted mistakes in PyTorch's formulas",
            "",
            f"Made by `python -m benchmarks.sweep_mutants`; {environment['date']}, commit {environment['commit']}; "
            f"{versions}; Python {environment['python']}; {data['cpu_seconds']} s of CPU time. What it means: "
            "[docs/sweep.md](../../docs/sweep.md).",
            "",
            *(f"{line}\n" for line in summary(mutants)),
            *table(
                "| kind | change a value | convicted | share | stop | change nothing | not evaluated | no call |", rows
            ),
            "",
            "## Survivors",
            "",
            *(_of_survivors(survivors) or ["None."]),
            "",
        ]
    )


def _of_survivors(survivors: Sequence[Mutant]) -> list[str]:
    """A table for each reason, the most frequent one first."""
    of_reason: dict[str, list[Mutant]] = {}
    for mutant in survivors:
        of_reason.setdefault(mutant.reason, []).append(mutant)
    lines = []
    for reason, of in sorted(of_reason.items(), key=lambda pair: -len(pair[1])):
        lines += [f"{len(of)}, {reason}:", ""]
        lines += [f"- `{m.operator}`, {m.mode}, {m.kind}: `{m.text}`" for m in of]
        lines += [""]
    return lines[:-1]


if __name__ == "__main__":
    app()
