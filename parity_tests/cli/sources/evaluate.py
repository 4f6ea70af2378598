"""Solutions in the forms of two evaluators as a source: KernelBench's `ModelNew`, BackendBench's folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from parity_tests.cli.regular_file import why_no_file
from parity_tests.cli.sources.apart import CHECKS, Apart
from parity_tests.cli.sources.backendbench import AT_CALLS, BackendBenchOperator, implementations
from parity_tests.cli.sources.kernelbench import KernelBenchProblem
from parity_tests.cli.sources.source import FailedCandidate, Source, SourceCommand
from parity_tests.harness.isolation.budget import TRIAL_SECONDS

_REPLAYED = Apart(TRIAL_SECONDS)
Solutions = Sequence[KernelBenchProblem | BackendBenchOperator]


def solutions(
    problem: Annotated[
        Path | None,
        typer.Argument(help="A file in KernelBench's form: Model, get_inputs() and get_init_inputs()."),
    ] = None,
    solution: Annotated[Path | None, typer.Argument(help="A file that defines ModelNew.")] = None,
    backendbench: Annotated[
        Path | None,
        typer.Option(
            help="Instead of both: a folder in BackendBench's form, add__Tensor/add__Tensor_implementation*.py."
        ),
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option(help="With --backendbench: only this folder of an operator; repeat for more.")
    ] = None,
    given_only: Annotated[
        bool, typer.Option("--given-only", help="Judge at get_inputs(), or PyTorch's samples, and at no other sizes.")
    ] = False,
) -> Solutions:
    """Return the solutions to evaluate, one for each kind of inputs, or for each operator and call.

    Raises:
        ValueError: a file or a folder is missing, or both forms are given.
    """
    if backendbench is None:
        if op:
            raise ValueError("--op is about a folder of operators: --backendbench FOLDER")
        if problem is None or solution is None:
            raise ValueError("give a problem and a solution, or --backendbench FOLDER")
        for path in (problem, solution):
            if reason := why_no_file(path):
                raise ValueError(f"{path}: {reason}")
            if path.suffix != ".py":
                raise ValueError(f"{path}: not a Python file; its name must end in .py")
        kinds = (True,) if given_only else (True, False)
        return [KernelBenchProblem(problem, solution, given, Path.cwd()) for given in kinds]
    if problem is not None:
        raise ValueError("give a problem and a solution, or --backendbench FOLDER, not both")
    if not backendbench.is_dir():
        raise ValueError(f"--backendbench {backendbench}: is no folder")
    known = implementations(backendbench)
    unknown = [name for name in op or () if name not in known]
    if unknown or not known:
        what = f"no implementation of {unknown[0]}" if unknown else "no add__Tensor/add__Tensor_implementation*.py"
        raise ValueError(f"--backendbench {backendbench}: has {what}")
    numbers: Sequence[int | None] = AT_CALLS if given_only else (*AT_CALLS, None)
    return [BackendBenchOperator(backendbench, name, call, Path.cwd()) for name in op or known for call in numbers]


def apart(source: Source, how: Apart) -> Source:
    """A solution that runs in a process of its own."""
    assert isinstance(source, KernelBenchProblem | BackendBenchOperator)
    return replace(source, apart=how)


def of_failure(failed: FailedCandidate) -> KernelBenchProblem | BackendBenchOperator | None:
    """The solution that failed.

    Raises:
        CannotLoad: a file that would be run lies outside of the current folder: see `FailedCandidate.file`.
    """
    origin = failed.origin or {}
    if {"problem", "solution", "given"} <= origin.keys():
        problem, solution = (failed.file(role, origin[role]) for role in ("problem", "solution"))
        return KernelBenchProblem(problem, solution, origin["given"] == "True", apart=_REPLAYED)
    if {"folder", "op", "call"} <= origin.keys():
        call = int(origin["call"]) if origin["call"].isdecimal() else None
        folder = Path(origin["folder"])
        known = implementations(folder) if folder.is_dir() else {}
        failed.file("implementation", str(known.get(origin["op"], folder / origin["op"])))
        return BackendBenchOperator(folder, origin["op"], call, apart=_REPLAYED)
    return None


COMMAND = SourceCommand(
    "evaluate",
    """Judge a solution of a benchmark of kernels: forward and backward, and whether it computes anything itself.

    KernelBench's form: evaluate problem.py solution.py. BackendBench's: evaluate --backendbench FOLDER. Unless --only
    and --dtype say otherwise, by the checks that a kernel with a backward must pass, in float32. The JSON has a
    `summary`: verdict, reason and smallest case of each solution. Exit codes: 0 right, 1 wrong, 2 something could not
    be judged, 130 interrupted.
    """,
    solutions,
    of_failure,
    checks=CHECKS,
    dtypes=("float32",),
    apart=apart,
)
