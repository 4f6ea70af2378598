"""The files of a reproducer as plain data: they can be sent to another process, and written without the candidate."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from parity_tests.harness.report.atomic_file import write_bytes, write_text


@dataclass(frozen=True)
class ReproducerFiles:
    """The files that `reproducer.Reproducer` makes.

    Attributes:
        stem: the name of both files, without what follows the dot.
        arrays: the content of the .npz file.
        script: that of the script; None for a candidate that is none of PyTorch's, and where no one call of it shows
            the failure.
        case: the file that defines the candidate, if there is one.
        asks: whether the script asks for a callable first, which it cannot import.
    """

    stem: str
    arrays: bytes
    script: str | None
    case: Path | None
    asks: bool = False

    def files(self) -> ReproducerFiles:
        """The object itself; see `report.Evidence`."""
        return self

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write both files into a folder, which is made if need be; returns the path of the arrays."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{self.stem}.npz", self.arrays)
        if self.script is not None:
            write_text(folder / f"{self.stem}.py", self.script)
        return folder / f"{self.stem}.npz"

    def command(self, arrays: Path, start: Path) -> str:
        """The command that judges it again, in the folder `start`, by the path of the arrays."""
        return replay_command(self.case, arrays, start)


def replay_command(case: Path | None, arrays: Path, start: Path) -> str:
    """The command that judges a failure again, in the folder `start`, by the path of the arrays."""
    unnamed = case is None or is_run_unnamed(Path(start, case), start)
    option = "" if unnamed else f" --case {shlex.quote(str(case))}"
    return f"gradparity replay {shlex.quote(str(arrays))}{option}"


def is_run_unnamed(case: Path, start: Path) -> bool:
    """True if a replay in the folder `start` may run the case that a failure names: only if it is there, or below."""
    return case.resolve().is_relative_to(start.resolve())
