"""The command line: gradparity run, check, replay, mutate, captures, new, checks, doctor."""

from __future__ import annotations

import contextlib
import math
import shlex
import traceback
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from parity_tests.captures import show_captures
from parity_tests.case_file import CaseError, load_spec
from parity_tests.doctor import doctor as examine
from parity_tests.harness import hints, progress
from parity_tests.harness.budget import Check, Spent, budget, clock
from parity_tests.harness.candidate import NotBuilt
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.environment import environment
from parity_tests.harness.explaining import explain
from parity_tests.harness.guard import TRIAL_SECONDS, judge_guarded
from parity_tests.harness.numerics import cuda_missing
from parity_tests.harness.oracle import OracleError
from parity_tests.harness.processes import Pool, cores
from parity_tests.harness.provenance import Unreadable
from parity_tests.harness.render import below, costs, table
from parity_tests.harness.report import Report, Row
from parity_tests.harness.rounding import NoRule, NotFloat64
from parity_tests.harness.selection import DEVICES, left_out, one_of, select_checks, select_precisions
from parity_tests.harness.worker import WorkerError
from parity_tests.mutate import judge_mutants
from parity_tests.new_case import write_case
from parity_tests.order import Order, load
from parity_tests.replay import ReplayError
from parity_tests.replay import replay as judge_again

COULD_NOT_RUN = 2

FAILURES = Path("gradparity-failures")
Rows = Generator[Row | None, None, None]  # None: none yet, look at the clock

app = typer.Typer(
    help="Judge PyTorch derivatives by an independent JAX oracle.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

OnlyOption = Annotated[list[str] | None, typer.Option("--only", help="Only these checks: --only vjp,jvp_of_vjp.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="The most telling samples, float64 and bfloat16, no costly checks.")
]
DtypeOption = Annotated[list[str] | None, typer.Option("--dtype", help="Only this dtype; repeat for more.")]
DeviceOption = Annotated[list[str] | None, typer.Option("--device", help="cpu or cuda; by default all there are.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of the random inputs, cotangents and tangents.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the report to this file, as data.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Also write it to this file, as a page to look at.")]
FailuresOption = Annotated[
    Path, typer.Option("--failures", help="The folder for reproducers of failures, which is made if there are any.")
]
JobsOption = Annotated[int, typer.Option("-j", "--jobs", help="Processes, each judging one candidate at a time.")]
IsolateOption = Annotated[
    bool,
    typer.Option(
        help="Judge in another process, so that a candidate that crashes or hangs costs its own row; --no-isolate for "
        "a debugger.",
    ),
]
TrialOption = Annotated[
    float,
    typer.Option("--trial-timeout", min=0, help="Seconds at one sample, after which a candidate is said to hang."),
]
BudgetOption = Annotated[
    float | None, typer.Option("--budget", min=0, help="Seconds; what is not judged by then counts as not judged.")
]


@app.command()
def run(
    op: Annotated[
        str, typer.Option(help="attn, or attn_float32, or attention_head, _grouped, _unbatched, _causal: of models.")
    ] = "attn",
    candidate: Annotated[list[str] | None, typer.Option(help="Only this implementation; repeat for more.")] = None,
    only: OnlyOption = None,
    quick: QuickOption = False,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
    html: HtmlOption = None,
    failures: FailuresOption = FAILURES,
    seconds: BudgetOption = None,
    jobs: JobsOption = 1,
    isolate: IsolateOption = True,
    trial_timeout: TrialOption = TRIAL_SECONDS,
) -> None:
    """Judge every implementation of attn, or of --op: a table of checks x candidates, and every failure explained.

    Exit codes: 0 all agree, 1 a candidate disagrees, 2 something could not be judged.
    """
    from parity_tests.suite import operators  # the implementations, which `gradparity check` can do without

    try:
        one_of("op", op, [*operators.SPECS])
        names = [one_of("candidate", name, operators.names(op)) for name in candidate or operators.names(op)]
    except ValueError as error:
        raise _unusable(error) from error
    options = only, quick, dtype, device, seed, json, html, failures, seconds, jobs, isolate, trial_timeout
    _session(None, op, tuple(names), *options)


@app.command()
def check(
    case: Annotated[Path, typer.Argument(help="A Python file that defines spec and candidate (or candidates).")],
    only: OnlyOption = None,
    quick: QuickOption = False,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
    html: HtmlOption = None,
    failures: FailuresOption = FAILURES,
    seconds: BudgetOption = None,
    jobs: JobsOption = 1,
    isolate: IsolateOption = True,
    trial_timeout: TrialOption = TRIAL_SECONDS,
) -> None:
    """Judge an operator of your own, defined in a file, in the same way."""
    options = only, quick, dtype, device, seed, json, html, failures, seconds, jobs, isolate, trial_timeout
    _session(case, None, None, *options)


@app.command()
def replay(
    failure: Annotated[Path, typer.Argument(help="An .npz file that a run has written into gradparity-failures/.")],
    case: Annotated[
        Path | None, typer.Option(help="The file that defines spec and candidate, if it is another one now.")
    ] = None,
) -> None:
    """Judge one failure again, at exactly the arrays of the file.

    Exit codes: 0 the failure is gone, 1 the candidate still disagrees, 2 it could not be judged.
    """
    try:
        report, gone = judge_again(failure, case)
    except (ReplayError, CaseError, ValueError) as error:  # an OracleError is a ValueError
        raise _unusable(error) from error
    if gone:
        (row,) = report.rows
        told = f"{row.op}: {row.candidate} agrees with the oracle now: {row.check}, {row.dtype}, {row.device}"
        Console().print(told, soft_wrap=True, highlight=False, markup=False)
        raise typer.Exit(0)
    Console().print(below(report), soft_wrap=True, highlight=False)
    raise typer.Exit(report.exit_code)


@app.command()
def mutate(
    case: Annotated[Path, typer.Argument(help="A Python file that defines spec; a candidate is not needed.")],
    only: OnlyOption = None,
    seed: SeedOption = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the outcomes to this file, as data.")] = None,
) -> None:
    """Plant mistakes in the oracle's own derivatives, one at a time, and show which check catches each.

    Exit codes: 0 none survives, 1 some do, 2 it could not run.
    """
    try:
        code = judge_mutants(load_spec(case), select_checks(_names(only) or None), seed, json)
    except (CaseError, OracleError, NoRule, NotFloat64, ValueError) as error:
        raise _unusable(error) from error
    raise typer.Exit(code)


@app.command()
def captures(
    formula: Annotated[
        str, typer.Argument(help="module:Name or file.py:Name, of an autograd.Function or a function of closures.")
    ],
) -> None:
    """List what the backward of a formula captures, and which of it makes double backward silently wrong.

    It reads the source and runs nothing. Exit codes: 0 all is fine, 1 something is wrong, 2 it cannot tell.
    """
    try:
        code = show_captures(formula)
    except (CaseError, Unreadable) as error:
        raise _unusable(error) from error
    raise typer.Exit(code)


@app.command()
def new(case: Annotated[Path, typer.Argument(help="The Python file to write.")]) -> None:
    """Write a commented starting file for `gradparity check`, which runs as it is."""
    try:
        write_case(case)
    except (FileExistsError, FileNotFoundError, ValueError) as error:
        raise _unusable(error) from error
    Console().print(f"{case} is written; judge it with: gradparity check {shlex.quote(str(case))}", soft_wrap=True)


@app.command()
def checks() -> None:
    """List the checks, and what each is there to catch."""
    grid = Table("check", "catches")
    for item in CHECKS.values():
        grid.add_row(item.name, item.catches + ("\n(on request: --only " + item.name + ")" if item.on_request else ""))
    Console().print(grid)


@app.command()
def doctor() -> None:
    """Devices, versions, compiler, precision settings: what this machine can judge."""
    Console().print(examine())


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"gradparity {metadata.version('gradparity')}")
        except metadata.PackageNotFoundError:
            typer.echo("gradparity, run from a checkout that is not installed")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Version.")] = False,
) -> None:
    """Judge PyTorch derivatives by an independent JAX oracle."""


def _names(only: list[str] | None) -> list[str]:
    return [name.strip() for names in only or () for name in names.split(",")]


def _unusable(error: Exception) -> typer.Exit:
    Console(stderr=True).print(f"[bold red]gradparity:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
    return typer.Exit(COULD_NOT_RUN)


def _session(
    case: Path | None,
    op: str | None,
    names: tuple[str, ...] | None,
    only: list[str] | None,
    quick: bool,
    dtypes: list[str] | None,
    devices: list[str] | None,
    seed: int,
    json: Path | None,
    html: Path | None,
    failures: Path,
    seconds: float | None,
    jobs: int,
    isolate: bool,
    trial_seconds: float,
) -> None:
    """Judge, show the table as it grows, tell the failures, write the report, exit."""
    try:
        if jobs < 1:
            raise ValueError(f"-j {jobs}: nobody would judge; give the number of processes, 1 or more")
        if jobs > 1 and not isolate:
            raise ValueError(f"-j {jobs} judges in {jobs} processes, and --no-isolate in this one; leave one out")
        for option, path in (("--json", json), ("--html", html)):
            if path is not None and not path.parent.is_dir():
                raise ValueError(f"{option} {path}: there is no folder {path.parent}")
            if path is not None and path.is_dir():
                raise ValueError(f"{option} {path}: is a folder; give the name of a file")
        wanted = [one_of("device", device, DEVICES) for device in devices or DEVICES]
        chosen = select_checks(_names(only) or None, quick)
        spec, candidates = load(case, op, names)
        precisions = select_precisions(dtypes or None, spec, quick)
        missing = cuda_missing() if "cuda" in wanted else None
        if missing and devices:
            raise ValueError(f"device cuda cannot be judged here: {missing}")
    except (CaseError, ValueError) as error:
        raise _unusable(error) from error
    present = tuple(device for device in wanted if device != "cuda" or not missing)
    report = Report(environment(present, seed))
    if missing:
        report.skipped.append(f"device cuda: {missing}")

    if quick:
        report.skipped.append(left_out(chosen, precisions))

    by_name = tuple(item.name for item in chosen), tuple(precision.name for precision in precisions)
    orders = [Order(case, op, names, None, device, *by_name, seed, math.inf, quick, failures) for device in present]
    length = sum(order.docket(spec, candidates).length for order in orders)
    alone = [one for order in orders for one in order.one_by_one(candidates)]
    if isolate:
        report.not_built.extend(candidate for candidate in candidates if isinstance(candidate, NotBuilt))

    def judge_here() -> None:
        def last_words(reason: str) -> None:
            report.error = reason
            write()
            Console().print("", below(report), sep="\n", soft_wrap=True, highlight=False)

        with budget(seconds, last_words, COULD_NOT_RUN) as (deadline, check_time):
            dated = [replace(order, deadline=deadline) for order in orders]
            rows = (row for order in dated for row in order.judge(spec, candidates, report))
            _judge_live(rows, length, report, check_time)

    def judge_elsewhere() -> None:
        shared = alone if jobs > 1 and len(alone) > 1 else orders
        with Pool(min(jobs, cores(), len(shared))) as pool:
            pool.prepare()
            deadline, check_time = clock(seconds)
            dated = [replace(order, deadline=deadline) for order in shared]
            _judge_live(judge_guarded(dated, report, pool, trial_seconds), length, report, check_time)

    def write() -> None:
        if json is not None:
            report.to_json(json)
        if html is not None:
            explain(f"the page {html}", partial(report.to_html, html), report.skipped)

    try:
        judge_elsewhere() if isolate else judge_here()
    except OracleError as error:
        report.error = hints.of_oracle_error(error)
    except (WorkerError, Spent, hints.NotOnTensors) as error:
        report.error = str(error)
    except KeyboardInterrupt:
        report.error = "interrupted"
    except Exception as error:  # a sampler of the user's, or a defect of the harness: whoever reads it must see where
        traceback.print_exc()
        report.error = f"{type(error).__name__}: {error}"
    write()
    Console().print("", costs(report), "", below(report), sep="\n", soft_wrap=True, highlight=False)
    raise typer.Exit(report.exit_code)


def _judge_live(rows: Rows, length: int, report: Report, check_time: Check) -> None:
    seen: set[str] = set()
    shown, move_on = progress.bar(length)
    with Live(shown, console=Console(), refresh_per_second=4) as live, contextlib.closing(rows):
        try:
            for row in rows:
                if row is not None:
                    move_on(row)
                    live.update(Group(table(report), shown))
                    hints.check_first_row(row, seen)
                check_time(row)
        finally:
            live.update(table(report) if report.rows else "", refresh=True)


main: Callable[[], None] = app

if __name__ == "__main__":
    main()
