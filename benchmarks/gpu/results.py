"""The results so far: read at the start, written after each item."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import rounded
from benchmarks.gpu.items import Item
from benchmarks.gpu.outcome import BAD, LEFT_OUT, MEASURED, RIGHT, Outcome
from benchmarks.roofline import Rates
from parity_tests.harness.report.atomic_file import write_text

DONE, BAD_FOUND, NOT_DONE = 0, 1, 2  # exit codes


class Results:
    """The outcomes by the names of their items; each says in which of the runs it was found.

    A run: date, commit, device, versions, and the rates of the roofline if kernels were timed in it.
    """

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        """Go on with what a file has, if there is one, in a run with these facts."""
        self.path = path
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": [], "items": {}}
        self.runs: list[dict[str, Any]] = [*kept["runs"], dict(run)]
        self.items: dict[str, dict[str, Any]] = kept["items"]

    def due(self, items: Iterable[Item], is_current: Callable[[str | None], bool]) -> list[Item]:
        """Those without an outcome on this device with these versions.

        Then those that were wrong, or raised, if the code has changed since: if `is_current` denies their commit.
        """
        new, again = [], []
        for item in items:
            found = self.items.get(item.name)
            run = self.runs[found["run"]] if found else None
            if (
                found is None
                or run is None
                or any(run[x] != self.runs[-1][x] for x in ("device", "versions", "dry run"))
            ):
                new.append(item)
            elif found["ended"] in BAD and not is_current(run["commit"]):
                again.append(item)
        return [*new, *again]

    def add(self, item: Item, outcome: Outcome, seconds: float) -> None:
        """Add an outcome of this run, and write."""
        self.items[item.name] = {**outcome.as_data(), "seconds": rounded(seconds), "run": len(self.runs) - 1}
        self.write()

    def add_rates(self, rates: Rates, settings: Mapping[str, Any]) -> None:
        """The roofline of this run, and the settings under which kernels are timed."""
        self.runs[-1]["settings while timed"] = dict(settings)
        self.runs[-1]["rates"] = {kind: {name: rounded(x) for name, x in of.items()} for kind, of in rates.items()}

    def exit_code(self, items: Sequence[Item], left: int) -> int:
        """1 if an item is wrong or raised, else 2 if some are left to do, else 0."""
        if any(self.items[item.name]["ended"] in BAD for item in items if item.name in self.items):
            return BAD_FOUND
        return NOT_DONE if left else DONE

    def write(self) -> None:
        """Write the results as JSON, and a page beside it."""
        used = sorted({found["run"] for found in self.items.values()} | {len(self.runs) - 1})
        places = {run: place for place, run in enumerate(used)}  # runs of which nothing is left are forgotten
        self.runs = [self.runs[run] for run in used]
        self.items = {name: {**found, "run": places[found["run"]]} for name, found in self.items.items()}
        data = {"schema": 1, "runs": self.runs, "items": self.items}
        write_text(self.path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        write_text(self.path.with_suffix(".md"), self.page())

    def page(self) -> str:
        """The outcomes as text: what is wrong first, then the speed, then all others."""
        of = {ended: [n for n, x in self.items.items() if x["ended"] == ended] for ended in (*BAD, LEFT_OUT)}
        lines = ["# On a GPU", "", "Written by `python -m benchmarks gpu`; see benchmarks/README.md.", ""]
        for i, run in enumerate(self.runs):
            versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
            dry = "A DRY RUN, whose figures say nothing; " if run["dry run"] else ""
            lines.append(f"- run {i}: {dry}{run['device']}; {run['date']}; commit {run['commit']}; {versions}")
        for ended, names in of.items():
            lines += ["", f"## {ended.capitalize()}: {len(names)}", ""] if names else []
            lines += [f"- {name}: {self.items[name]['reason']}" for name in names]
        lines += self._speed()
        rest = [(name, x) for name, x in self.items.items() if x["ended"] == RIGHT]
        lines += ["", f"## Right: {len(rest)}", ""] if rest else []
        lines += [
            f"- {name}: {_short(found['data'])}; {found['seconds']} s, run {found['run']}" for name, found in rest
        ]
        return "\n".join([*lines, ""])

    def _speed(self) -> list[str]:
        measured = {name: found for name, found in self.items.items() if found["ended"] == MEASURED}
        lines = ["", "## Speed", "", "Milliseconds, and the fraction of the roofline.", ""] if measured else []
        for name, found in measured.items():
            data = found["data"]
            each = [f"{v} {x['ms']} ({x['fraction_of_bound']:.0%})" for v, x in data["versions"].items()]
            lines.append(
                f"- {name.partition(': ')[2]}: bound {data['bound_ms']}; {', '.join(each)}; run {found['run']}"
            )
        return lines


def _short(data: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in data.items() if value != [])
