"""Results of earlier judging processes that a candidate has ended, for the process that goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parity_tests.harness.report.results import Row

Key = tuple[str, str, str]  # candidate, check, dtype


def key_of(row: Row) -> Key:
    """The key of a row within its plan."""
    return row.candidate, row.check, row.dtype


@dataclass(frozen=True)
class Earlier:
    """The results of earlier processes on the same plan.

    Attributes:
        rows: those that are known; they are not judged again.
        avoided: of a candidate, by its name: the names of the samples at which it is not called any more.
        unshrunk: candidates that have ended a process while one of their failures was shrunk.
        given_up: candidates that are not called any more, each with the reason.
    """

    rows: Mapping[Key, Row] = field(default_factory=dict)
    avoided: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unshrunk: frozenset[str] = frozenset()
    given_up: Mapping[str, str] = field(default_factory=dict)

    def avoids(self, candidate: str, sample: str) -> bool:
        """True if a candidate must not be called at a sample."""
        return sample in self.avoided.get(candidate, ())
