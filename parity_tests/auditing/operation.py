"""An operation, an operator or a Function, which PyTorch differentiates as one, and an audit's finding."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    """

    name: str
    module: str
    line: str
    finding: Finding
    rows: Sequence[Row] = ()
    reason: str = ""
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

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
