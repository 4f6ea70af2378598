"""The results so far: read at the start, written after each item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.campaign import Campaign, is_of_this_tree, listed
from benchmarks.figures import rounded
from benchmarks.gpu.items import Item
from benchmarks.gpu.outcome import BAD, LEFT_OUT, MEASURED, RIGHT, Outcome
from benchmarks.roofline import Rates

DONE, BAD_FOUND, NOT_DONE = 0, 1, 2  # exit codes


@dataclass(frozen=True)
class Found(Outcome):
    """An outcome, the seconds that it took, and the run, by its number, in which it was found."""

    seconds: float | None = None
    run: int = 0


class Results(Campaign[str, Found]):
    """The outcomes by the names of their items; each says in which of the runs it was found.

    A run: date, commit, device, versions, and the rates of the roofline if kernels were timed in it.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        """Go on with what a file has, if there is one, in a run with these facts."""
        super().__init__(path, Found, self._page, "items", since=self._since)
        self.runs: list[dict[str, Any]] = [*self.about.get("runs", ()), dict(run)]

    def _since(self, found: Found) -> str | None:
        """An outcome counts on its own device with its own versions, and a bad one only for its own code."""
        run, now = self.runs[found.run], self.runs[-1]
        if any(run[x] != now[x] for x in ("device", "versions", "dry run")):
            return ""
        return run["date"] if found.ended in BAD and not is_of_this_tree(run["commit"]) else None

    def add(self, item: Item, outcome: Outcome, seconds: float) -> None:
        """Add an outcome of this run, and write."""
        self.kept[item.name] = Found(**asdict(outcome), seconds=rounded(seconds), run=len(self.runs) - 1)
        self.write()

    def add_rates(self, rates: Rates, settings: Mapping[str, Any]) -> None:
        """The roofline of this run, and the settings under which kernels are timed."""
        self.runs[-1]["settings while timed"] = dict(settings)
        self.runs[-1]["rates"] = {kind: {name: rounded(x) for name, x in of.items()} for kind, of in rates.items()}

    def code(self, items: Iterable[str], left: int) -> int:
        """1 if one of these items is wrong or raised, else 2 if some are left to do, else 0."""
        bad = any(self.kept[name].ended in BAD for name in items if name in self.kept)
        return BAD_FOUND if bad else NOT_DONE if left else DONE

    def write(self) -> None:
        """Write the results as JSON, and a page beside it; runs of which nothing is left are forgotten."""
        used = sorted({found.run for found in self.kept.values()} | {len(self.runs) - 1})
        self.runs = [self.runs[run] for run in used]
        self.kept = {name: replace(found, run=used.index(found.run)) for name, found in self.kept.items()}
        self.about = {"schema": 1, "runs": self.runs}
        super().write()

    def _page(self, *_: object) -> str:
        """The outcomes as text: what is wrong first, then the speed, then all others."""
        of = {ended: [n for n, x in self.kept.items() if x.ended == ended] for ended in (*BAD, LEFT_OUT)}
        lines = ["# On a GPU", "", "Written by `python -m benchmarks gpu`; see benchmarks/README.md.", ""]
        for i, run in enumerate(self.runs):
            dry = "A DRY RUN, whose figures say nothing; " if run["dry run"] else ""
            lines.append(
                f"- run {i}: {dry}{run['device']}; {run['date']}; commit {run['commit']}; {listed(run['versions'])}"
            )
        for ended, names in of.items():
            lines += ["", f"## {ended.capitalize()}: {len(names)}", ""] if names else []
            lines += [f"- {name}: {self.kept[name].reason}" for name in names]
        lines += self._speed()
        rest = [(name, x) for name, x in self.kept.items() if x.ended == RIGHT]
        lines += ["", f"## Right: {len(rest)}", ""] if rest else []
        lines += [f"- {name}: {_short(found.data)}; {found.seconds} s, run {found.run}" for name, found in rest]
        return "\n".join([*lines, ""])

    def _speed(self) -> list[str]:
        measured = {name: found for name, found in self.kept.items() if found.ended == MEASURED}
        lines = ["", "## Speed", "", "Milliseconds, and the fraction of the roofline.", ""] if measured else []
        for name, found in measured.items():
            data = found.data
            each = [f"{v} {x['ms']} ({x['fraction_of_bound']:.0%})" for v, x in data["versions"].items()]
            lines.append(f"- {name.partition(': ')[2]}: bound {data['bound_ms']}; {', '.join(each)}; run {found.run}")
        return lines


def _short(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in data.items() if value != [])
