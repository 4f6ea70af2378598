"""`gradparity formula`: PyTorch's derivative formulas of an operator, or a verdict on those of a file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from parity_tests.harness.findings import Verdict
from parity_tests.harness.report.printable import PrintableConsole
from torch_impl.derivatives import Entry, Formula, entries, lookup

if TYPE_CHECKING:
    from parity_tests.harness.report.report import Report
    from parity_tests.harness.report.results import Row
    from parity_tests.sweep.formula_baseline import Baseline
    from parity_tests.sweep.formula_cases import FormulaCase


def show_formulas(name: str) -> int:
    """Print PyTorch's formulas of an operator: every overload, or the one that is named.

    Raises:
        LookupError: there is no such entry.
    """
    console = PrintableConsole()
    overloads = [entry for entry in entries() if entry.key == "Default" and entry.name.partition(".")[0] == name]
    for entry in overloads or [lookup(name)]:
        console.print(_table(entry))
    return 0


def _table(entry: Entry) -> Table:
    from jax_ref import aten

    grid = Table("", "of", "formula", "line", title=escape(entry.schema), title_justify="left")
    for kind, formulas in (("VJP", entry.vjps), ("JVP", entry.jvps)):
        for formula in formulas:
            text = formula.text if formula.rule == "written" else f"{formula.text}  ({formula.rule})"
            grid.add_row(kind, escape(", ".join(formula.names)), escape(text), str(formula.line))
    for kind, names in (
        ("saved", (*entry.saved_inputs, *entry.saved_outputs)),
        ("no derivative", entry.non_differentiable),
        ("not implemented", entry.not_implemented),
    ):
        if names:
            grid.add_row(kind, escape(", ".join(names)), "", "")
    known = f"aten::{entry.name}" in aten.OPERATORS
    in_jax = f"jax_ref.aten.OPERATORS['aten::{entry.name}']" if known else "no reference in jax_ref.aten"
    grid.caption, grid.caption_justify = escape(f"{entry.path}:{entry.line}; {in_jax}"), "left"
    return grid


def judge_formulas(path: Path, op: str | None, spec: Path | None, proof: bool = False) -> int:
    """Judge the entries of a derivatives.yaml, or one of them, by crosscheck; nothing is compiled.

    Args:
        path: the file.
        op: the operator, with its overload if it has one; None: every entry.
        spec: a case file with the `spec` that the entry is judged against, for one operator; None: `jax_ref.aten`.
        proof: judge by the check `proof`, too.

    Returns:
        The exit code: 0 all agree, but for formulas that are PyTorch's own, 1 one disagrees, 2 one could not be judged.

    Raises:
        DerivativesFileError: the file cannot be read, or an entry of it is wrong.
        LookupError: it has no such operator.
        ValueError: a file without entries, or a spec for several.
    """
    own = spec is not None  # who brings a reference may have an operator of their own
    if op is None:
        chosen = [entry for entry in entries(path, undeclared=own) if entry.key == "Default"]
    else:
        chosen = [lookup(op, path=path, undeclared=own)]
    if spec is not None and len(chosen) != 1:
        raise ValueError(f"--spec is for one operator, and {path} has {len(chosen)}; choose one with --op")
    if not chosen:
        raise ValueError(f"{path}: has no entries with formulas; write one: - name: sin(Tensor self) -> Tensor")
    console = PrintableConsole()
    codes = [_judge(entry, spec, console, ("proof",) if proof else ()) for entry in chosen]
    return 1 if 1 in codes else max(codes)


def _judge(entry: Entry, spec: Path | None, console: PrintableConsole, more: tuple[str, ...]) -> int:
    from parity_tests.harness.crosscheck import crosscheck
    from parity_tests.sweep.formula_baseline import Baseline
    from parity_tests.sweep.formula_cases import NoCase, checks_of

    def say(text: str) -> None:
        console.print(f"{entry.path}:{entry.line}: {text}", soft_wrap=True, highlight=False, markup=False)

    baseline = Baseline.of(entry) if spec is None else None
    for line in () if baseline is None else _without_formula(entry, baseline):
        say(line)
    left_out = baseline is not None and bool(baseline.left_out)
    try:
        chosen = _cases(entry, spec)
    except NoCase as reason:
        say(f"{entry.name} {'DISAGREES, and ' if left_out else ''}is not judged: {reason}")
        return 1 if left_out else 2
    codes: dict[str, set[int]] = {}  # by the kind of numbers
    told: set[tuple[str, str]] = set()
    known: set[str] = set()  # the kinds of numbers of which formulas disagree that are PyTorch's own
    for case in chosen:
        kind = case.spec.formats[0]
        settled = 1 in codes.setdefault(kind, set()) or (kind in known and not (baseline and baseline.changed))
        if settled:  # the verdict is certain; what further samples tell costs seconds each
            continue
        report = crosscheck({entry.name: case.call}, case.spec, checks=(*checks_of(entry), *more), progress=False)
        new = report if baseline is None else _without(report, baseline.own(report.rows))
        codes[kind].add(new.exit_code)
        if report.exit_code == 1 and new.exit_code != 1:
            known.add(kind)
        for row in report.rows:
            if row.verdict is Verdict.PROVED:
                say(f"{entry.name}, at {case.where}: {'; '.join(row.proofs)}")
        wrong = _largest_errors(report.failed).keys()
        if report.exit_code == 2:
            reason = next((row.reason for row in report.failed if row.reason), "")
            say(f"{entry.name} is not judged at {case.where}: {reason}")
        elif report.exit_code == 1 and told and wrong <= told:
            say(f"{entry.name} disagrees in the same results at {case.where}, {kind}\n")
        elif report.exit_code == 1:
            told |= wrong
            _advise(report, entry, spec)
            lines = [f"{entry.name}, at {case.where}", *map(_line, (*entry.vjps, *entry.jvps))]
            say("\n".join([*lines, str(report)]))
            if new.exit_code == 1 and baseline is not None and baseline.exists:
                say(_beside_pytorch(entry, case, new.failed))
    # One sample may tell nothing, as one at which all derivatives are zero, if another of the same numbers does.
    code = 1 if left_out else max((1 if 1 in found else min(found) for found in codes.values()), key=_severity)
    say(f"{entry.name} {_verdict(code, baseline if known else None)}")
    return code


def _without_formula(entry: Entry, baseline: Baseline) -> Iterator[str]:
    """A line on each input that PyTorch differentiates, and of which this entry has no formula."""
    own = "'s own entry has a formula for it" if baseline.exists else " differentiates it"
    for name in baseline.left_out:
        yield (
            f"{entry.name} has no formula for {name}, and {_installed()}{own}: without one PyTorch's "
            f"codegen makes {name} non-differentiable; write the formula or, if that is meant, "
            f"`{name}: non_differentiable`"
        )
    for name in baseline.declared:
        yield (
            f"{entry.name} declares {name} to be non_differentiable, and {_installed()}{own}; it does not count for "
            "the exit code"
        )


def _without(report: Report, rows: Sequence[Row]) -> Report:
    """A report without some of its rows, for its exit code."""
    found = copy(report)
    found.rows = [row for row in report.rows if not any(row is other for other in rows)]
    return found


def _verdict(code: int, known: Baseline | None) -> str:
    """The verdict on an entry in words; `known`: beside the installed entry, if formulas disagree that both have."""
    if code or known is None:
        return {0: "agrees with its reference", 1: "DISAGREES", 2: "could not be judged"}[code]
    own = f"{_installed()}'s own, unchanged; it does not count for the exit code"
    if not known.changed:
        return f"DISAGREES: the entry is {own}"
    names = {"vjp": "VJP", "jvp": "JVP"}
    changed = " and ".join(names[mode] for mode in sorted(known.changed))
    same = "".join(name for mode, name in names.items() if mode not in known.changed) or "value"
    return f"agrees in its {changed}, and DISAGREES in its {same}: that is {own}"


def _beside_pytorch(entry: Entry, case: FormulaCase, new: Sequence[Row]) -> str:
    """Whether PyTorch's own derivatives disagree where an entry does, in the same results."""
    from parity_tests.harness.crosscheck import crosscheck
    from parity_tests.harness.judging.plan import shrinking_for

    assert case.installed is not None
    checks = list(dict.fromkeys(row.check for row in new))
    with shrinking_for(0.0):
        report = crosscheck({"installed": case.installed}, case.spec, checks=checks, progress=False)
    mine, theirs = _largest_errors(new), _largest_errors(report.failed)
    own, shared = f"{_installed()}'s own {entry.name}", mine.keys() & theirs.keys()
    if report.exit_code == 2:
        return f"{own} could not be judged at these inputs"
    # Of an error more than twice as large most is this entry's own.
    same = {x for x in shared if mine[x] <= 2 * theirs[x]}
    errors = ", and this entry by ".join(f"{max(of[x] for x in same or shared):.2g}" for of in (theirs, mine) if shared)
    if not shared:
        return f"{own} agrees at these inputs: the disagreement is new"
    if not same:
        return f"{own} is off by at most {errors}: the disagreement is new"
    if mine.keys() == same:
        return f"{own} disagrees in the same results at these inputs, by at most {errors}"
    results = ", ".join(f"{label} in {check}" for check, label in sorted(mine.keys() - same))
    return f"{own} disagrees at these inputs, too, by at most {errors}; new is {results}"


def _installed() -> str:
    from torch.version import __version__

    return f"PyTorch {__version__.partition('+')[0]}"


def _largest_errors(failed: Sequence[Row]) -> dict[tuple[str, str], float]:
    """The results that are wrong, by check and label, each with its largest error; 0 where it is no number."""
    found: dict[tuple[str, str], float] = {}
    for row in failed:
        for result in row.failure.wrong if row.failure else ():
            key = row.check, result.label
            found[key] = max(found.get(key, 0.0), result.error or 0.0)
    return found


def _advise(report: Report, entry: Entry, spec: Path | None) -> None:
    """Let each failure name the command that judges the entry again; advice about a Function is of no use to it."""
    again = f"gradparity formula {shlex.quote(str(entry.path))} --op {entry.name}"
    again += "" if spec is None else f" --spec {shlex.quote(str(spec))}"
    for i, row in enumerate(report.rows):
        if row.failure is not None:
            to_do = "" if row.failure.beyond_first_order else row.failure.to_do
            report.rows[i] = replace(row, failure=replace(row.failure, replay=again, to_do=to_do))


def _line(formula: Formula) -> str:
    return f"  line {formula.line}  {', '.join(formula.names)}: {formula.text}"


def _severity(code: int) -> int:
    """A disagreement outweighs what could not be judged."""
    return (0, 2, 1).index(code)


def _cases(entry: Entry, spec: Path | None) -> Sequence:
    from parity_tests.sweep.formula_cases import case_of_spec, cases

    if spec is None:
        return cases(entry)
    from parity_tests.cli.case_file import load_spec

    return [case_of_spec(entry, load_spec(spec))]
