"""The messages between a run and its judging processes: plain data, which needs neither PyTorch nor JAX."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from parity_tests.harness.isolation.crash import Place
from parity_tests.harness.isolation.imported import Stamps
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Row

if TYPE_CHECKING:
    from parity_tests.harness.candidates.base import AnyCandidate
    from parity_tests.harness.candidates.not_built import NotBuilt
    from parity_tests.harness.judging.certified import Oracles
    from parity_tests.harness.judging.plan import Plan
    from parity_tests.harness.specs.spec import OpSpec

    Candidates = Sequence[AnyCandidate | NotBuilt]


class WorkerError(RuntimeError):
    """A process could not go on judging; the message says why."""


class CannotLoad(Exception):
    """A spec or its candidates cannot be loaded as they are; the message says why, and what to do about it."""


class Work(Protocol):
    """The work of a judging process, as plain data that can be sent to it.

    Attributes:
        source: what `load` depends on; equal ones are loaded once.
        device: see `Plan`.
        sampling: what the oracles depend on beside the spec, such as the device and the seed.
        folder: for what is written about failures; None if nothing is.
    """

    @property
    def source(self) -> Hashable: ...

    @property
    def device(self) -> str: ...

    @property
    def sampling(self) -> Hashable: ...

    @property
    def folder(self) -> Path | None: ...

    def load(self) -> tuple[OpSpec, Candidates]:
        """The spec and the candidates.

        Raises:
            CannotLoad: there are none.
        """
        ...

    def oracles(self, spec: OpSpec) -> Oracles:
        """The oracles that judge all work with this spec and this sampling."""
        ...

    def plan(self, spec: OpSpec, candidates: Candidates, oracles: Oracles) -> Plan:
        """Return the plan by which these candidates are judged."""
        ...

    def save(self, report: Report) -> None:
        """Write a reproducer of every failure, or keep its files in the failure, or say why there is none."""
        ...

    def again(self, row: Row) -> str:
        """The command that judges a row again, for the text of a failure."""
        ...

    def release(self, candidates: Candidates) -> bool:
        """End the processes that run these candidates for this work alone; returns whether there are any."""
        ...


class Surveyable(Work, Protocol):
    """Work that is surveyed before it is carried out.

    Attributes:
        named: the files that it loads, as messages name them.
    """

    @property
    def named(self) -> str: ...

    def surveyed(self, spec: OpSpec, candidates: Candidates) -> object:
        """Return the facts that the run must know beforehand, as plain data.

        Raises:
            CannotLoad: it cannot be carried out.
        """
        ...


@dataclass(frozen=True)
class Ready:
    """The process has started, and waits for work."""


@dataclass(frozen=True)
class Survey:
    """Load this work, and say what there is."""

    work: Surveyable


@dataclass(frozen=True)
class Surveyed:
    """The answer to `Survey`: what `Surveyable.surveyed` returns or raises, and the modules imported by now."""

    found: object
    imported: Stamps


@dataclass(frozen=True)
class Began:
    """The work has begun; it has this many rows, those that are known included."""

    length: int


@dataclass(frozen=True)
class At:
    """A candidate is about to be called: for this row, which has no verdict yet, at this sample.

    `limit`: the reason for which the candidate is known to fail the check, if it is.
    """

    row: Row
    place: Place
    limit: str | None


@dataclass(frozen=True)
class Found:
    """A row, and the lines about what was skipped since the last one."""

    row: Row
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """The work is done."""

    skipped: tuple[str, ...]
