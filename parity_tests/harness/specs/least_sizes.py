"""The least sizes at which an operator can be called: searched, since most have no rule for them but an exception."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.size_rules import SizeRules

_FOLLOWING = 12  # sizes after the least one, by which a rule such as "n % 4 == 0" is recognized

Sizes = Mapping[str, int]
Runs = Callable[[Sizes], bool]


def least_sizes(axes: Sequence[str], searched: Sequence[str], rules: SizeRules, runs: Runs) -> list[str] | None:
    """Return the rules under which an operator runs, such as "h >= 3" and "n % 2 == 0"; None if it does nowhere.

    Args:
        axes: all axes of the inputs.
        searched: those whose least size is searched for.
        rules: for their sizes.
        runs: whether the operator can be called at these sizes of the axes.
    """
    usual, *larger = _generous(axes, rules)
    generous = next((sizes for sizes in (usual, *larger) if runs(sizes)), None)
    if generous is None:
        return None
    search = _Search(axes, rules, runs, generous, generous is not usual)
    least, found = dict[str, int](), list[str]()
    for axis in searched:
        if axis not in rules.defined:
            least[axis], more = search.along(axis)
            found += more
    return [f"{axis} >= {n}" for axis, n in search.together(least).items() if n > search.lowest(axis)] + found


def _generous(axes: Sequence[str], rules: SizeRules) -> Iterator[Sizes]:
    """Sizes at which an operator may run: usual ones, and multiples of 8 and more."""
    for wanted in (itertools.count(2), *(itertools.count(4 * n, n) for n in (8, 16, 32, 64))):
        try:
            yield rules.nearest(dict(zip(axes, wanted, strict=False)))
        except EmptyDomain:
            continue


class _Search:
    """The sizes at which an operator runs, if all axes but one have generous ones."""

    def __init__(self, axes: Sequence[str], rules: SizeRules, runs: Runs, generous: Sizes, unusual: bool) -> None:
        self._axes, self._rules, self._runs, self._generous, self._unusual = axes, rules, runs, generous, unusual

    def _at(self, sizes: Sizes) -> bool | None:
        """True if it runs, None if the rules do not allow these sizes."""
        try:
            return self._runs(self._rules.nearest({**self._generous, **sizes}, [*sizes]))
        except EmptyDomain:
            return None

    def lowest(self, axis: str) -> int:
        """The least size that the rules allow."""
        for n in range(self._generous[axis]):
            try:
                self._rules.nearest({**self._generous, axis: n}, (axis,))
                return n
            except EmptyDomain:
                continue
        return self._generous[axis]

    def along(self, axis: str) -> tuple[int, list[str]]:
        """The least size of an axis, and the rule that those after it keep to, if they do not all run."""
        allowed = range(self._generous[axis] + 1)
        least = next((n for n in allowed if self._at({axis: n})), self._generous[axis])
        if not self._unusual:
            return least, []
        after = range(max(least, 1), least + _FOLLOWING + 1)
        running = [n for n in after if self._at({axis: n}) is not False]
        if len(running) == len(after) or len(running) < 2:
            return least, []
        step = running[1] - running[0]
        regular = running == [n for n in after if n % step == 0]
        return least, [f"{axis} % {step} == 0"] if regular else []

    def together(self, least: Mapping[str, int]) -> dict[str, int]:
        """The least sizes, of which one is larger if the operator does not run where all axes have theirs."""
        corner = {axis: max(n, 1) for axis, n in least.items()}
        if self._at(corner) is not False:
            return dict(least)
        for more, axis in itertools.product(range(1, 5), corner):
            if self._at(corner | {axis: corner[axis] + more}):
                return dict(least) | {axis: corner[axis] + more}
        return dict(least)
