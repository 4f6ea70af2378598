"""The commands `gradparity sweep` and `gradparity merge`, with their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.interruption import Interruption
from parity_tests.cli.report_files import ReportFile, report_files
from parity_tests.cli.terminal import complain
from parity_tests.harness.names import one_of
from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import ALL_DTYPES, ALL_MODES, DTYPES, MODES, THIRD_ORDER
from parity_tests.sweep.sharding import Shard

_LIMITS = Limits()


OperatorsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[OPERATOR]...", help="As tanh or sum.dim_IntList; by default all.")
]
JobsOption = Annotated[int, typer.Option("-j", "--jobs", min=1, help="So many processes, each with one thread.")]
ModeOption = Annotated[
    list[str] | None,
    typer.Option("--mode", help=f"{', '.join(ALL_MODES)}; repeat for more. The last four are on request only."),
]
DtypeOption = Annotated[
    list[str] | None, typer.Option("--dtype", help=f"{', '.join(ALL_DTYPES)}; the last two are on request only.")
]
ResumeOption = Annotated[
    Path | None,
    typer.Option("--resume", help="The file of results: it is gone on with, or begun if it is not there."),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the table to this file, as data.")]
HtmlOption = Annotated[Path | None, typer.Option("--html", help="Also write it to this file, as a page.")]
ExpectedOption = Annotated[
    Path | None, typer.Option("--expected", help="The discrepancies that are expected; others exit with code 1.")
]
SaveExpectedOption = Annotated[
    Path | None, typer.Option("--save-expected", help="Write the discrepancies that were found to this file.")
]
TenthOption = Annotated[
    int | None, typer.Option("--tenth", min=0, help="One of ten parts: 0 to 9, or any number, modulo 10.")
]
ShardOption = Annotated[str | None, typer.Option("--shard", help="One of several parts: 2/5; merge the results.")]
DaskOption = Annotated[str | None, typer.Option("--dask", help="A Dask scheduler, tcp://...: its workers judge.")]
TimeoutOption = Annotated[float, typer.Option("--timeout", min=1, help="Seconds of CPU time for an operator.")]
CompareOption = Annotated[
    tuple[Path, Path] | None, typer.Option("--compare", help="Judge nothing; show what differs between two files.")
]


def sweep(
    context: typer.Context,
    operators: OperatorsArgument = None,
    *,
    jobs: JobsOption = 1,
    mode: ModeOption = None,
    dtype: DtypeOption = None,
    resume: ResumeOption = None,
    json: JsonOption = None,
    html: HtmlOption = None,
    expected: ExpectedOption = None,
    save_expected: SaveExpectedOption = None,
    tenth: TenthOption = None,
    shard: ShardOption = None,
    dask: DaskOption = None,
    timeout: TimeoutOption = _LIMITS.seconds,
    compare: CompareOption = None,
) -> None:
    """Judge every derivative formula of PyTorch by JAX, each in a process that may crash or hang.

    The results are written to gradparity-sweep.jsonl as they come. Exit codes: 0 all agree, or differ as expected; 1
    some do not; 2 something could not be judged; 130 interrupted.
    """
    from parity_tests.cli.commands import sweep as command
    from parity_tests.sweep.running import Lost

    try:
        if compare is not None:
            raise typer.Exit(command.compare(*compare))
        options = command.SweepOptions(
            names=tuple(operators or ()),
            modes=tuple(one_of("mode", each, ALL_MODES) for each in mode or (*MODES, THIRD_ORDER)),
            third_order_of_norms=not mode,
            dtypes=tuple(one_of("dtype", each, ALL_DTYPES) for each in dtype or DTYPES),
            jobs=jobs,
            dask=dask,
            shard=None if shard is None else Shard.parse(shard),
            tenth=tenth,
            file=resume,
            json=(files := report_files(json, html))[0],
            html=files[1],
            expected=expected,
            save_expected=ReportFile.of("--save-expected", save_expected),
            limits=Limits(seconds=timeout),
        )
        code = command.sweep(options, context.obj if isinstance(context.obj, Interruption) else Interruption())
    except (ImportError, LookupError, Lost, OSError, ValueError) as error:
        _give_up(error)
    raise typer.Exit(code)


def merge(
    files: Annotated[list[Path], typer.Argument(help="Files of results, such as those of shards.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file of results to write.")],
) -> None:
    """Merge the results of several sweeps into one file, and show them; what two files have must be equal.

    Exit codes: as of `gradparity sweep`; 2 also if the files do not belong together, or if operators are missing.
    """
    from parity_tests.cli.commands.sweep import merge as merge_files

    try:
        file = ReportFile.of("--output", output)
        assert file is not None
        code = merge_files(files, file)
    except (OSError, ValueError) as error:
        _give_up(error)
    raise typer.Exit(code)


def _give_up(error: Exception) -> NoReturn:
    complain(str(error))
    raise typer.Exit(COULD_NOT_RUN) from error
