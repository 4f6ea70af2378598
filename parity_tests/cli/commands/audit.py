"""The command `gradparity audit`: each operator of one training step of PyTorch, judged by its counterpart in JAX."""

from __future__ import annotations

import contextlib
import json as as_text
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parity_tests.cli.commands.found import entries, page
from parity_tests.cli.exit_codes import COULD_NOT_RUN
from parity_tests.cli.terminal import Output, complain

if TYPE_CHECKING:
    from parity_tests.auditing.findings import Audit
    from parity_tests.auditing.operation import Operation


def audit(
    make: Annotated[
        str,
        typer.Argument(
            help="file.py:NAME or module:NAME of a function without arguments. It returns a module, or a function that "
            "returns the loss; or a tuple of it and its arguments."
        ),
    ],
    inputs: Annotated[
        Path | None,
        typer.Option(help="A file of torch.save with the arguments: a tensor, a tuple, or a dictionary by name."),
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option("--compiled", help="Run what torch.compile compiles as Inductor's code: each region is judged."),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the combination of results, if none of them is a loss.")] = 0,
    json: Annotated[Path | None, typer.Option("--json", help="Write what was found to this file, as data.")] = None,
    arrays: Annotated[
        Path | None, typer.Option(help="Write the arrays of each operation that is wrong into this folder, as .npz.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write it as a page with the tree of modules.")] = None,
) -> None:
    """Run one training step, and judge each operator's results and gradients at the numbers that it has there.

    The step runs as it is, and nothing is trained. The first operator whose gradient is wrong, or not finite, is named
    with its module and line. Exit codes: 0 all that is judged agrees, 1 something is wrong, 2 it could not run, or
    nothing could be judged, 130 interrupted.
    """
    from parity_tests.auditing.audit import StepFailed, audited
    from parity_tests.cli.callables import callable_of
    from parity_tests.cli.case_file import CaseError

    try:
        step, args, kwargs = _step(_called(make, callable_of(make)), inputs)
        with _shown() as told:
            found = audited(step, args, kwargs, seed, compiled, told)
        Output().show("\n".join([str(found), *_known(found)]), soft_wrap=True, highlight=False, markup=False)
        for path in _write(found, json, html, arrays):
            case = "" if "_aten_" in path.name else " --case FILE.py:NAME"
            told_next = f"to do: fix it, and gradparity replay {shlex.quote(str(path))}{case}"
            Output().show(told_next, soft_wrap=True, highlight=False, markup=False)
    except (CaseError, StepFailed, OSError, ValueError) as error:
        complain(str(error))
        raise typer.Exit(COULD_NOT_RUN) from error
    raise typer.Exit(1 if found.faults else 0 if found.passed else COULD_NOT_RUN)


def _called(make: str, maker: Callable[[], Any]) -> Any:
    from parity_tests.cli.case_file import CaseError
    from parity_tests.harness.exceptions.errors import described

    try:
        return maker()
    except (Exception, SystemExit) as error:
        raise CaseError(f"{make}: {described(error)}") from error


def _step(made: Any, inputs: Path | None) -> tuple[Callable[..., Any], tuple, Mapping[str, Any]]:
    """The step and its arguments.

    Raises:
        ValueError: what was made is no step, or the file has no arguments.
    """
    step, *given = made if isinstance(made, tuple) and made else (made,)
    if not callable(step):
        raise ValueError(
            f"its result is of type {type(step).__name__}; return a module, or a function that returns the loss"
        )
    if inputs is None:
        return step, tuple(given), {}
    import torch

    try:
        loaded = torch.load(inputs, weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(
            f"--inputs {inputs}: torch.load cannot read it with weights_only; write it by torch.save"
        ) from error
    if isinstance(loaded, Mapping):
        if not all(isinstance(name, str) for name in loaded):
            raise ValueError(f"--inputs {inputs}: its keys are names of arguments, and must be strings")
        return step, (), loaded
    return step, tuple(loaded) if isinstance(loaded, tuple | list) else (loaded,), {}


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Output(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, transient=True, console=console) as progress:
        task = progress.add_task("operations", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _known(found: Audit) -> Iterator[str]:
    """A line for each operator with something wrong of which defects are known."""
    names = {_short(each.name) for each in found.faults if "::" in each.name}
    listed = entries(page()) if names else []
    for name in sorted(names):
        known = [entry for entry in listed if entry.what.startswith("PyTorch") and f"`{name}`" in entry.what]
        if known:
            yield f"known defects: {', '.join(str(entry.number) for entry in known)}, see: gradparity found {name}"


def _short(name: str) -> str:
    """The name that users know, such as "layer_norm" for "aten::native_layer_norm"."""
    return name.partition("::")[2].partition(".")[0].strip("_").removeprefix("native_")


def _write(found: Audit, json: Path | None, html: Path | None, arrays: Path | None) -> Sequence[Path]:
    """Write the files that are asked for, and return those of arrays."""
    if json is not None:
        operations = [_as_data(each) for each in found.operations]
        whole = {"passed": found.passed, "operations": operations, "unreached": list(found.unreached)}
        json.write_text(as_text.dumps(whole, indent=1) + "\n", encoding="utf-8")
    if html is not None:
        from parity_tests.auditing.page import as_html

        html.write_text(as_html(found), encoding="utf-8")
    return [] if arrays is None else _written_arrays(found, arrays)


def _written_arrays(found: Audit, folder: Path) -> Sequence[Path]:
    """Write the arrays of what is wrong; of an operation that was only given a NaN there are none."""
    from parity_tests.auditing.files import save

    folder.mkdir(parents=True, exist_ok=True)
    paths = list[Path]()
    for i, each in enumerate(found.faults):
        if each.facts is not None:
            paths.append(folder / f"{i}_{each.name.replace('::', '_').replace(' ', '_')}.npz")
            save(each, paths[-1])
    return paths


def _as_data(operation: Operation) -> dict[str, Any]:
    """An operation without its arrays, of which the names are told."""
    data = asdict(replace(operation, arrays={}, facts=None)) | {"arrays": [*operation.arrays]}
    del data["facts"]  # which belong to the arrays
    return data
