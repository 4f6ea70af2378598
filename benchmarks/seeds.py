"""Right versions at many seeds: `python -m benchmarks.seeds [OPERATOR ...] [--seeds 5] [--resume]`.

Every right version of the collection is judged under all checks in all its formats, at each seed. The slow tests do
so at two seeds; five take hours, so the results are written after every seed, and `--resume` goes on where a run has
ended. A right version that raises an alarm is a defect of the harness.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.console import Console

from benchmarks.run import commit, facts
from parity_tests.harness.candidate import Candidate
from parity_tests.harness.court import Court
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.report import Report
from parity_tests.harness.whole_file import write_text
from parity_tests.suite.collection import COLLECTION, MORE, Case

ALARMS = (Verdict.MISMATCH, Verdict.ERROR)
CASES = COLLECTION | MORE
RESULTS = Path(__file__).parent / "results" / "seeds.json"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass
class Judged:
    """What came of a right version at a seed.

    Attributes:
        rows: the number of rows by verdict.
        alarms: the rows that accuse it, such as "MISMATCH vjp float64: reason".
        seconds: CPU time; at an operator's first seed it includes the certificates, which serve the other seeds, too.
        text: the report, if there is an alarm.
        commit: of the working tree that judged; results that were kept may be of another one.
    """

    operator: str
    seed: int
    rows: dict[str, int] = field(default_factory=dict)
    alarms: list[str] = field(default_factory=list)
    seconds: float = 0.0
    text: str = ""
    commit: str | None = None


def judged(name: str, case: Case, court: Court, seed: int) -> Judged:
    """Judge a right version under all checks in all its formats."""
    docket = Docket(
        spec=case.spec,
        candidates=[Candidate(case.right, "right")],
        checks=select_checks(None),
        precisions=select_precisions(None, case.spec),
        device="cpu",
        seed=seed,
        replay=lambda row: "",
        court=court,
    )
    report, start = Report({}), time.process_time()
    for _ in judge(docket, report):
        pass
    alarms = [row for row in report.rows if row.verdict in ALARMS]
    return Judged(
        name,
        seed,
        rows=dict(Counter(str(row.verdict) for row in report.rows)),
        alarms=[f"{row.verdict} {row.check} {row.dtype}: {row.reason}" for row in alarms],
        seconds=round(time.process_time() - start, 2),
        text=str(report) if alarms else "",
    )


def judge_seeds(name: str, seeds: Sequence[int]) -> Iterator[Judged]:
    """Judge a right version at some seeds; the oracle is traced and certified once for all of them."""
    first: Court | None = None
    for seed in seeds:
        court = first.at_seed(seed) if first else Court(CASES[name].spec, "cpu", seed)
        first = first or court
        yield judged(name, CASES[name], court, seed)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Operators of the collection; by default all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many; the first is 0.")] = 5,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what the results have, and judge the others.")] = False,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS,
) -> None:
    """Judge every right version of the collection at many seeds in all formats.

    Exit codes: 0 there is no alarm, 1 there is one.
    """
    unknown = [name for name in names or () if name not in CASES]
    if unknown:
        raise typer.BadParameter(f"unknown operator {unknown[0]!r}; there are {', '.join(CASES)}")
    console, known = Console(), read(out) if resume else {}
    measured, judging = facts(), commit()
    about = {key: measured[key] for key in ("date", "machine", "versions")} | {"schema": 1, "seeds": seeds}
    for name in names or CASES:
        for found in judge_seeds(name, [seed for seed in range(seeds) if (name, seed) not in known]):
            found.commit = judging
            known[name, found.seed] = found
            write(about, list(known.values()), out)
            told = f"{len(found.alarms)} alarms" if found.alarms else "no alarm"
            console.print(f"{name}, seed {found.seed}: {told}, {found.seconds} s", highlight=False, markup=False)
        jax.clear_caches()  # what is compiled for an operator serves no other, and adds up
    for line in summary(seeds, list(known.values())):
        console.print(line, highlight=False, markup=False)
    raise typer.Exit(1 if any(found.alarms for found in known.values()) else 0)


def read(path: Path) -> dict[tuple[str, int], Judged]:
    """The results of an earlier run, by operator and seed."""
    if not path.exists():
        return {}
    stored = [Judged(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["judged"]]
    return {(found.operator, found.seed): found for found in stored if found.operator in CASES}


def write(about: dict[str, Any], found: Sequence[Judged], path: Path) -> None:
    """As JSON, and as a Markdown page beside it, each whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    order = list(CASES)
    found = sorted(found, key=lambda one: (order.index(one.operator), one.seed))
    write_text(path, json.dumps(about | {"judged": [asdict(one) for one in found]}, indent=1) + "\n")
    write_text(path.with_suffix(".md"), as_markdown(about, found))


def summary(seeds: int, found: Sequence[Judged]) -> list[str]:
    """How much was judged, and how many alarms there are."""
    rows: Counter[str] = Counter()
    for one in found:
        rows.update(one.rows)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in rows.items())
    accused = [f"{one.operator} (seed {one.seed})" for one in found if one.alarms]
    return [
        f"{len(found)} of {seeds * len(CASES)}: right versions times seeds that were judged.",
        f"{sum(rows.values())} rows: {counts or 'none'}.",
        f"{sum(len(one.alarms) for one in found)} alarms{': ' + ', '.join(accused) if accused else ''}.",
    ]


def as_markdown(about: dict[str, Any], found: Sequence[Judged]) -> str:
    """A page."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    commits = ", ".join(dict.fromkeys(one.commit or "unknown" for one in found))
    seeds: dict[str, list[Judged]] = {}
    for one in found:
        seeds.setdefault(one.operator, []).append(one)
    waiting = [name for name in CASES if len(seeds.get(name, ())) < about["seeds"]]
    lines = [
        "# Right versions at many seeds",
        "",
        f"Written by `python -m benchmarks.seeds`; {about['date']}; commit {commits}; {versions}; "
        f"{about['machine']['cpu']}; all checks, all formats, seeds 0 to "
        f"{about['seeds'] - 1}.",
        "",
        *summary(about["seeds"], found),
        "",
        *([f"**Not complete.** Seeds are missing of: {', '.join(waiting)}.", ""] if waiting else []),
        "| operator | seeds | rows | CPU s | alarms |",
        "|---|---|---|---|---|",
        *(_line(name, of) for name, of in seeds.items()),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, found: Sequence[Judged]) -> str:
    rows: Counter[str] = Counter()
    for one in found:
        rows.update(one.rows)
    told = "; ".join(f"seed {one.seed}: {alarm}" for one in found for alarm in one.alarms).replace("|", "\\|")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in rows.items())
    at = ", ".join(str(one.seed) for one in found)
    return f"| {name} | {at} | {counts} | {sum(one.seconds for one in found):.0f} | {told} |"


if __name__ == "__main__":
    app()
