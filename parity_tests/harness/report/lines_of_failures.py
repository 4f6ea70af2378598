"""A failure as a diagnosis: who disagrees and where, what is wrong, who is right, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from parity_tests.harness.report.lines_of_results import in_words, result_lines, smallest_line
from parity_tests.harness.report.results import ORACLE, Failure, Row
from parity_tests.harness.specs.seeds import seed_in_words

ASKS = ", once the callables that it asks for are filled in"


def headline(failure: Failure) -> str:
    """Return the failure in a few words: "mine disagrees with the oracle"."""
    if failure.suspect:
        return f"{failure.candidate} is suspect"
    if failure.candidate == ORACLE:
        return f"{failure.candidate} disagrees with its own certificate"
    if failure.beyond_first_order:
        raises = any(result.pattern.startswith("raises ") for result in failure.wrong)
        order = "third" if failure.check == "third_order" else "second"
        return f"{failure.candidate} {'fails' if raises else 'is silently wrong'} in {order} order"
    return f"{failure.candidate} disagrees with the oracle"


def what_is_wrong(row: Row) -> str:
    """The reason of a row in a line: of a diagnosed failure each wrong result, with what it looks like."""
    if row.failure is None:
        return row.reason
    found = (f"{in_words(wrong)}: {wrong.looks_like or ''}".removesuffix(": ") for wrong in row.failure.wrong)
    return "; ".join(dict.fromkeys(found))


def more(failure: Failure) -> str:
    """The command that says more about what a check catches; empty of the oracle, which is no candidate of it."""
    return "" if failure.candidate == ORACLE else f"gradparity explain {failure.check}"


def options_line(failure: Failure) -> str:
    """The keyword parameters of the call: "dim=-1, beta=2.0"."""
    return ", ".join(f"{name}={value}" for name, value in failure.options.items())


def failure_text(failure: Failure, also: Sequence[str] = ()) -> Text:
    """A failure as a diagnosis; `also`: the other dtypes in which the same check fails."""
    sizes = ", ".join(f"{axis}={size}" for axis, size in failure.sizes.items())
    where = [failure.check, failure.sample + (f" ({sizes})" if sizes else ""), failure.dtype, failure.device]
    text = Text()
    text.append(f"{failure.op}: {headline(failure)}", style="bold magenta" if failure.suspect else "bold red")
    text.append(f"   [{', '.join(where)}, {seed_in_words(failure.seed)}]\n")
    if failure.options:
        text.append(f"  with    {options_line(failure)}\n")
    for result in failure.wrong:
        text.append(result_lines(result))
    if failure.agrees:
        text.append(f"  agrees  {', '.join(failure.agrees)}\n")
    if failure.smallest and (smallest := smallest_line(failure.smallest, failure.wrong)):
        text.append(f"  smallest  {smallest}\n")
    if failure.judge:
        text.append(f"  witness {failure.judge}\n")
    if also:
        text.append(f"  also in {' '.join(also)}\n")
    if failure.replay:
        text.append(f"  replay  {failure.replay}\n")
    if failure.script:
        text.append(f"  script  python {failure.script}{ASKS if failure.asks else ''}\n")
    for line in failure.unexplained:
        text.append(f"  not explained  {line}\n")
    text.append(f"  to do   {'; '.join(filter(None, (failure.suspect or failure.to_do, more(failure))))}\n")
    return text
