"""The table of a sweep as one self-contained HTML file: nothing is loaded from elsewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from parity_tests.harness.report.templates import templates
from parity_tests.sweep.families import family_of
from parity_tests.sweep.guard import WHOLE
from parity_tests.sweep.lines import ALL_DTYPES, ALL_MODES, Verdict
from parity_tests.sweep.results_file import Results


def as_html(results: Results) -> str:
    """The table as an HTML document: it is sorted, filtered and searched by its own script, and whole without it.

    What it is filtered and sorted by stands in its address, as in "sweep.html#verdict=wrong in JAX&sort=calls".
    """
    lines = sorted(results.all_lines, key=lambda line: -line.verdict.rank)
    families = {operator: family_of(operator) for operator in results.lines}
    present = {line.verdict for line in lines}
    return (
        templates(Path(__file__).parent)
        .get_template("page.html")
        .render(
            lines=lines,
            operators=len(results.lines),
            counts=Counter(line.verdict for line in lines),
            verdicts=[verdict for verdict in Verdict if verdict in present],
            families=families,
            choices={
                "verdict": [verdict for verdict in reversed(Verdict) if verdict in present],
                "family": sorted(set(families.values())),
                "mode": [mode for mode in ALL_MODES if any(line.mode == mode for line in lines)],
                "dtype": [dtype for dtype in ALL_DTYPES if any(line.dtype == dtype for line in lines)],
            },
            whole=WHOLE,
            header=results.header,
        )
    )
