"""The lines of a failure about its results: what is wrong with each, and the smallest case."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from parity_tests.harness.numbers.digits import apart
from parity_tests.harness.report.results import Smallest, WrongResult


def result_lines(result: WrongResult) -> Text:
    """Return the lines about one wrong result: its error, the worst entry, and what it looks like."""
    text = Text()
    text.append(f"  {result.label}", style="bold")
    if result.circumstance:
        text.append(f"  ({result.circumstance})")
    text.append(f"  {result.pattern}")
    if result.index is not None and result.oracle is not None and result.candidate is not None:
        candidate, oracle = apart(result.candidate, result.oracle)
        text.append(f"; worst {result.index}: candidate {candidate}, oracle {oracle}\n")
        error, allowed = apart(result.error, result.allowed, digits=3, sign="")
        text.append(f"      error {error}, allowed {allowed} (rounding bound)")
        text.append(f"; {result.equation}" if result.equation else "")
    text.append("\n")
    if result.looks_like:
        text.append(f"  looks like  {result.looks_like}\n", style="yellow")
    return text


def in_words(wrong: WrongResult) -> str:
    """A wrong result in one line of text: "k_bar 3/6 entries wrong (x has zeros)"."""
    return f"{wrong.label} {wrong.pattern}" + (f" ({wrong.circumstance})" if wrong.circumstance else "")


def smallest_line(smallest: Smallest, known: Sequence[WrongResult]) -> str:
    """The smallest case: "n=1, m=2; output_bar = e(0, 1), q = [[1]], else 0: k_bar (1, 0) is +1, oracle +0.5".

    What is said of the failure already, as that it raises some exception, is not said again.
    """
    sizes = ", ".join(f"{axis}={size}" for axis, size in smallest.sizes.items())
    entries = ", ".join(f"{label} = {what}" for label, what in smallest.entries.items())
    wrong = smallest.wrong
    found = f"{wrong.label} {wrong.pattern}"
    if wrong.index is not None and wrong.candidate is not None and wrong.oracle is not None:
        where = f" {wrong.index}" if wrong.index else ""
        candidate, oracle = apart(wrong.candidate, wrong.oracle)
        found = f"{wrong.label}{where}: candidate {candidate}, oracle {oracle}"
    found += f", {wrong.looks_like}" if wrong.looks_like else ""
    found += f"  ({wrong.circumstance})" if wrong.circumstance else ""
    if wrong.index is None and any((w.label, w.pattern) == (wrong.label, wrong.pattern) for w in known):
        found = ""
    return "; ".join(part for part in (sizes, entries, found) if part)
