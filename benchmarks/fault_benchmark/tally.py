"""The faults that the rules have caught and the right versions they rejected, counted over the cells of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.fault_benchmark.parity import CONVICTED, SUSPECTED
from benchmarks.fault_benchmark.run import RULES, Cell, faults_of


@dataclass(frozen=True)
class Tally:
    """Counts of one rule.

    Attributes:
        caught, of: faults that are rejected, of those that are there in numbers.
        caught_knowingly: those of them whose version without a fault the rule accepts; otherwise it rejects anything.
        below, of_below: the same as caught and of, for faults that are below rounding.
        alarms, versions: versions without a fault that are rejected, of all.
    """

    caught: int = 0
    of: int = 0
    caught_knowingly: int = 0
    below: int = 0
    of_below: int = 0
    alarms: int = 0
    versions: int = 0


def tally(cells: Iterable[Cell], rule: str) -> Tally:
    """Return the counts of a rule over the cells where it was run."""
    caught = of = knowingly = below = of_below = alarms = versions = 0
    for cell in cells:
        outcome = cell.rules.get(rule)
        if outcome is None:
            continue
        versions += 1
        alarms += outcome["alarm"]
        if outcome["missed"] is None:
            continue
        for i in range(len(faults_of(cell))):
            is_caught = i not in outcome["missed"]
            if i in cell.below_rounding:
                of_below += 1
                below += is_caught
            else:
                of += 1
                caught += is_caught
                knowingly += is_caught and not outcome["alarm"]
    return Tally(caught, of, knowingly, below, of_below, alarms, versions)


def rules_in(cells: Sequence[Cell]) -> list[str]:
    """Return the rules that were run in some cell, in their order."""
    known = {rule for cell in cells for rule in cell.rules}
    return [rule for rule in dict.fromkeys((*RULES, CONVICTED, SUSPECTED)) if rule in known]


def ours(cells: Sequence[Cell]) -> str:
    """Return the widest of the rules of crosscheck that was run."""
    return SUSPECTED if SUSPECTED in rules_in(cells) else CONVICTED


def caught_by_any(cell: Cell, rules: Iterable[str]) -> set[int]:
    """Return the faults of a cell that some rule rejects while it accepts the version without a fault."""
    informative = [cell.rules[rule] for rule in rules if rule in cell.rules and not cell.rules[rule]["alarm"]]
    return {i for i in range(len(faults_of(cell))) if any(i not in outcome["missed"] for outcome in informative)}


def missed_by_ours(cells: Iterable[Cell]) -> Iterator[tuple[Cell, int, list[str]]]:
    """Yield each fault that crosscheck accepts and another rule catches, and which rules do."""
    cells = list(cells)
    rule = ours(cells)
    for cell in cells:
        if rule not in cell.rules or not faults_of(cell):
            continue
        others = [name for name in cell.rules if name not in (CONVICTED, SUSPECTED)]
        for i in cell.rules[rule]["missed"]:
            by = [name for name in others if i in caught_by_any(cell, [name])]
            if by:
                yield cell, i, by


def bars(cells: Sequence[Cell]) -> list[tuple[str, str, bool]]:
    """Return each bar, what was measured, and whether it is met; over the cells where crosscheck was run."""
    rule = ours(cells)
    judged = [cell for cell in cells if rule in cell.rules]
    if not judged:
        return []
    own = tally(judged, rule)
    found = [(f"{rule} raises no false alarm", f"{own.alarms} of {own.versions}", own.alarms == 0)]
    of_any = sum(len(caught_by_any(cell, cell.rules)) for cell in judged)
    if of_any:
        share = 100 * (of_any - len(list(missed_by_ours(judged)))) / of_any
        found.append(
            (f"{rule} catches at least 97 % of what any rule catches", f"{share:.1f} % of {of_any}", share >= 97)
        )
    counts = {name: tally(judged, name) for name in rules_in(judged) if name not in (CONVICTED, SUSPECTED)}
    if counts and own.of:
        best = max(counts, key=lambda name: counts[name].caught_knowingly)
        text = f"{own.caught_knowingly} against {counts[best].caught_knowingly} of {best}"
        met = own.caught_knowingly > counts[best].caught_knowingly
        found.append((f"{rule} catches more than each other rule", text, met))
    return found
