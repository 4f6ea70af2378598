"""The catalog as a source: the operators and implementations that are shipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from parity_tests.catalog.names import IMPLEMENTATIONS
from parity_tests.cli.sources.source import FailedCandidate, SourceCommand
from parity_tests.harness.names import one_of

if TYPE_CHECKING:
    from pathlib import Path

    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.specs.spec import OpSpec

_DEFAULT = "attn"


@dataclass(frozen=True)
class CatalogOperator:
    """Implementations of an operator of the catalog, by name."""

    op: str
    names: tuple[str, ...]

    @property
    def file(self) -> Path | None:
        """None: the names of operator and implementation are enough."""
        return None

    @property
    def files(self) -> Sequence[Path]:
        """None: they are installed."""
        return ()

    @property
    def origin(self) -> None:
        """None: see `file`."""
        return None

    def load(self) -> tuple[OpSpec, Candidates]:
        """The spec and the implementations; native ones are compiled."""
        from parity_tests.catalog import operators  # the implementations, which other sources can do without

        return operators.SPECS[self.op], [operators.candidate(self.op, name) for name in self.names]

    def command(self, candidate: str) -> str:
        """Judge this implementation."""
        op = "" if self.op == _DEFAULT else f" --op {self.op}"
        return f"run{op} --candidate {candidate}"


def implementations(
    op: Annotated[
        str, typer.Option(help=f"Whose implementations are judged: {', '.join(IMPLEMENTATIONS)}.")
    ] = _DEFAULT,
    candidate: Annotated[list[str] | None, typer.Option(help="Only this implementation; repeat for more.")] = None,
) -> Sequence[CatalogOperator]:
    """The implementations of one operator.

    Raises:
        ValueError: an unknown name.
    """
    known = IMPLEMENTATIONS[one_of("op", op, [*IMPLEMENTATIONS])]
    return [CatalogOperator(op, tuple(one_of("candidate", name, known) for name in candidate or known))]


def of_failure(failed: FailedCandidate) -> CatalogOperator | None:
    """The implementation of this name, if the operator has one."""
    known = failed.case is None and failed.candidate in IMPLEMENTATIONS.get(failed.op, ())
    return CatalogOperator(failed.op, (failed.candidate,)) if known else None


COMMAND = SourceCommand(
    "run",
    """Judge every implementation of attn, or of --op: a table of checks x candidates, and every failure explained.

    Exit codes: 0 all agree, 1 a candidate disagrees, 2 something could not be judged, 130 interrupted. A defect of
    gradparity itself is 2, and the line that tells it names a file with the traceback.
    """,
    implementations,
    of_failure,
)
