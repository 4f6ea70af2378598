"""The results of the fault benchmark as a Markdown page, and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from benchmarks.campaign import listed, table
from benchmarks.fault_benchmark.run import Cell, Key, faults_of, keys, waiting
from benchmarks.fault_benchmark.tally import Tally, bars, missed_by_ours, ours, rules_in, tally
from benchmarks.fault_benchmark.versions import FORMATS, SIZES, VERSIONS
from parity_tests.operators.catalogue import MEASURED as OPERATORS
from parity_tests.operators.operator import Kind

_NOTES = """\
A fault is *caught* if the rule rejects the version with it. *In brackets*: only where the rule accepts the same version
without the fault; a rule that rejects right code, too, tells nothing. Faults that change each exact result by less than
half a unit in the last place of the format are counted apart, as *below rounding*. A *false alarm* is a right version
that is rejected. In float32 and float64 the first two versions compute in the format itself and are one.
gradcheck works in float64 only and is counted there, where code that exists in 16 bits alone cannot be run.
`benchmarks/fault_benchmark/rules.py` says how each rule is set, and where its users set it so."""


def as_markdown(about: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    """Return the page."""
    commits = dict.fromkeys(str(outcome["commit"]) for cell in cells for outcome in cell.rules.values())
    faults = sum(len(operator.faults) for operator in OPERATORS.values())
    lines = [
        "# Which acceptance rules catch which faults",
        "",
        f"Written by `python -m benchmarks faults`; {about['date']}; commit {', '.join(commits)}; "
        f"{listed(about['versions'])}; {about['machine']['cpu']}. {len(OPERATORS)} operators with {faults} faults of "
        "their backwards.",
        "",
        _NOTES,
        "",
        *_not_measured(cells),
        "![caught faults against false alarms](faults.svg)",
        "",
        *_bar_lines(cells),
    ]
    for format in FORMATS:
        of_format = [cell for cell in cells if cell.format == format]
        if of_format:
            lines += [f"## {format}", "", *_by_version(of_format), *_by_size(of_format)]
    judged_as_kernels = [cell for cell in cells if cell.format != "float64"]
    lines += [*_by_kind(judged_as_kernels), *_by_operator(judged_as_kernels)]
    lines += _missed_lines(cells)
    return "\n".join(lines).rstrip() + "\n"


def _not_measured(cells: Sequence[Cell]) -> list[str]:
    """Return lines on the cells that a complete run has and these results do not have, by rule."""
    known: dict[Key, Cell] = {cell.key: cell for cell in cells}
    missing: dict[str, dict[tuple[str, str], int]] = {}
    for key in keys(tuple(OPERATORS), FORMATS, SIZES, VERSIONS):
        for rule in waiting(key, rules_in(cells), known):
            of_rule = missing.setdefault(rule, {})
            of_rule[key[1], key[2]] = of_rule.get((key[1], key[2]), 0) + 1
    if not missing:
        return []
    alike: dict[str, list[str]] = {}
    for rule, of_rule in missing.items():
        where = ", ".join(f"{count} of {format} {size}" for (format, size), count in of_rule.items())
        alike.setdefault(where, []).append(rule)
    lines = [f"- {', '.join(rules)}: {where}." for where, rules in alike.items()]
    return ["**Not complete.** Versions that are not judged:", "", *lines, ""]


def _bar_lines(cells: Sequence[Cell]) -> list[str]:
    found = bars(cells)
    if not found:
        return []
    return _table(["bar", "measured", ""], ([bar, text, "met" if met else "MISSED"] for bar, text, met in found))


def _by_version(cells: Sequence[Cell]) -> list[str]:
    names = [name for name in VERSIONS if any(cell.version == name for cell in cells)]
    own = [name for name in names if any(faults_of(cell) for cell in cells if cell.version == name)]
    head = [
        "rule",
        *(f"caught, {name}" for name in own),
        "below rounding",
        *(f"false alarms, {name}" for name in names),
    ]
    rows = []
    for rule in rules_in(cells):
        counts = {name: tally((cell for cell in cells if cell.version == name), rule) for name in names}
        every = tally(cells, rule)
        rows.append(
            [
                rule,
                *(_caught(counts[name]) for name in own),
                _of(every.below, every.of_below),
                *(_of(counts[name].alarms, counts[name].versions) for name in names),
            ]
        )
    return _table(head, rows)


def _by_size(cells: Sequence[Cell]) -> list[str]:
    sizes = [size for size in SIZES if any(cell.size == size for cell in cells)]
    rows = [
        [rule, *(_caught(tally((cell for cell in cells if cell.size == size), rule)) for size in sizes)]
        for rule in rules_in(cells)
    ]
    return _table(["rule", *(f"caught, {size}" for size in sizes)], rows)


def _by_kind(cells: Sequence[Cell]) -> list[str]:
    """A table of the shares that are caught while the right version is accepted, by kinds of faults."""
    rules = rules_in(cells)
    if not cells:
        return []
    rows = []
    for kind in get_args(Kind):
        shares = []
        for rule in rules:
            there, caught = 0, 0
            for cell in (cell for cell in cells if rule in cell.rules):
                numbers = [
                    i for i, (_, f) in enumerate(faults_of(cell)) if f.kind == kind and i not in cell.below_rounding
                ]
                outcome = cell.rules[rule]
                there += len(numbers)
                caught += 0 if outcome["alarm"] else sum(i not in outcome["missed"] for i in numbers)
            shares.append(f"{100 * caught / there:.0f} %" if there else "")
        rows.append([kind, *shares])
    title = "## By kinds of faults, float32, bfloat16 and float16, where the right version is accepted"
    return [title, "", *_table(["kind", *rules], rows)]


def _by_operator(cells: Sequence[Cell]) -> list[str]:
    """A table of the faults that are caught while the right version is accepted, by operators."""
    rules = rules_in(cells)
    rows = []
    for name in dict.fromkeys(cell.operator for cell in cells):
        counts = [tally((cell for cell in cells if cell.operator == name), rule) for rule in rules]
        if any(t.of for t in counts):
            rows.append([name, *(f"{t.caught_knowingly} of {t.of}" if t.of else "" for t in counts)])
    if not rows:
        return []
    title = "## By operators, float32, bfloat16 and float16, where the right version is accepted"
    return [title, "", *_table(["operator", *rules], rows)]


def _missed_lines(cells: Sequence[Cell]) -> list[str]:
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for cell, i, _ in missed_by_ours(cells):
        sizes = rows.setdefault((cell.operator, faults_of(cell)[i][0]), {}).setdefault(cell.format, [])
        if cell.size not in sizes:
            sizes.append(cell.size)
    if not rows:
        return []
    text = "Where another rule accepts the version without the fault and rejects the one with it."
    title = f"## What {ours(cells)} misses and another rule catches"
    lines = []
    for (name, fault), at in rows.items():
        where = "; ".join(f"{format}, {', '.join(sizes)}" for format, sizes in at.items())
        lines.append(f"- {name}, {fault}: {where}")
    return [title, "", text, "", *lines]


def _caught(t: Tally) -> str:
    return f"{t.caught} ({t.caught_knowingly}) of {t.of}" if t.of else ""


def _of(count: int, of: int) -> str:
    return f"{count} of {of}" if of else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [*table(f"| {' | '.join(head)} |", rows), ""]


def summary(cells: Sequence[Cell]) -> list[str]:
    """Return a line for each rule, over all formats."""
    lines = []
    for rule in rules_in(cells):
        t = tally(cells, rule)
        lines.append(f"{rule}: caught {_caught(t)}; false alarms {_of(t.alarms, t.versions)}")
    return lines


def guide_table(cells: Sequence[Cell]) -> str:
    """Return the table of docs/judge_kernel.md: float32, bfloat16 and float16, where the right version is accepted."""
    judged = [cell for cell in cells if cell.format != "float64"]
    rows = []
    for rule in rules_in(judged):
        t = tally(judged, rule)
        if t.versions:
            rows.append([rule, f"{100 * t.caught_knowingly / t.of:.1f} %", _of(t.alarms, t.versions)])
    return "\n".join(_table(["rule of acceptance", "faults caught", "right versions rejected"], rows)).rstrip()


def plot(cells: Sequence[Cell], path: Path) -> None:
    """Draw the share of faults that each rule catches against its share of false alarms, a panel for each format.

    Raises:
        ImportError: there is no Matplotlib.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    formats = [format for format in FORMATS if any(cell.format == format for cell in cells)]
    figure = Figure(figsize=(4.2 * len(formats), 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    rules = rules_in(cells)
    for panel, format in zip(figure.subplots(1, len(formats), squeeze=False)[0], formats, strict=True):
        of_format = [cell for cell in cells if cell.format == format]
        for number, rule in enumerate(rules):
            t = tally(of_format, rule)
            if t.versions:
                own = rule.startswith("crosscheck")
                marker, color = ("*", "black") if own else ("osD^vP"[number % 6], f"C{number % 10}")
                x, y = 100 * t.alarms / t.versions, 100 * t.caught / max(t.of, 1)
                panel.plot(x, y, marker, markersize=13 if own else 7, color=color, label=rule)
        panel.set(title=format, xlabel="right versions rejected, %", xlim=(-4, 104), ylim=(-4, 104))
        panel.grid(alpha=0.3)
        panel.legend(fontsize="x-small", loc="lower right")
    figure.axes[0].set_ylabel("faults caught, %")
    figure.savefig(path)
