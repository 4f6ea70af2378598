"""The command line: gradparity run, check, mutate, new, checks, doctor."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from parity_tests.budget import Spent, budget
from parity_tests.case_file import CaseError, load_case, load_spec
from parity_tests.doctor import doctor as examine
from parity_tests.harness.candidate import Candidate, NotBuilt
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.crosscheck import DEVICES, one_of, select_checks, select_precisions
from parity_tests.harness.environment import environment
from parity_tests.harness.jax_candidate import JaxCandidate
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.numerics import cuda_missing
from parity_tests.harness.oracle import OracleError
from parity_tests.harness.render import below, table
from parity_tests.harness.report import Report, Row
from parity_tests.harness.rounding import NoRule, NotFloat64
from parity_tests.harness.spec import OpSpec
from parity_tests.mutate import judge_mutants
from parity_tests.new_case import write_case

COULD_NOT_RUN = 2

app = typer.Typer(
    help="Judge PyTorch derivatives by an independent JAX oracle.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

CheckOption = Annotated[list[str] | None, typer.Option("--check", help="Only this check; repeat for more.")]
DtypeOption = Annotated[list[str] | None, typer.Option("--dtype", help="Only this dtype; repeat for more.")]
DeviceOption = Annotated[list[str] | None, typer.Option("--device", help="cpu or cuda; by default all there are.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of the random inputs, cotangents and tangents.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the report to this file, as data.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Also write it to this file, as a page to look at.")]
BudgetOption = Annotated[
    float | None, typer.Option("--budget", min=0, help="Seconds; what is not judged by then counts as not judged.")
]


@app.command()
def run(
    candidate: Annotated[list[str] | None, typer.Option(help="Only this implementation; repeat for more.")] = None,
    check: CheckOption = None,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
    html: HtmlOption = None,
    seconds: BudgetOption = None,
) -> None:
    """Judge every implementation of attn: a table of checks x candidates, and every failure explained.

    Exit codes: 0 all agree, 1 a candidate disagrees, 2 something could not be judged.
    """
    from parity_tests.suite import attn  # the implementations, which `gradparity check` can do without

    try:
        names = [one_of("candidate", name, attn.NAMES) for name in candidate or attn.NAMES]
    except ValueError as error:
        raise _unusable(error) from error
    candidates = [attn.candidate(name) for name in names]
    _session(attn.SPEC, candidates, check, dtype, device, seed, json, html, seconds, "gradparity run")


@app.command()
def check(
    case: Annotated[Path, typer.Argument(help="A Python file that defines spec and candidate (or candidates).")],
    check: CheckOption = None,
    dtype: DtypeOption = None,
    device: DeviceOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
    html: HtmlOption = None,
    seconds: BudgetOption = None,
) -> None:
    """Judge an operator of your own, defined in a file, in the same way."""
    try:
        spec, candidates = load_case(case)
    except CaseError as error:
        raise _unusable(error) from error
    _session(
        spec, candidates, check, dtype, device, seed, json, html, seconds, f"gradparity check {shlex.quote(str(case))}"
    )


@app.command()
def mutate(
    case: Annotated[Path, typer.Argument(help="A Python file that defines spec; a candidate is not needed.")],
    check: CheckOption = None,
    seed: SeedOption = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the outcomes to this file, as data.")] = None,
) -> None:
    """Plant mistakes in the oracle's own derivatives, one at a time, and show which check catches each.

    Exit codes: 0 none survives, 1 some do, 2 it could not run.
    """
    try:
        code = judge_mutants(load_spec(case), select_checks(check or None), seed, json)
    except (CaseError, OracleError, NoRule, NotFloat64, ValueError) as error:
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
        grid.add_row(item.name, item.catches)
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


def _unusable(error: Exception) -> typer.Exit:
    Console(stderr=True).print(f"[bold red]gradparity:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
    return typer.Exit(COULD_NOT_RUN)


def _session(
    spec: OpSpec,
    candidates: Sequence[Candidate | JaxCandidate | NotBuilt],
    checks: list[str] | None,
    dtypes: list[str] | None,
    devices: list[str] | None,
    seed: int,
    json: Path | None,
    html: Path | None,
    seconds: float | None,
    command: str,
) -> None:
    """Judge, show the table as it grows, tell the failures, write the report, exit."""
    try:
        for option, path in (("--json", json), ("--html", html)):
            if path is not None and not path.parent.is_dir():
                raise ValueError(f"{option} {path}: there is no folder {path.parent}")
            if path is not None and path.is_dir():
                raise ValueError(f"{option} {path}: is a folder; give the name of a file")
        wanted = [one_of("device", device, DEVICES) for device in devices or DEVICES]
        chosen, precisions = select_checks(checks or None), select_precisions(dtypes or None)
        missing = cuda_missing() if "cuda" in wanted else None
        if missing and devices:
            raise ValueError(f"device cuda cannot be judged here: {missing}")
    except ValueError as error:
        raise _unusable(error) from error
    present = tuple(device for device in wanted if device != "cuda" or not missing)
    report = Report(environment(present, seed))
    if missing:
        report.skipped.append(f"device cuda: {missing}")

    def replay(row: Row) -> str:
        options = f"--check {row.check} --dtype {row.dtype} --device {row.device} --seed {seed}"
        which = f" --candidate {row.candidate}" if command.endswith(" run") else ""
        return f"{command}{which} {options}"

    dockets = [Docket(spec, candidates, chosen, precisions, device, seed, replay) for device in present]

    def write() -> None:
        if json is not None:
            report.to_json(json)
        if html is not None:
            report.to_html(html)

    def last_words(reason: str) -> None:
        report.error = reason
        write()
        Console().print("", below(report), sep="\n", soft_wrap=True, highlight=False)

    try:
        with budget(seconds, last_words, COULD_NOT_RUN) as check_time:
            _judge_live(dockets, report, check_time)
    except (OracleError, Spent) as error:
        report.error = str(error)
    except KeyboardInterrupt:
        report.error = "interrupted"
    finally:
        write()
    Console().print("", below(report), sep="\n", soft_wrap=True, highlight=False)
    raise typer.Exit(report.exit_code)


def _judge_live(dockets: list[Docket], report: Report, check_time: Callable[[], None]) -> None:
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), transient=True
    )
    task = progress.add_task("certifying the oracle", total=sum(docket.length for docket in dockets))
    with Live(progress, console=Console(), refresh_per_second=4) as live:
        try:
            for docket in dockets:
                for row in judge(docket, report):
                    progress.update(task, advance=1, description=f"{escape(row.candidate)} {row.dtype} {row.check}")
                    live.update(Group(table(report), progress))
                    check_time()
        finally:
            live.update(table(report) if report.rows else "", refresh=True)


main: Callable[[], None] = app

if __name__ == "__main__":
    main()
