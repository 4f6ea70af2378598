"""The result of an audit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from parity_tests.auditing.operation import Finding, Operation


@dataclass(frozen=True)
class Audit:
    """The findings of an audit, one for each operation of a training step.

    Attributes:
        operations: those that the gradient passed through, in the order in which they ran.
        unreached: the names of parameters that no gradient reaches.
    """

    operations: Sequence[Operation]
    unreached: Sequence[str] = ()

    @property
    def faults(self) -> Sequence[Operation]:
        """Those with something wrong, in the order in which they ran."""
        return [each for each in self.operations if each.is_fault]

    @property
    def passed(self) -> bool:
        """Whether all that was judged agrees, and something was."""
        return not self.faults and any(each.finding is Finding.AGREES for each in self.operations)

    def raise_if_failed(self) -> None:
        """Raise AssertionError, with the text of the audit, unless it passed."""
        if not self.passed:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        counts = Counter(each.finding for each in self.operations)
        told = ", ".join(finding.of(counts[finding]) for finding in Finding if counts[finding])
        reasons = Counter((each.name, each.reason) for each in self.operations if each.reason)
        unjudged = [
            f"not judged: {name}{f' ({n} times)' if n > 1 else ''}: {why}" for (name, why), n in reasons.items()
        ]
        number = len(self.operations)
        lines = [f"{number} operation{'s' * (number != 1)}: {told or 'none'}", *map(str, self.faults), *unjudged]
        if self.unreached:
            lines.append(f"no gradient reaches: {', '.join(self.unreached)}")
        return "\n".join(lines)
