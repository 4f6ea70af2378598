"""The report of a run: tables for the terminal and for a Markdown page, and a plot."""

from __future__ import annotations

import statistics
from pathlib import Path

from rich.table import Table

from benchmarks.cases import NO_ATTN, VERSIONS, WHATS, Case, What
from benchmarks.figures import Results, Row, best_peer, speedup
from benchmarks.gates import Outcome
from benchmarks.roofline import bound

Cells = list[list[str]]  # rows of a table, the first its head


def _present(rows: list[Row]) -> list[str]:
    return [name for name in VERSIONS if any(row.times.get(name) for row in rows)]


def times_table(results: Results, rows: list[Row]) -> Cells:
    """Milliseconds, how many times faster than eager, and the fraction of the bound."""
    names = _present(rows)
    cells = [["n x m", "d", "dtype", "T", *names, "bound", "native beside the best peer"]]
    for row in rows:
        case = row.case
        limit = f"{_ms(bound(case, results.rates))}" if results.rates else ""
        texts = [_time(results, row, name) for name in names]
        cells.append([f"{case.n} x {case.m}", str(case.d), case.dtype, str(case.threads), *texts, limit, _peer(row)])
    return cells


def _time(results: Results, row: Row, name: str) -> str:
    taken = row.times.get(name)
    if not taken:
        return ""
    faster, fraction = speedup(row.times, name, "eager"), results.fraction(row, name)
    parts = [_ms(statistics.median(taken))]
    if faster is not None and name != "eager":
        parts.append(f"{faster:.2f}x")
    if fraction is not None and name not in NO_ATTN:
        parts.append(f"{100 * fraction:.0f}%")
    return " ".join(parts)


def _peer(row: Row) -> str:
    """How many times faster native is than the best peer, and which that is."""
    peer = best_peer(row.times)
    faster = speedup(row.times, "native", peer)
    return "" if faster is None else f"{faster:.2f}x, {peer}"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def peaks_table(results: Results) -> Cells:
    """Peak extra memory in n x m matrices."""
    names = [name for name in VERSIONS if any(name in peak.matrices for peak in results.peaks)]
    rows = [
        [f"{peak.case.n} x {peak.case.m}", WHATS[peak.case.what]]
        + [f"{peak.matrices[name]:.2f}" if name in peak.matrices else "" for name in names]
        for peak in results.peaks
    ]
    return [["n x m", "what", *names], *rows]


def rates_table(results: Results) -> Cells:
    """The best rate of each kind, who reached it, and the best of the others."""
    cells = [["rate", "best", "by", "others"]]
    for kind, found in results.rates.items():
        first, *rest = sorted(found, key=found.__getitem__, reverse=True)
        others = ", ".join(f"{found[name] / 1e9:.3g} {name}" for name in rest)
        unit = "GF/s" if kind.startswith("gemm") else "G/s" if kind.startswith("tanh") else "GB/s"
        cells.append([kind, f"{found[first] / 1e9:.3g} {unit}", first, others])
    return cells


def gates_table(outcomes: list[Outcome]) -> Cells:
    """Every bar, the worst figure, and whether it is met."""
    words = {True: "met", False: "MISSED", None: "not measured"}
    return [
        ["bar", "measured", "", "at"],
        *([x.bar, "" if x.value is None else f"{x.value:.2f}", words[x.met], x.where] for x in outcomes),
    ]


def sections(results: Results, outcomes: list[Outcome]) -> dict[str, Cells]:
    """All tables that have rows, by their titles."""
    tables = {"The bars": gates_table(outcomes)}
    for what, name in WHATS.items():
        rows = [row for row in results.rows if row.case.what == what]
        tables[f"{name}: ms, times faster than eager, fraction of the bound"] = times_table(results, rows)
    tables["Peak extra memory, in n x m matrices, results included"] = peaks_table(results)
    tables["Rates of one thread, of which the bound is made"] = rates_table(results)
    return {title: cells for title, cells in tables.items() if len(cells) > 1}


def as_rich(title: str, cells: Cells) -> Table:
    """The table for the terminal."""
    table = Table(*cells[0], title=title, title_justify="left")
    for row in cells[1:]:
        table.add_row(*row)
    return table


def as_markdown(results: Results, outcomes: list[Outcome], plot: Path | None) -> str:
    """A page with all tables."""
    machine, versions = results.facts["machine"], results.facts["versions"]
    lines = [
        "# attn, measured",
        "",
        "Written by `python -m benchmarks`; `benchmarks/README.md` says what the figures mean.",
        "",
        f"{results.facts['date']}; {machine['cpu']} ({', '.join(machine['vector extensions'])}), "
        f"{machine['cores']} cores, load {machine['load']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + ".",
    ]
    if not results.complete:
        lines += ["", f"**Not complete**: {results.error or 'interrupted'}"]
    if plot is not None:
        lines += ["", f"![Measured time over the bound of each implementation, by size]({plot.name})"]
    for title, cells in sections(results, outcomes).items():
        lines += ["", f"## {title}", "", "| " + " | ".join(cells[0]) + " |", "|---" * len(cells[0]) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in cells[1:]]
    lines += ["", *(f"- {name} is left out: {why}" for name, why in results.left_out.items())]
    lines += ["", *(f"- `{name}`: {what}" for name, what in VERSIONS.items())]
    return "\n".join(lines).rstrip() + "\n"


# Told apart without colour: each version has its own marker and dashes.
_STYLES = {
    "native": ("o", "-", 2.2),
    "eager": ("s", "--", 1.3),
    "function": ("^", "-.", 1.3),
    "compile": ("D", ":", 1.3),
    "jax_jit": ("v", "-", 1.3),
    "jax_attn": (">", "--", 1.3),
    "jax_ffi": ("<", "--", 1.3),
    "blockwise": ("x", ":", 1.0),
    "sdpa": ("+", ":", 1.0),
}


def plot(results: Results, path: Path) -> None:
    """Time over bound against n, forward and forward + backward side by side: d = 64, float32, one thread.

    Raises:
        ImportError: there is no Matplotlib.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    whats: tuple[What, ...] = ("forward", "both")
    panels = figure.subplots(1, len(whats), sharey=True)
    for panel, what in zip(panels, whats, strict=True):
        rows = [row for row in results.rows if row.case == Case(row.case.n, row.case.n, what=what)]
        rows.sort(key=lambda row: row.case.n)
        for name in _present(rows):
            points = [(row.case.n, 1 / x) for row in rows if (x := results.fraction(row, name))]
            marker, dashes, width = _STYLES[name]
            panel.loglog(*zip(*points, strict=True), marker=marker, linestyle=dashes, linewidth=width, label=name)
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set_xticks([row.case.n for row in rows], [str(row.case.n) for row in rows])
        panel.set_xticks([], minor=True)
        panel.set_title(WHATS[what])
        panel.set_xlabel("n = m")
        panel.grid(alpha=0.3)
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    low, high = panels[0].get_ylim()
    shown = [tick for tick in ticks if low <= tick <= high]
    panels[0].set_yticks(shown, [str(tick) for tick in shown])
    panels[0].set_ylabel("time / bound (1 is as fast as the machine goes)")
    panels[0].legend(fontsize="small")
    figure.savefig(path)
