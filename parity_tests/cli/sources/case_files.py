"""A case file as a source: a Python file that defines spec and candidates."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parity_tests.cli.regular_file import why_no_file
from parity_tests.cli.sources.against_reference import AgainstReference, against_reference, reference_of_failure
from parity_tests.cli.sources.apart import Apart
from parity_tests.cli.sources.source import FailedCandidate, Source, SourceCommand

if TYPE_CHECKING:
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.specs.spec import OpSpec


@dataclass(frozen=True)
class CaseFile:
    """All candidates of a case file.

    Attributes:
        path: of the file, as the user has given it.
        start: the folder where a relative path begins, if the current one may be another when the file is loaded.
    """

    path: Path
    start: Path = Path()

    @property
    def names(self) -> Sequence[str] | None:
        """None: the file has not been run."""
        return None

    @property
    def file(self) -> Path:
        """The case file."""
        return self.start / self.path

    @property
    def files(self) -> Sequence[Path]:
        """The case file."""
        return (self.file,)

    @property
    def origin(self) -> None:
        """None: the file has everything."""
        return None

    def load(self) -> tuple[OpSpec, Candidates]:
        """Run the file; see `case_file.load_case`."""
        from parity_tests.cli.case_file import load_case

        return load_case(self.path, self.start)

    def command(self, candidate: str) -> str:
        """Judge the file, all of whose candidates are judged together."""
        return f"check {shlex.quote(str(self.path))}"


_AGAINST = "A kernel against PyTorch code"


def _option(name: str, shown: str | None, text: str) -> Any:
    return typer.Option(name, metavar=shown, rich_help_panel=_AGAINST, help=text)


def case_file(
    cases: Annotated[
        list[Path],
        typer.Argument(
            metavar="CASE...", help="Python files with spec and candidate(s); with --reference, FILE.py:KERNEL."
        ),
    ],
    reference: Annotated[
        str | None, _option("--reference", "FILE.py:NAME", "The PyTorch code that it replaces, or torch:softmax.")
    ] = None,
    inputs: Annotated[
        str | None, _option("--inputs", "TEXT", 'Its inputs: "x: (n,d), w: (d) constant, t: (n) integer(0,d)".')
    ] = None,
    sizes: Annotated[str | None, _option("--sizes", "RULES", 'Rules for axis sizes: "d % 2 == 0, n >= 1".')] = None,
    params: Annotated[
        str | None, _option("--params", "TEXT", 'Keyword parameters: "dim=-1, groups=c", with c an axis.')
    ] = None,
    configs: Annotated[
        str | None, _option("--configs", "FILE.json", 'Check each configuration: [{"block": 16}].')
    ] = None,
    stub: Annotated[list[str] | None, _option("--stub", "MODULE", "An imported module that is not installed.")] = None,
    untrusted: Annotated[
        bool, _option("--untrusted", None, "Somebody else's code: in a process that sees no reference.")
    ] = False,
) -> Sequence[CaseFile | AgainstReference]:
    """Return the sources of these case files, or of a kernel beside its reference.

    Raises:
        ValueError: there is no such file, or it is not a Python file, or options are missing.
    """
    if reference is not None:
        if len(cases) > 1:
            raise ValueError(f"--reference is about one kernel, and there are {len(cases)}; judge them one by one")
        return [against_reference(str(cases[0]), reference, inputs, sizes, params, untrusted, stub or (), configs)]
    if untrusted:
        raise ValueError(
            f"--untrusted: {cases[0]} has both the spec and the candidate, and would run in the process that judges; "
            'write a reference into a file of your own: --reference FILE.py:NAME --inputs "x: (n,d)"'
        )
    if any(x is not None for x in (inputs, sizes, params, configs)) or stub:
        raise ValueError(
            "--inputs, --sizes, --params, --configs and --stub are about a reference: --reference FILE.py:NAME"
        )
    for case in cases:
        file, colon, name = str(case).rpartition(":")
        if colon and name.isidentifier() and Path(file).is_file():
            raise ValueError(
                f"{case}: one function of a file needs its reference and inputs: --reference FILE.py:NAME --inputs "
                f'"x: (n,d)"; a case file is given without a name: {file}'
            )
        if reason := why_no_file(case):
            raise ValueError(f"{case}: {reason}")
        if case.suffix != ".py":
            raise ValueError(f"{case}: not a Python file; its name must end in .py")
    return [CaseFile(case, Path.cwd()) for case in dict.fromkeys(cases)]


def apart(source: Source, how: Apart) -> Source:
    """A kernel in a process of its own, if it is somebody else's, or may be forked; else the source as it is."""
    if not isinstance(source, AgainstReference):
        return source
    if source.untrusted:
        return replace(source, apart=replace(how, forked=False))
    return replace(source, apart=replace(how, hidden=())) if how.forked and source.may_be_apart else source


def of_failure(failed: FailedCandidate) -> CaseFile | AgainstReference | None:
    """The case file that a failure names, or the kernel and the reference.

    Raises:
        CannotLoad: a file is not there any more, or lies outside of the current folder: whoever wrote the file of the
            failure has chosen which file would be run.
    """
    if failed.origin is not None and {"kernel", "reference"} <= failed.origin.keys():
        return reference_of_failure(failed)
    return None if failed.case is None else CaseFile(failed.file("case", failed.case))


COMMAND = SourceCommand(
    "check",
    """Judge operators of your own, each defined in a file, in the same way.

    Or a kernel against the PyTorch code that it replaces: check kernel.py:fused_norm --reference kernel.py:norm
    --inputs "x: (n,d), w: (d)".
    """,
    case_file,
    of_failure,
    apart=apart,
)
