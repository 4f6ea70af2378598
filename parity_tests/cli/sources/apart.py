"""How a solution is run in a process of its own, in which the judging side has no part."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parity_tests.cli.regular_file import why_no_file

if TYPE_CHECKING:
    from parity_tests.harness.solutions.process import Solved
    from parity_tests.harness.solutions.proxy import Solution


# A solution is a kernel with a backward: second order, forward mode and vmap are not asked of it.
CHECKS = (
    "forward",
    "vjp",
    "vjp_partial",
    "points",
    "purity",
    "modes",
    "retain_graph",
    "interleaved",
    "determinism",
    "aliases",
    "accumulation",
    "nonfinite_cotangents",
    "shortcuts",
    "given_size",
)


# What is about a candidate's own process: its memory, its graphs, the tensors that it saves or captures.
INSIDE = frozenset(
    (
        "captured",
        "checkpoint",
        "compile",
        "fake",
        "functorch",
        "leaks",
        "make_fx",
        "opcheck",
        "race",
        "saved_tensors",
        "vmap",
    )
)


@dataclass(frozen=True)
class Apart:
    """How a solution is run in a process of its own; plain data.

    Attributes:
        seconds: that it may take for a call.
        hidden: files and folders that it does not see, beside the reference.
        forked: see `Solved`.
    """

    seconds: float
    hidden: tuple[Path, ...] = ()
    forked: bool = False

    def solution(
        self,
        path: Path,
        given: Path,
        name: str,
        arguments: tuple[Sequence[Any], int] | None = None,
        reference: Path | None = None,
        operator: str | None = None,
    ) -> Solution:
        """Start the process of a solution; unless it is forked, it is kept, and serves whoever asks for the same.

        Args:
            path: its file.
            given: the same as the user has written it, for messages.
            name: in the file.
            arguments, reference, operator: see `Solved`.

        Raises:
            CannotLoad: it does not run, defines no such name, ends or hangs.
        """
        from parity_tests.cli.case_file import CaseError
        from parity_tests.harness.exceptions.from_solution import FromSolution, NoAnswer
        from parity_tests.harness.solutions.process import SolutionProcess, Solved
        from parity_tests.harness.solutions.proxy import Solution

        if reason := why_no_file(path):
            raise CaseError(f"{given}: {reason}")
        file = path.resolve()
        hidden = [*self.hidden]
        if reference is not None:
            hidden += [reference.resolve(), reference.resolve().parent / "__pycache__"]
        named = hidden[-2] if reference else None
        solved = Solved(file, name, arguments, named, operator, hidden, self.seconds, self.forked)
        process = SolutionProcess(solved) if self.forked else _kept(_Key(solved))
        try:
            process.start()
        except NoAnswer as error:
            raise CaseError(f"{given}: {error}, while it was loaded") from error
        except FromSolution as error:
            if error.missing:
                raise CaseError(f"{given}: defines no {name}") from error
            line = f", line {error.line}" if error.line is not None and not error.made else ""
            of = f": {name}" if error.made else ""
            raise CaseError(f"{given}{line}{of}: {type(error).__name__}: {error}") from error
        return Solution(process)


class _Key:
    """A solution by which its process is found again, unless its file has changed."""

    def __init__(self, solved: Solved) -> None:
        self.solved = solved
        self._text = f"{solved!r} {hashlib.sha256(solved.path.read_bytes()).hexdigest()}"

    def __hash__(self) -> int:
        return hash(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._text == other._text


@functools.cache
def _kept(key: _Key) -> Any:
    from parity_tests.harness.solutions.process import SolutionProcess

    return SolutionProcess(key.solved)
