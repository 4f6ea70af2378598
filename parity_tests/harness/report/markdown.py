"""A report as Markdown that fits the thread of an issue: what is wrong, the smallest input, the versions, the case."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from parity_tests.harness.numbers.digits import apart
from parity_tests.harness.report import first_order
from parity_tests.harness.report.atomic_file import write_text
from parity_tests.harness.report.lines_of_failures import ASKS, headline, more, options_line
from parity_tests.harness.report.lines_of_results import smallest_line
from parity_tests.harness.report.printable import in_a_line
from parity_tests.harness.report.results import Failure, Results, WrongResult
from parity_tests.harness.report.text import explanations, grouped_failures, summary, verdict_line
from parity_tests.harness.specs.seeds import seed_in_words

BEGINNING = "<!-- gradparity -->"  # by which a file is known as a report, and may be replaced
_VERSIONS = ("gradparity", "torch", "jax", "numpy", "python", "platform")


def as_markdown(report: Results, cases: Mapping[str, str] | None = None) -> str:
    """Return the report as Markdown.

    Args:
        report: what a run has found.
        cases: the source of each case file by its name, which has the formulas of both sides; shown at the end.
    """
    causes, consequences = grouped_failures(report.failures)
    parts = [BEGINNING, f"**{_escaped(verdict_line(report).plain)}**"]
    parts += [f"**{_escaped(line.plain)}**" for line in first_order.lines(report)]
    parts += ["\n\n".join(_failure(group)) for group in causes]
    parts += [_escaped(line) for line in summary(consequences).values()]
    reasons = [f"- {_escaped(text.plain)}" for text in explanations(report)]
    if reasons:
        parts.append(_folded("What else did not pass, and why", "\n".join(reasons)))
    parts.append(_folded("Versions", _versions(report)))
    parts += [_folded(in_a_line(name), _code(text, "python")) for name, text in (cases or {}).items()]
    return "\n\n".join(parts) + "\n"


def to_markdown(report: Results, path: str | os.PathLike[str]) -> None:
    """Write `as_markdown(report)` to a file, whole or not at all."""
    write_text(path, as_markdown(report))


def _failure(group: Sequence[Failure]) -> Iterator[str]:
    """The paragraphs about one check: the failure of the first format, and in which others it fails, too."""
    failure, *others = group
    yield f"### {_escaped(failure.op)}: {_escaped(headline(failure))} in `{_uncoded(failure.check)}`"
    sizes = ", ".join(f"{_escaped(axis)}={size}" for axis, size in failure.sizes.items())
    where = f"{_escaped(failure.dtype)} on {_escaped(failure.device)}, sample `{_uncoded(failure.sample)}`"
    where += f" ({sizes})" if sizes else ""
    where += f", with `{_uncoded(options_line(failure))}`" if failure.options else ""
    also = f"; also in {', '.join(_escaped(other.dtype) for other in others)}" if others else ""
    yield f"In {where}, {seed_in_words(failure.seed)}{also}."
    yield _table(failure.wrong)
    lines = [f"Looks like: `{_uncoded(result.looks_like)}`" for result in failure.wrong if result.looks_like]
    if failure.smallest and (smallest := smallest_line(failure.smallest, failure.wrong)):
        lines.append(f"The smallest input that fails: `{_uncoded(smallest)}`")
    lines += [f"Witness: {_escaped(failure.judge)}"] if failure.judge else []
    lines += [f"Right in the same sample: {_escaped(', '.join(failure.agrees))}"] if failure.agrees else []
    lines += [f"To judge it again: `{_uncoded(failure.replay)}`"] if failure.replay else []
    asks = ASKS if failure.asks else ""
    lines += [f"To see it without gradparity: `python {_uncoded(failure.script)}`{asks}"] if failure.script else []
    lines += [f"To do: {_escaped(step)}"] if (step := failure.suspect or failure.to_do) else []
    lines += [f"To read more: `{_uncoded(more(failure))}`"] if more(failure) else []
    yield "\n".join(f"- {line}" for line in lines)


def _table(wrong: Sequence[WrongResult]) -> str:
    columns = ("result", "what is wrong", "worst entry", "candidate", "oracle", "error", "allowed")
    head = f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|"
    return "\n".join([head, *(_row(result) for result in wrong)])


def _row(result: WrongResult) -> str:
    candidate = oracle = error = allowed = ""
    if result.index is not None:
        candidate, oracle = apart(result.candidate, result.oracle)
        error, allowed = apart(result.error, result.allowed, digits=3, sign="")
    pattern = result.pattern + (f" ({result.circumstance})" if result.circumstance else "")
    index = "" if result.index is None else str(result.index)
    label = _uncoded(result.label).replace("|", "\\|")  # which ends a cell of a table even in code
    cells = (f"`{label}`", _escaped(pattern), index, candidate, oracle, error, allowed)
    return f"| {' | '.join(cells)} |"


def _versions(report: Results) -> str:
    environment = report.environment
    known = [name for name in _VERSIONS if environment.get(name) is not None]
    return "\n".join(f"- {name}: {_escaped(str(environment[name]))}" for name in known) or "- not known"


def _folded(title: str, body: str) -> str:
    return f"<details>\n<summary>{html.escape(_unlinked(title))}</summary>\n\n{body}\n\n</details>"


def _code(text: str, language: str) -> str:
    """A block of code, within a fence that is longer than any in the code itself."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _escaped(text: str) -> str:
    """Text in a line, in which nothing is taken for Markdown or HTML, pings nobody and links to nothing."""
    text = re.sub(r"([\\`*_\[\]|#<>~&$])", r"\\\1", _unlinked(in_a_line(text).strip()))
    return re.sub(r"^(?:[-+=](?=[-=\s]|$)|\d+(?=[.)](?:\s|$)))", _begun, text)


def _begun(match: re.Match[str]) -> str:
    """Return the match escaped, so that it begins no list at the beginning of a line."""
    return match[0] + _NOTHING if match[0].isdigit() else "\\" + match[0]


# What GitHub makes a link, or a message to somebody, of the text that it shows, in which no escape is left
_LINKED = re.compile(r"@|#(?=\d)|\bGH-(?=\d)|://|\bwww(?=\.)|\b(?:mailto|xmpp)(?=:)", re.IGNORECASE)
_NOTHING = "\u200b"  # a space without width


def _unlinked(text: str) -> str:
    """Text that reads as before; `@name`, `#12`, `GH-12` and addresses are interrupted by a space without width."""
    return _LINKED.sub(lambda match: match[0][:1] + _NOTHING + match[0][1:], text)


def _uncoded(text: str) -> str:
    """Text in a line that can be put between backticks, where nothing is linked."""
    return in_a_line(text).replace("`", "'").strip() or "-"
