"""Right versions at many seeds: `python -m benchmarks.seeds [OPERATOR ...] [--seeds 5]`.

Every right version of the collection is judged under all checks in all its formats, at each seed. The slow tests do
so at two seeds; five take hours. A right version that raises an alarm is a defect of the harness.
"""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer
from rich.console import Console

from parity_tests.harness.candidate import Candidate
from parity_tests.harness.court import Court
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.report import Report
from parity_tests.suite.collection import COLLECTION, MORE, Case

ALARMS = (Verdict.MISMATCH, Verdict.ERROR)
CASES = COLLECTION | MORE

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def alarms(case: Case, court: Court, seed: int) -> Report:
    """The report on a right version, of which only the rows that are an alarm are kept."""
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
    report = Report({})
    for _ in judge(docket, report):
        pass
    report.rows[:] = [row for row in report.rows if row.verdict in ALARMS]
    return report


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Operators of the collection; by default all.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many; the first is 0.")] = 5,
) -> None:
    """Judge every right version of the collection at many seeds in all formats.

    Exit codes: 0 there is no alarm, 1 there is one.
    """
    unknown = [name for name in names or () if name not in CASES]
    if unknown:
        raise typer.BadParameter(f"unknown operator {unknown[0]!r}; there are {', '.join(CASES)}")
    console, found = Console(), 0
    for name in names or CASES:
        start, case = time.process_time(), CASES[name]
        first = Court(case.spec, "cpu", 0)
        for seed in range(seeds):
            report = alarms(case, first if seed == 0 else first.at_seed(seed), seed)
            found += len(report.rows)
            if report.rows:
                console.print(f"{name}, seed {seed}\n{report}", highlight=False, markup=False)
        console.print(f"{name}: {time.process_time() - start:.0f} s", highlight=False, markup=False)
    console.print(f"{found} alarms", highlight=False)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    app()
