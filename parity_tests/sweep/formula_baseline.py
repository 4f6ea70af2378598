"""Which disagreements of an entry are new, and which are those of the formulas that PyTorch has already."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from parity_tests.harness.checks import CHECKS
from parity_tests.harness.findings import Verdict
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.report.results import ORACLE, Row
from parity_tests.sweep.formula_samples import differentiated
from torch_impl.derivatives import Entry, Formula, FormulaSyntaxError, lookup, parse

Mode = str  # "vjp" or "jvp"


@dataclass(frozen=True)
class Baseline:
    """An entry beside PyTorch's installed one.

    `changed`: whether the formulas of the VJP, and those of the JVP, are other ones; all of them if PyTorch has no such
    entry. `left_out`: the inputs of which the installed entry has a formula, or without such an entry the inputs that
    PyTorch differentiates, and this one says nothing: PyTorch's codegen makes them non-differentiable. `declared`:
    those of which this one says so.
    """

    changed: frozenset[Mode]
    exists: bool = True
    left_out: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()

    @classmethod
    def of(cls, entry: Entry) -> Baseline:
        """Compare an entry with the installed one, formula by formula, whatever their spaces and lines."""
        try:
            own = lookup(entry.name, entry.key)
        except LookupError:
            return cls(frozenset(("vjp", "jvp")), False, *_without(entry, differentiated(entry.name)))
        same = own.schema == entry.schema and own.differentiable_outputs == entry.differentiable_outputs
        same &= own.condition == entry.condition
        pairs = {"vjp": (entry.vjps, own.vjps), "jvp": (entry.jvps, own.jvps)}
        changed = frozenset(mode for mode, (a, b) in pairs.items() if not same or _read(a) != _read(b))
        return cls(changed, True, *_without(entry, _read(own.vjps)))

    def own(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that disagree by PyTorch's own formulas, since those that they rest on were not changed.

        A row that rests on formulas of both kinds is told by the results that are wrong in it. Of one that both may
        give it is told by whether an unchanged formula fails by itself, from which it would follow.
        """
        wrong = [row for row in rows if row.verdict is Verdict.MISMATCH and row.candidate != ORACLE]
        if not self.exists:
            return []
        own_fails = any(not _modes(row.check) & self.changed for row in wrong)
        return [row for row in wrong if not self._is_new(row, own_fails)]

    def _is_new(self, row: Row, own_fails: bool) -> bool:
        found = _modes(row.check)
        if found <= self.changed or not found & self.changed or not CHECKS[row.check].maps:
            return bool(found & self.changed)
        modes = {_mode_of(result.label) for result in row.failure.wrong} if row.failure else {None}
        return bool(modes & self.changed) or (None in modes and not own_fails)


def _without(entry: Entry, names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The inputs among these that an entry has no formula of: those left out, and those declared."""
    without = [name for name in names if name not in _read(entry.vjps)]
    declared = tuple(name for name in without if name in entry.non_differentiable)
    return tuple(name for name in without if name not in declared), declared


def _mode_of(label: str) -> Mode | None:
    """The kind of formula that alone gives a result, such as `self_bar` or `result_dot`; None if both may."""
    bar, dot = "_bar" in label, "_dot" in label
    return None if bar == dot else "vjp" if bar else "jvp"


def _modes(check: str) -> frozenset[Mode]:
    """The kinds of formulas that a check calls; none for the values, which are the operator's."""
    maps = CHECKS[check].maps
    if check == "forward":
        return frozenset()
    return frozenset(mode for name in maps for mode in ORDERS[name]) or frozenset(("vjp", "jvp"))


def _read(formulas: Collection[Formula]) -> dict[str, object]:
    """The syntax tree of the formula of each name."""
    return {name: _tree(formula.text) for formula in formulas for name in formula.names}


def _tree(text: str) -> object:
    try:
        return parse(text)
    except FormulaSyntaxError:
        return text.strip()
