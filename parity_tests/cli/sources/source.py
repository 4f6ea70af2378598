"""The shape of a source of cases, and of the command that judges what it has."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from parity_tests.cli.sources.apart import Apart
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.specs.spec import OpSpec


class Source(Hashable, Protocol):
    """One operator to judge, and where its spec and its candidates are found.

    It is plain data, such as a frozen dataclass at the top level of a module, and is sent to the processes that judge.
    PyTorch and JAX are imported by `load` alone. Equal sources are loaded once in a process, and share an oracle.
    """

    @property
    def names(self) -> Sequence[str] | None:
        """The names of the candidates, or None if they are known only once it is loaded."""
        ...

    @property
    def file(self) -> Path | None:
        """The Python file that must be run to find the candidates again; None if their names are enough."""
        ...

    @property
    def files(self) -> Sequence[Path]:
        """The user's files that are judged, and that `--watch` looks at; none of what is installed."""
        ...

    @property
    def origin(self) -> Mapping[str, str] | None:
        """The strings from which `SourceCommand.of_failure` makes the source; None if `file` and names are enough."""
        ...

    def load(self) -> tuple[OpSpec, Candidates]:
        """The spec and all candidates.

        Raises:
            CannotLoad: they cannot be used; the message says why, and what to do about it.
        """
        ...

    def command(self, candidate: str) -> str:
        """The command and the arguments, as after "gradparity", that judge this candidate."""
        ...


class OneCandidate:
    """Common parts of sources with one candidate, of a fixed name, that need more than one file to find it."""

    strange: ClassVar[bool] = True  # is the candidate somebody else's?
    candidate_name: ClassVar[str]

    @property
    def names(self) -> Sequence[str]:
        """The name of the only candidate."""
        return (self.candidate_name,)

    @property
    def at_other_inputs(self) -> Hashable:
        """A key that sources share that judge one candidate at different inputs; None if there is but one."""
        return None

    @property
    def file(self) -> Path | None:
        """None: one file is not enough."""
        return None


@dataclass(frozen=True)
class FailedCandidate:
    """A candidate as the file of a failure describes it; anybody may have written that file.

    Attributes:
        path: the file of the failure, for messages.
        op: the name of the spec.
        candidate: the name of the candidate.
        case: `Source.file`, or None.
        origin: `Source.origin`, or None.
    """

    path: Path
    op: str
    candidate: str
    case: str | None
    origin: Mapping[str, str] | None = None

    def file(self, kind: str, name: str) -> Path:
        """A file that the failure names, and that a replay runs without being told which it is.

        Args:
            kind: what it is, for messages: "case".
            name: its name.

        Raises:
            CannotLoad: it is not there any more, or lies outside of the current folder.
        """
        from parity_tests.harness.isolation.messages import CannotLoad
        from parity_tests.harness.report.reproducer_files import is_run_unnamed

        remedy = "say which it is: --case FILE" if kind == "case" else "write a case file, and say so: --case FILE"
        if not name.isprintable():
            raise CannotLoad(f"{self.path}: the name of its {kind}, {name!r}, is no name of a file; {remedy}")
        file = Path(name)
        if not file.is_file():
            hint = "say where it is: --case FILE" if kind == "case" else remedy
            raise CannotLoad(f"{self.path}: its {kind} {file} no longer exists; {hint}")
        if not is_run_unnamed(file, Path()):
            own = f"say so: --case {shlex.quote(name)}" if kind == "case" else "replay it in the folder of that file"
            raise CannotLoad(
                f"{self.path}: its {kind} {file} is outside of the current folder, and would be run; if it is yours, "
                f"{own}"
            )
        return file


@dataclass(frozen=True)
class SourceCommand:
    """A command of `gradparity` that judges what a source has.

    Attributes:
        name: what is written after `gradparity`.
        help: what the command does.
        sources: returns what is to be judged. Its parameters, with Typer's annotations, are the command's own
            arguments; the options of all such commands (`--only`, `--json`, ...) are added to them. It raises a
            ValueError if they cannot be used.
        of_failure: the source in which a candidate that failed is found again, for `gradparity replay`; None if that
            candidate is of another source. It raises CannotLoad if the candidate is of this one and cannot be found.
        checks, dtypes: those that are judged if `--only` and `--dtype` name none; none for the usual ones.
        apart: the same source, with what is judged in a process of its own; None if the source is the user's own code.
            It raises a ValueError if that cannot be.
    """

    name: str
    help: str
    sources: Callable[..., Sequence[Source]]
    of_failure: Callable[[FailedCandidate], Source | None]
    checks: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    apart: Callable[[Source, Apart], Source] | None = None
