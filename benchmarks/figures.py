"""The results of a run, and the figures that follow from them: medians, speed-ups, fractions of the bound."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cases import NO_ATTN, Case, as_data
from benchmarks.roofline import Rates, bound
from parity_tests.harness.report.atomic_file import write_text

Times = dict[str, list[float]]  # version -> seconds for a call, one number for each round


@dataclass
class Row:
    """A case: the time of each version in each round."""

    case: Case
    times: Times = field(default_factory=dict)


@dataclass
class Peak:
    """The most by which the memory of the process grows, in n x m matrices, results included, for each version."""

    case: Case
    matrices: dict[str, float] = field(default_factory=dict)


@dataclass
class Results:
    """The results of a run; `complete` only if it came to its end."""

    facts: dict[str, Any] = field(default_factory=dict)
    rates: Rates = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    peaks: list[Peak] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # version -> why it could not be measured at all
    error: str | None = None
    complete: bool = False

    def row(self, case: Case) -> Row | None:
        """The row of a case, if it was measured."""
        return next((row for row in self.rows if row.case == case), None)

    def write(self, path: Path) -> None:
        """Write the results as JSON, whole or not at all."""
        data = {
            "schema": 1,
            "complete": self.complete,
            "error": self.error,
            **self.facts,
            "left_out": self.left_out,
            "rates": {kind: {name: rounded(x) for name, x in of.items()} for kind, of in self.rates.items()},
            "rows": [self._row_as_data(row) for row in self.rows],
            "peak_extra_matrices": [as_data(peak.case) | {"versions": peak.matrices} for peak in self.peaks],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(data, indent=1) + "\n")

    def _row_as_data(self, row: Row) -> dict[str, Any]:
        peer = best_peer(row.times)
        return as_data(row.case) | {
            "bound_ms": rounded(1e3 * bound(row.case, self.rates)) if self.rates else None,
            "best_peer": peer,
            "versions": {
                name: {
                    "ms": rounded(1e3 * statistics.median(taken)),
                    "times_faster_than_eager": rounded(speedup(row.times, name, "eager")),
                    "times_faster_than_best_peer": rounded(speedup(row.times, name, peer)),
                    "fraction_of_bound": rounded(self.fraction(row, name)),
                    "rounds_ms": [rounded(1e3 * x) for x in taken],
                }
                for name, taken in row.times.items()
                if taken
            },
        }

    def fraction(self, row: Row, version: str) -> float | None:
        """Bound / median time: 1 is as fast as the machine goes, by `roofline`."""
        taken = row.times.get(version)
        return bound(row.case, self.rates) / statistics.median(taken) if taken and self.rates else None


def rounded(x: float | None) -> float | None:
    """To four digits: more are noise."""
    return None if x is None else float(f"{x:.4g}")


def speedup(times: Times, version: str, reference: str | None) -> float | None:
    """How many times faster a version is: the median over the rounds of time of reference / time of version."""
    if reference is None:
        return None
    # An interrupted round lacks some.
    pairs = [y / x for x, y in zip(times.get(version, ()), times.get(reference, ()), strict=False)]
    return statistics.median(pairs) if pairs else None


def best_peer(times: Times) -> str | None:
    """The fastest of the versions that compute the same as native does."""
    medians = {x: statistics.median(t) for x, t in times.items() if t and x != "native" and x not in NO_ATTN}
    return min(medians, key=medians.__getitem__, default=None)
