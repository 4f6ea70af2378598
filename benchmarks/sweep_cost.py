"""The cost of a sweep: CPU seconds against calls, and the estimate for a night of releases and formats.

    python -m benchmarks.sweep_cost RESULTS.jsonl [RELEASES] [FORMATS]

The file is one of `gradparity sweep --resume`. Of each operator it has the CPU time, and the calls on which each of its
derivatives was compared; a derivative at a call is the unit of work. The fit is by least squares through both.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parity_tests.sweep.results_file import Results, read_results

_NIGHT = 8 * 3600  # seconds
_CORES = 16  # of a machine


@dataclass(frozen=True)
class Cost:
    """How the time of an operator grows with its work.

    Attributes:
        operators: how many there are.
        seconds: of CPU time, of all.
        work: derivatives times calls, of all.
        of_operator: seconds that an operator takes without work.
        of_unit: seconds that a derivative at a call takes.
        correlation: of the logarithms of time and work, over the operators that were compared.
        exponent: of the work in the power of it that is nearest to the time.
    """

    operators: int
    seconds: float
    work: int
    of_operator: float
    of_unit: float
    correlation: float
    exponent: float


def cost(results: Results) -> Cost:
    """Return the cost of a sweep.

    Raises:
        ValueError: fewer than three operators were compared.
    """
    rows = [
        (sum(line.seconds for line in lines), sum(line.calls for line in lines))
        for lines in results.lines.values()
        if any(line.calls for line in lines)
    ]
    if len(rows) < 3:
        raise ValueError(f"{len(rows)} operators were compared: too few to say how the time grows")
    seconds, work = np.array(rows, float).T
    of_unit, of_operator = np.polyfit(work, seconds, 1)
    logs = np.log(np.maximum(seconds, 1e-3)), np.log(work)
    exponent = float(np.polyfit(logs[1], logs[0], 1)[0])
    whole = sum(line.seconds for line in results.all_lines)
    correlation = float(np.corrcoef(*logs)[0, 1])
    return Cost(len(rows), whole, int(work.sum()), float(of_operator), float(of_unit), correlation, exponent)


def by_work(results: Results) -> list[tuple[int, int, float, float]]:
    """Return, by the work of the operators in powers of 4: its upper end, their number, and mean seconds and work."""
    groups: dict[int, list[tuple[float, int]]] = {}
    for lines in results.lines.values():
        work, seconds = sum(line.calls for line in lines), sum(line.seconds for line in lines)
        if work:
            groups.setdefault(4 ** math.ceil(math.log(work, 4)), []).append((seconds, work))
    return [
        (end, len(rows), float(np.mean([s for s, _ in rows])), float(np.mean([w for _, w in rows])))
        for end, rows in sorted(groups.items())
    ]


def main(arguments: Sequence[str]) -> int:
    """Print the cost of the sweep in a file, and of a night; returns the exit code."""
    results = read_results(Path(arguments[0]))
    releases, formats = (int(text) for text in (*arguments[1:3], "10", "4")[:2])
    found = cost(results)
    night = found.seconds * releases * formats / 2  # a sweep has two formats
    machines = math.ceil(night / (_NIGHT * _CORES))
    lines = [
        f"{found.operators} operators were compared: {found.work} derivatives at calls in {found.seconds:.0f} CPU s",
        f"{found.of_operator:.2f} s an operator and {1000 * found.of_unit:.2f} ms a derivative at a call",
        f"time ~ work^{found.exponent:.2f}, correlation of the logarithms {found.correlation:.2f}",
        "work up to | operators | mean CPU s | mean work | ms a unit",
        *(
            f"{end:10d} | {count:9d} | {seconds:10.2f} | {work:9.0f} | {1000 * seconds / work:9.2f}"
            for end, count, seconds, work in by_work(results)
        ),
        f"{releases} releases x {formats} formats: {night / 3600:.1f} CPU h, {machines} machine(s) of {_CORES} cores",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
