"""The commands of `gradparity`.

Each command imports what it needs: PyTorch and JAX take seconds, for which a question about options need not wait.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from parity_tests.cli.commands.audit import audit
from parity_tests.cli.commands.checks import checks, explain
from parity_tests.cli.commands.found import found
from parity_tests.cli.commands.mcp import mcp
from parity_tests.cli.commands.report import report
from parity_tests.cli.commands.serve import serve
from parity_tests.cli.commands.sweep_and_merge import merge, sweep
from parity_tests.cli.configuration import defaults
from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.help import GroupedCommand
from parity_tests.cli.interruption import INTERRUPTED, TEXT, Interruption
from parity_tests.cli.judging_options import OnlyOption, SeedOption, judging_options, names_of
from parity_tests.cli.options import Options
from parity_tests.cli.report_files import ReportFile, ReportFiles, empty_report
from parity_tests.cli.served import Served, all_forked
from parity_tests.cli.sources import SOURCES
from parity_tests.cli.sources.against_reference import AgainstReference
from parity_tests.cli.sources.apart import CHECKS as FIRST_ORDER
from parity_tests.cli.sources.apart import INSIDE, Apart
from parity_tests.cli.sources.source import Source, SourceCommand
from parity_tests.cli.terminal import Output, complain
from parity_tests.harness.isolation.orphans import Adopted
from parity_tests.harness.isolation.processes import Pool, cores
from parity_tests.harness.names import CHECKS, selected
from parity_tests.harness.specs.seeds import HiddenSeed

app = typer.Typer(
    help="Judge PyTorch derivatives by an independent JAX oracle.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def add_command(app: typer.Typer, command: SourceCommand) -> None:
    """Add the command that judges what a source has: with the source's own arguments, and the options of them all."""
    own = inspect.signature(command.sources, eval_str=True).parameters
    shared = inspect.signature(judging_options, eval_str=True).parameters.values()

    def judge(context: typer.Context, **arguments: Any) -> None:
        of_source = {name: arguments.pop(name) for name in own}
        options = judging_options(**arguments)
        options = replace(options, only=options.only or command.checks, dtypes=options.dtypes or command.dtypes)
        try:
            files = options.checked()
            sources = command.sources(**of_source)
            source = context.get_parameter_source("seed")  # of the Click that Typer has brought or found
            options = replace(options, drawn=source is None or source.name == "DEFAULT")
            if not options.drawn and isinstance(options.seed, HiddenSeed):
                raise ValueError("--hidden-seed draws the seed; leave --seed out")
            served = isinstance(context.obj, Served)
            can_be_served = options.watch and _can_be_served(command, options, files, sources)
            options, sources = _apart(command, options, files, sources, served)
            watched = [file for source in sources for file in source.files]
            if options.watch and not watched:
                raise ValueError(f"--watch: {command.name} judges what is installed, and no file of yours")
        except (OSError, ValueError) as error:
            raise _unusable(error) from error
        if options.watch:
            _watch(watched, context, can_be_served)
        _judge(sources, options, files, context)

    of_context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    judge.__signature__ = inspect.Signature([of_context, *own.values(), *shared])  # type: ignore[attr-defined]
    app.command(command.name, cls=GroupedCommand, help=command.help)(judge)


def _can_be_served(command: SourceCommand, options: Options, files: ReportFiles, sources: Sequence[Source]) -> bool:
    """Whether `--watch` judges in processes that stay: what was asked for must be what is judged there."""
    if command.apart is None or not options.isolate or not options.only:
        return False
    once = replace(options, watch=False)
    return all_forked(_apart(command, once, files, sources, served=True)[1])


def _apart(
    command: SourceCommand, options: Options, files: ReportFiles, sources: Sequence[Source], served: bool
) -> tuple[Options, Sequence[Source]]:
    """The solutions of somebody else's in processes of their own, at inputs that nobody can know beforehand.

    And those that are served, as far as that can be judged there.
    """
    if served and (options.watch or not options.isolate):
        raise ValueError(f"{'--watch' if options.watch else '--no-isolate'}: a server judges once, in other processes")
    if command.apart is None:
        return options, sources
    reports = [file.path for file in files if file is not None and file.path is not None]
    forked = served and sys.platform.startswith("linux") and {*options.checks} <= {*FIRST_ORDER}
    how = Apart(options.trial_seconds, (*reports, options.start / options.failures), forked)
    found = [command.apart(source, how) for source in sources]
    if found == [*sources]:
        return options, sources
    if options.drawn and not isinstance(options.seed, HiddenSeed) and not all_forked(found):
        options = replace(options, seed=secrets.randbelow(2**31))
    options = replace(options, only=options.only or FIRST_ORDER)
    if not options.isolate or os.name != "posix":  # other systems hand over no pipes
        if any(isinstance(source, AgainstReference) for source in sources):
            raise ValueError("--untrusted is judged in processes of its own, on Unix; leave --no-isolate out")
        return options, sources
    inside = sorted(INSIDE & {*options.checks})
    if inside:
        raise ValueError(
            f"{inside[0]} looks into the process of what is judged, which is one of its own; leave the check out, or "
            "judge it in this one, which then believes it: --no-isolate"
        )
    return replace(options, apart=True), found


_command_of = functools.partial(app.command, cls=GroupedCommand)

for _command in SOURCES:
    add_command(app, _command)


@_command_of()
def replay(
    context: typer.Context,
    failure: Annotated[
        Path, typer.Argument(help="An .npz file of gradparity-failures/, or of gradparity audit --arrays.")
    ],
    case: Annotated[
        Path | None,
        typer.Option(
            help="The file that defines spec and candidate, if it is another one now. Of an audit's file, file.py:NAME "
            "of the function that takes the operation's place; without it PyTorch's operator runs."
        ),
    ] = None,
) -> None:
    """Judge one failure again, or one operation of an audit, at exactly the arrays of the file.

    Exit codes: 0 the failure is gone, 1 the candidate still disagrees, 2 it could not be judged, 130
    interrupted.
    """
    from parity_tests.cli.commands.replay import ReplayError, shown
    from parity_tests.harness.isolation.messages import CannotLoad

    try:
        with _interruption(context).raised():
            found, code = shown(failure, case)
    except KeyboardInterrupt as interrupt:
        raise _interrupted() from interrupt
    except (ReplayError, CannotLoad, ValueError) as error:  # an OracleError is a ValueError
        raise _unusable(error) from error
    Output().show(found, soft_wrap=True, highlight=False)
    raise typer.Exit(code)


@_command_of()
def mutate(
    context: typer.Context,
    case: Annotated[Path, typer.Argument(help="A Python file that defines spec; a candidate is not needed.")],
    only: OnlyOption = None,
    seed: SeedOption = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Also write the outcomes to this file, as data.")] = None,
) -> None:
    """Plant mistakes in the oracle's own derivatives, one at a time, and show which check catches each.

    Exit codes: 0 none survives, 1 some do, 2 it could not run, 130 interrupted.
    """
    try:
        if only:
            selected("check", names_of(only), CHECKS)
        file = ReportFile.of("--json", json)
    except ValueError as error:
        raise _unusable(error) from error
    from parity_tests.cli.case_file import load_spec
    from parity_tests.cli.commands.mutate import judge_mutants
    from parity_tests.harness.isolation.messages import CannotLoad
    from parity_tests.harness.judging.selection import select_checks
    from parity_tests.harness.oracle.oracle import OracleError
    from parity_tests.harness.primitives.missing import NoRule, NotFloat64

    try:
        with _interruption(context).raised():
            code = judge_mutants(
                load_spec(case), select_checks(names_of(only) or None), seed, file, _interruption(context)
            )
    except KeyboardInterrupt as interrupt:
        raise _interrupted() from interrupt
    except (CannotLoad, OracleError, NoRule, NotFloat64, ValueError) as error:
        raise _unusable(error) from error
    raise typer.Exit(code)


@_command_of()
def captures(
    formula: Annotated[
        str, typer.Argument(help="module:Name or file.py:Name, of an autograd.Function or a function of closures.")
    ],
) -> None:
    """List what the backward of a formula captures, and which of it makes double backward silently wrong.

    It imports the formula's module and reads its source; the formula does not run. Exit codes: 0 all is fine, 1
    something is wrong, 2 it cannot tell.
    """
    from parity_tests.cli.commands.captures import show_captures
    from parity_tests.harness.captures.provenance import Unreadable
    from parity_tests.harness.isolation.messages import CannotLoad

    try:
        code = show_captures(formula)
    except (CannotLoad, Unreadable) as error:
        raise _unusable(error) from error
    raise typer.Exit(code)


@_command_of()
def formula(
    name: Annotated[str, typer.Argument(help="An operator of ATen, as tanh or sum.dim_IntList; or a .yaml file.")],
    op: Annotated[str | None, typer.Option("--op", help="Of a file: only this operator.")] = None,
    spec: Annotated[
        Path | None, typer.Option("--spec", help="Of one operator of a file: a case file with the spec to judge by.")
    ] = None,
    proof: Annotated[bool, typer.Option("--proof", help="Of a file: prove them, too, in finite fields.")] = False,
) -> None:
    """Show PyTorch's derivative formulas of an operator; or judge the entries of a derivatives.yaml, uncompiled.

    An entry is judged by jax_ref.aten at PyTorch's own samples, or by a spec. Exit codes: 0 all agree, but for
    formulas that are PyTorch's own, unchanged, 1 an entry disagrees, 2 something could not be judged.
    """
    from parity_tests.cli.commands.formula import judge_formulas, show_formulas
    from parity_tests.harness.isolation.messages import CannotLoad
    from torch_impl.derivatives import DerivativesFileError

    try:
        is_file = name.endswith((".yaml", ".yml"))
        if not is_file and (op or spec or proof):
            raise ValueError(f"--op, --spec and --proof are for a file of formulas, and {name!r} is no .yaml")
        code = judge_formulas(Path(name), op, spec, proof) if is_file else show_formulas(name)
    except (CannotLoad, DerivativesFileError, LookupError, ValueError) as error:
        raise _unusable(error) from error
    raise typer.Exit(code)


_command_of()(audit)
_command_of()(serve)
_command_of()(mcp)
_command_of()(sweep)
_command_of()(merge)


@_command_of()
def new(case: Annotated[Path, typer.Argument(help="The Python file to write.")]) -> None:
    """Write a commented starting file for `gradparity check`, which runs as it is."""
    from parity_tests.cli.commands.new_case import write_case

    try:
        write_case(case)
    except (OSError, ValueError) as error:
        raise _unusable(error) from error
    name = shlex.quote(str(case))
    command = f"gradparity check {'-- ' if name.startswith('-') else ''}{name}"  # else it would be an option
    message = f"{case} is written; judge it with: {command}"
    Output().show(message, soft_wrap=True, markup=False)


_command_of()(report)
_command_of()(checks)
_command_of()(explain)
_command_of()(found)


@_command_of()
def doctor() -> None:
    """Devices, versions, compiler, precision settings: what this machine can judge."""
    from parity_tests.cli.commands.doctor import doctor as examine

    Output().show(examine())


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"gradparity {metadata.version('gradparity')}")
        except metadata.PackageNotFoundError:
            typer.echo("gradparity, run from a checkout that is not installed")
        raise typer.Exit


@app.callback()
def _of_all(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Judge PyTorch derivatives by an independent JAX oracle."""
    name = context.invoked_subcommand
    if name in {command.name for command in SOURCES}:
        # Before the command's own arguments are read: what is given there counts more.
        parameters = context.command.commands[name].params  # type: ignore[attr-defined]
        options = {flag.removeprefix("--"): p.name for p in parameters for flag in p.opts if flag.startswith("--")}
        try:
            context.default_map = {name: defaults(Path.cwd(), options)}
        except ValueError as error:
            raise _unusable(error) from error


def _unusable(error: Exception) -> typer.Exit:
    complain(str(error))
    return typer.Exit(COULD_NOT_RUN)


def _interrupted() -> typer.Exit:
    complain(TEXT)
    return typer.Exit(INTERRUPTED)


def _interruption(context: typer.Context) -> Interruption:
    """The handling of signals, which is the process's own if this is the program; a test handles its signals itself."""
    return context.obj if isinstance(context.obj, Interruption) else Interruption()


def _watch(files: Sequence[Path], context: typer.Context, can_be_served: bool) -> NoReturn:
    from parity_tests.cli.watch import Kept, watch

    interruption = _interruption(context)
    try:
        if not can_be_served:
            watch(files, interruption, None)
        with contextlib.closing(Served()) as served:
            command = context.find_root().command

            def last_words() -> None:
                served.last_words()
                served.close()

            interruption.last_words = last_words
            watch(files, interruption, Kept(functools.partial(served.run, command), served))
    except KeyboardInterrupt as interrupt:
        raise _interrupted() from interrupt


def _judge(
    sources: Sequence[Source],
    options: Options,
    files: ReportFiles,
    context: typer.Context,
) -> None:
    """Start the processes that judge, which takes seconds, and import meanwhile what shows their results."""
    interruption = _interruption(context)
    warm = context.obj.pool(sources) if isinstance(context.obj, Served) and all_forked(sources) else None
    pool = warm or (Pool(min(options.jobs, cores())) if options.isolate else None)

    def write(text: str) -> None:
        if files.json is not None and files.json.kept:
            files.json.write(empty_report(text))

    def last_words() -> None:
        if pool is not None:
            pool.kill()
        write(TEXT)

    interruption.last_words = last_words
    try:
        adopting = Adopted().adopting() if options.apart and warm is None else contextlib.nullcontext()
        with adopting as adopted, contextlib.nullcontext() if pool is None or pool is warm else pool:
            with contextlib.suppress(OSError):  # tried again in the end, and told
                write("not finished: nothing is judged yet")
            if pool is not None and pool is not warm:
                # One for each candidate; of a source that must be loaded first, none is known yet.
                pool.start(sum(len(source.names or ("unknown",)) for source in sources))
            from parity_tests.cli.session import Session
            from parity_tests.harness.isolation.messages import CannotLoad

            try:
                code = Session(sources, options, files, interruption, pool, adopted=adopted).run()
            except CannotLoad as error:
                with contextlib.suppress(OSError):
                    write(str(error))
                raise _unusable(error) from error
    finally:
        interruption.last_words = lambda: None
    raise typer.Exit(code)
