"""An audit as one self-contained HTML file: the tree of modules, with what was found in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parity_tests.auditing.findings import Audit
from parity_tests.auditing.operation import Finding, Operation

# The worst first.
_ORDER = (Finding.DIFFERS, Finding.NOT_FINITE, Finding.NOT_JUDGED, Finding.AGREES)


@dataclass
class Branch:
    """A module, with the operations of its own forward and the modules in it.

    Attributes:
        name: the last part of its path.
        operations: those that ran in it, and in none of the modules in it.
        branches: these, by name.
    """

    name: str
    operations: list[Operation] = field(default_factory=list)
    branches: dict[str, Branch] = field(default_factory=dict)

    @property
    def whole(self) -> Sequence[Operation]:
        """Its operations, and those of the modules in it."""
        return [*self.operations, *(each for branch in self.branches.values() for each in branch.whole)]

    @property
    def worst(self) -> Finding:
        """The worst of what was found in it."""
        return min((each.finding for each in self.whole), key=_ORDER.index, default=Finding.AGREES)

    @property
    def counts(self) -> str:
        """How often each was found."""
        counts = Counter(each.finding for each in self.whole)
        return ", ".join(f"{counts[finding]} {finding}" for finding in _ORDER if counts[finding])


def tree_of(audit: Audit) -> Branch:
    """Return the modules of a step, whose root is what ran in none."""
    root = Branch("step")
    for operation in audit.operations:
        branch = root
        for name in filter(None, operation.module.split(".")):
            branch = branch.branches.setdefault(name, Branch(name))
        branch.operations.append(operation)
    return root


def as_html(audit: Audit) -> str:
    """Return the page: what is wrong comes first, and the modules with it are open."""
    from parity_tests.harness.report.templates import templates

    return templates(Path(__file__).parent).get_template("page.html").render(audit=audit, root=tree_of(audit))
