"""The table of a sweep as one self-contained HTML file: nothing is loaded from elsewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from parity_tests.sweep.guard import WHOLE
from parity_tests.sweep.lines import Verdict
from parity_tests.sweep.results_file import Results


def as_html(results: Results) -> str:
    """The table as an HTML document: it is sorted, filtered and searched by its own script, and whole without it."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    lines = results.all_lines
    present = {line.verdict for line in lines}
    return environment.get_template("page.html").render(
        lines=lines,
        operators=len(results.lines),
        counts=Counter(line.verdict for line in lines),
        verdicts=[verdict for verdict in Verdict if verdict in present],
        modes=list(dict.fromkeys(line.mode for line in lines)),
        dtypes=list(dict.fromkeys(line.dtype for line in lines)),
        whole=WHOLE,
        header=results.header,
    )
