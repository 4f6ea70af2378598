"""An operation, an operator or a Function, which PyTorch differentiates as one, and an audit's finding."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parity_tests.certificate.certificate import Row

# In the reasons of rows.
NOT_FINITE = "are not finite"
AS_IT_SHOULD_BE = "as it should be"
NO_BOUND = "no bound of the rounding errors"


class Finding(enum.StrEnum):
    """A finding of an audit about an operation."""

    AGREES = "agrees"
    """Its results and its gradients are within the bounds of their rounding errors."""
    DIFFERS = "differs"
    """A result or a gradient is not."""
    NOT_FINITE = "not finite"
    """As it should be, but for a NaN or an infinity that none of its inputs has."""
    NOT_JUDGED = "not judged"
    """There is nothing to compare it with."""

    def of(self, count: int) -> str:
        """Return how many operations have it, in words."""
        verb = self in (Finding.AGREES, Finding.DIFFERS)
        return f"{count} {self.removesuffix('s') if verb and count != 1 else self}"


@dataclass(frozen=True)
class Place:
    """The place of an array that was compared.

    Attributes:
        name: of the array, "result" or "gradient of x".
        finite: whether all numbers that it was made of are.
        place: of a result, among all that the operation returns; None if it is none of these.
        input: of a gradient, the array that it is by.
    """

    name: str
    finite: bool
    place: int | None = None
    input: str | None = None


@dataclass(frozen=True)
class Facts:
    """How an operation was called, as JSON has it.

    Attributes:
        device: of its tensors.
        precision: the format that its bounds are for.
        arguments: by name, in the order in which it takes them; a tensor is {"array": the name of its array}.
        keywords: the names of those that are given by name.
        dtypes: of the tensors, by the names of their arrays.
        cotangents: the places of the results that they are of, by the names of their arrays.
        compared: all arrays that were compared.
    """

    device: str
    precision: str
    arguments: Mapping[str, Any]
    keywords: Sequence[str]
    dtypes: Mapping[str, str]
    cotangents: Mapping[str, int]
    compared: Sequence[Place]


@dataclass(frozen=True)
class Operation:
    """An operation of a training step.

    Attributes:
        name: of the operator, such as "aten::mm", or of the Function.
        module: the path of the module in whose forward it ran; empty if there was none.
        line: the line of the user's code, as a traceback has it; empty if it is not known.
        finding: what the audit says of it.
        rows: what was compared: its results, and its gradients by its inputs.
        reason: why it is not judged, or not as a whole.
        arrays: of one with something wrong: its inputs, cotangents, results and gradients, and what is right, by name.
        facts: of one with something wrong, how it was called.
    """

    name: str
    module: str
    line: str
    finding: Finding
    rows: Sequence[Row] = ()
    reason: str = ""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    facts: Facts | None = field(default=None, repr=False)

    @property
    def is_fault(self) -> bool:
        """Whether something is wrong with it."""
        return self.finding in (Finding.DIFFERS, Finding.NOT_FINITE)

    @property
    def is_as_it_should_be(self) -> bool:
        """Whether all that is wrong with it are infinities and NaNs that are right."""
        return self.finding is Finding.NOT_FINITE and all(
            row.agrees or AS_IT_SHOULD_BE in row.reason for row in self.rows
        )

    def __str__(self) -> str:
        where = [self.module, self.line]
        head = f"{self.name}: {self.finding}" + "".join(f"\n  in {place}" for place in where if place)
        told = [f"\n  {row}" for row in self.rows if not row.agrees]
        return head + "".join(told) + (f"\n  {self.reason}" if self.reason else "")


def finding_of(rows: Sequence[Row]) -> Finding:
    """Return what an audit says of an operation with these comparisons."""
    reasons = [row.reason for row in rows if not row.agrees]
    if any(NOT_FINITE not in reason and NO_BOUND not in reason for reason in reasons):
        return Finding.DIFFERS
    if any(NOT_FINITE in reason for reason in reasons):
        return Finding.NOT_FINITE
    return Finding.NOT_JUDGED if reasons else Finding.AGREES
