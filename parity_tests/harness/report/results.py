"""The results of a run, as plain data: rows, and the diagnosis of each that failed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from parity_tests.harness.candidates.definition import Definition
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.reproducer_files import ReproducerFiles

ORACLE = "oracle"


@dataclass(frozen=True)
class WrongResult:
    """One result that is wrong, or whose error does not look like rounding, or one property that does not hold.

    `candidate`, `oracle`: their values at `index`, floats unless the result is complex.
    `heat`: the error of every entry in units of its bound, as rows and columns; of a large result, of its blocks. Of a
    suspicion in units of what right code reaches. `histogram`: of a suspicion, how its errors are distributed.
    """

    label: str
    pattern: str
    circumstance: str = ""
    index: tuple[int, ...] | None = None
    candidate: complex | None = None
    oracle: complex | None = None
    error: float | None = None
    allowed: float | None = None
    looks_like: str | None = None
    equation: str | None = None
    heat: tuple[tuple[float, ...], ...] | None = None
    histogram: tuple[tuple[float, float, float], ...] | None = None


@dataclass(frozen=True)
class Smallest:
    """The smallest input that was found at which the same check fails, and what is wrong there.

    `entries`: what each cotangent, tangent and input is, in words; what is not there is 0. `arrays`: the same as nested
    lists, in which a complex number is a pair and one that is not finite a text, "nan" or "-inf". One of more than 256
    numbers is left out.
    """

    sizes: Mapping[str, int]
    entries: Mapping[str, str]
    wrong: WrongResult
    arrays: Mapping[str, Any] = field(default_factory=dict)


class Evidence(Protocol):
    """The means to show a failure again, while the candidate is still in memory; see `reproducer.py`."""

    def files(self) -> ReproducerFiles:
        """The arrays and the script as plain data, which needs the candidate no longer."""
        ...


@dataclass(frozen=True)
class Failure:
    """The diagnosis of one failing row, on the first sample that shows it.

    `suspect`: what to do about a suspicion, if it is one: a result that is within its bound, and whose error does not
    look like rounding. `to_do`: the same about any other failure. `beyond_first_order`: whether no value and no first
    derivative is wrong. `asks`: whether the script asks for a callable that it cannot import. `unexplained`: a line for
    each explanation that raised an exception itself. `log`: the last lines that PyTorch logged while the check ran.
    `options`: the keyword parameters of the call, in words. `seed`: None if it is hidden.
    """

    op: str
    candidate: str
    check: str
    dtype: str
    device: str
    sample: str
    why: str
    sizes: Mapping[str, int]
    seed: int | None
    wrong: tuple[WrongResult, ...]
    agrees: tuple[str, ...] = ()
    judge: str | None = None
    replay: str | None = None
    smallest: Smallest | None = None
    script: str | None = None
    unexplained: tuple[str, ...] = ()
    log: str = ""
    suspect: str = ""
    to_do: str = ""
    asks: bool = False
    beyond_first_order: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    evidence: Evidence | None = field(default=None, compare=False, repr=False)

    def save(self, folder: str | os.PathLike[str], start: str | os.PathLike[str] = "") -> Failure:
        """Write a reproducer into a folder, which is made if need be: an .npz of arrays, a script, and PyTorch's log.

        The script calls PyTorch: there is none for a candidate of another framework, nor where no one call of the
        candidate shows the failure. `start`: where a relative `folder`
        begins, if that is not the current one, to which a candidate may have changed.

        Returns:
            The same failure, whose `replay` and `script` say where they are.

        Raises:
            ValueError: the failure was read from a file, so that there is no candidate to reproduce it with.
        """
        if self.evidence is None:
            raise ValueError(f"{self.op}, {self.candidate}, {self.check}: no reproducer can be made of this failure")
        files = self.evidence.files()
        arrays = files.save(Path(start, folder))
        if self.log:
            write_text(arrays.with_suffix(".log"), self.log + "\n")
        path = Path(folder, arrays.name)
        replay = files.command(path, Path(start))
        script = None if files.script is None else str(path.with_suffix(".py"))
        return dataclasses.replace(self, replay=replay, script=script, asks=files.asks)


@dataclass(frozen=True)
class Row:
    """One candidate under one check in one dtype on one device.

    `comparisons` counts the entries (and properties) that could have told a wrong answer; `error_over_bound` is the
    largest error in units of what rounding explains, infinite where rounding explains nothing. `listed`: an UNSUPPORTED
    that was expected; `declared`: by the means of the candidate's author, and not by `limits`; `limit_of`: by neither,
    but as a limit of this, such as "PyTorch". `conventions`: where the
    candidate has another derivative than the oracle has at a kink, and is right. `lost_digits`: where a result is
    within its bound and has lost digits that the problem does not force. `arithmetic`: in 16 bits, for each result by
    its label, the arithmetic that explains its error. `largest`: the sizes of the largest sample at which anything was
    compared, and `numbers`: of how many numbers its inputs are; `of_numbers`: how many the inputs have of which a spec
    judges a part (`OpSpec.given_size`), 0 if none. `unseen`: what of the candidate cannot have run here. `linearized`:
    the results that are held to linearized bounds, see `rounding.linearized`.
    """

    op: str
    candidate: str
    check: str
    dtype: str
    device: str
    verdict: Verdict
    error_over_bound: float
    comparisons: int
    reason: str = ""
    listed: bool = False
    seconds: float = 0.0
    conventions: tuple[str, ...] = ()
    failure: Failure | None = None
    declared: bool = False
    lost_digits: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()
    arithmetic: Mapping[str, str] = field(default_factory=dict)
    limit_of: str = ""
    largest: str = ""
    numbers: int = 0
    of_numbers: int = 0
    unseen: tuple[str, ...] = ()
    linearized: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """PASS or PROVED, or a limit that is listed, or a check that does not apply."""
        return self.verdict in (*AGREE, Verdict.SKIPPED) or (self.verdict is Verdict.UNSUPPORTED and self.listed)


def contradiction(row: Row) -> tuple[str, str] | None:
    """Return the field of a row that contradicts its PASS, or PROVED, and a text: which values it may have; else None.

    Rows of another verdict have nothing to contradict: one that was not judged may have compared nothing.
    """
    if row.verdict not in AGREE:
        return None
    if not 0 <= row.error_over_bound <= 1:  # NaN is not, either
        return "error_over_bound", "a number from 0 to 1"
    return None if row.comparisons > 0 else ("comparisons", "1 or more")


@dataclass(frozen=True)
class Note:
    """A line of a report about what was not judged, with the reason. `about`: what two notes of one thing share."""

    text: str
    about: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class AllRows:
    """All rows of a run in their order, in place of those that came one by one, from several processes at once."""

    rows: tuple[Row, ...]


Event = Row | Note | NotBuilt | AllRows
"""The events that judging yields."""


class Results(Protocol):
    """The results that a report shows: the fields of `Report`, without its text, HTML and JSON."""

    @property
    def environment(self) -> Mapping[str, Any]: ...

    @property
    def rows(self) -> Sequence[Row]: ...

    @property
    def skipped(self) -> Sequence[str]: ...

    @property
    def not_built(self) -> Sequence[NotBuilt]: ...

    @property
    def definitions(self) -> Sequence[Definition]: ...

    @property
    def error(self) -> str | None: ...

    @property
    def seconds(self) -> Mapping[str, float]: ...

    @property
    def catches(self) -> Mapping[str, str]: ...

    @property
    def passed(self) -> bool: ...

    @property
    def failed(self) -> Sequence[Row]: ...

    @property
    def failures(self) -> Sequence[Failure]: ...


def failure_as_dict(failure: Failure) -> dict[str, Any]:
    """The fields of a failure, for JSON; the arrays of its evidence are left out."""
    fields = dataclasses.asdict(dataclasses.replace(failure, evidence=None))
    del fields["evidence"]
    return fields
