"""The shape of a source of cases, and of the command that judges what it has."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
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

    def load(self) -> tuple[OpSpec, Candidates]:
        """The spec and all candidates.

        Raises:
            CannotLoad: they cannot be used; the message says why, and what to do about it.
        """
        ...

    def command(self, candidate: str) -> str:
        """The command and the arguments, as after "gradparity", that judge this candidate."""
        ...


@dataclass(frozen=True)
class FailedCandidate:
    """What the file of a failure says about where the candidate came from; anybody may have written that file.

    Attributes:
        path: the file of the failure, for messages.
        op: the name of the spec.
        candidate: the name of the candidate.
        case: `Source.file`, or None.
    """

    path: Path
    op: str
    candidate: str
    case: str | None


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
    """

    name: str
    help: str
    sources: Callable[..., Sequence[Source]]
    of_failure: Callable[[FailedCandidate], Source | None]
