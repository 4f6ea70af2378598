"""A report as text: a table of checks x candidates, and below it every failure."""

from __future__ import annotations

import io
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

from rich.console import Group
from rich.text import Text

from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.findings import AS_JAX, Verdict
from parity_tests.harness.maps import rests_on
from parity_tests.harness.names import MAPS, QUICK
from parity_tests.harness.numbers.formats import FORMATS
from parity_tests.harness.report import extent, first_order
from parity_tests.harness.report.consequences import follows
from parity_tests.harness.report.judged import unjudged, values_only, why_unjudged
from parity_tests.harness.report.lines_of_failures import failure_text
from parity_tests.harness.report.printable import PrintableConsole
from parity_tests.harness.report.results import ORACLE, Failure, Results, Row, WrongResult
from parity_tests.harness.report.table import SHORT, STYLE, table

_NAMED = 3  # checks that apply to some candidate only, in a brief report


def timing_line(report: Results, brief: bool = False) -> Text:
    """A line that says how long the run took, and what took most of it; `brief`: the costliest check alone."""
    seconds: dict[str, float] = defaultdict(float)
    for row in report.rows:
        seconds["the oracle's certificates" if row.candidate == ORACLE else row.check] += row.seconds
    costliest = sorted(seconds, key=lambda check: -seconds[check])[: 1 if brief else 5]
    judging = sum(seconds.values())
    parts = {name: report.seconds[name] for name in ("starting", "loading") if name in report.seconds}
    total = report.seconds.get("total", judging)
    rest = total - judging - sum(parts.values())
    parts |= {name: seconds[name] for name in costliest}
    others = judging - sum(seconds[name] for name in costliest)
    if brief:
        parts["all else"] = others + max(rest, 0)
    elif len(seconds) > len(costliest):
        parts["other checks"] = others
    if not brief and rest >= 0.05:  # with several processes there may be none
        parts["samples, their bounds, and explaining failures"] = rest
    most = ", ".join(f"{name} {amount:.1f} s" for name, amount in parts.items())
    return Text(f"{total:.1f} s" + (f": {most}" if most else ""), style="dim")


def details(report: Results, verbose: bool = False, brief: bool = False) -> Group:
    """Everything under the table: limits, what was skipped and why, the failures, and last of all the verdict.

    `verbose`: every failure in full, in every format, those that may follow from others included. `brief`: see
    `explanations`.
    """
    told = [*(map(failure_text, report.failures) if verbose else _failure_texts(report.failures))]
    reasons = explanations(report, brief)
    space = [Text("")] if told and reasons else []
    return Group(*reasons, *space, *first_order.lines(report), *told, verdict_line(report))


def failures(report: Results) -> list[Text]:
    """Return the least that is shown of a report: the failures, what should have been built, and the verdict."""
    broken = [text for text, expected in _not_built(report) if not expected]
    return [*first_order.lines(report), *_failure_texts(report.failures), *broken, verdict_line(report)]


def explanations(report: Results, brief: bool = False) -> list[Text]:
    """A line for everything that has a reason: what did not pass, what is not built, what was skipped.

    One line is for all candidates of which it is true. `brief`: without the reasons of checks that do not apply, the
    digits that JAX's formula loses as well, and the arithmetic of candidates that pass.
    """
    rows = report.rows
    of_candidates = [*_reasons(rows, brief), *_conventions(rows), *_proofs(rows)]
    of_candidates += [*_lost_digits(rows, brief), *_arithmetics(_failing(rows) if brief else rows)]
    parts = _merged(of_candidates, {row.candidate for row in rows} - {ORACLE})
    parts.extend(text for text, _ in _not_built(report))
    parts.extend(Text(line, style="dim") for line in extent.lines(report))
    raised = [w.pattern for failure in report.failures for w in failure.wrong if w.pattern.startswith("raises ")]
    for line in report.skipped:
        if not _is_repeated(line, raised):
            parts.append(Text(line if line.startswith(QUICK) else f"skipped: {line}", style="dim"))
    if brief and (skipped := [*dict.fromkeys(row.check for row in rows if _does_not_apply(row))]):
        more = f" and {len(skipped) - _NAMED} others" if len(skipped) > _NAMED else ""
        parts.append(Text(f"not applicable (-v says why): {', '.join(skipped[:_NAMED])}{more}", style="dim"))
    return parts


def _merged(lines: Sequence[tuple[str, Text]], everybody: Set[str]) -> list[Text]:
    """The texts after the names of the candidates of which each is true."""
    of: dict[str, tuple[Text, dict[str, None]]] = {}
    for candidate, text in lines:
        of.setdefault(text.markup, (text, {}))[1][candidate] = None
    parts = []
    for text, names in of.values():
        parts.append(Text(extent.named(names, everybody), style=text.style) + text)
    return parts


def _does_not_apply(row: Row) -> bool:
    return row.verdict is Verdict.SKIPPED and row.candidate != ORACLE


def _failing(rows: Sequence[Row]) -> list[Row]:
    """The rows of the candidates of which one does not pass."""
    failing = {row.candidate for row in rows if not row.passed}
    return [row for row in rows if row.candidate in failing]


def _reasons(rows: Sequence[Row], brief: bool) -> Iterator[tuple[str, Text]]:
    reasons: dict[tuple, dict[str, list[str]]] = {}
    of_oracle = {row.reason: row.check for row in reversed(rows) if row.candidate == ORACLE and row.reason}
    for row in rows:
        if row.reason and not (brief and _does_not_apply(row)):
            reason = row.reason if row.candidate == ORACLE else _shortened(row.reason, of_oracle)
            key = (row.candidate, row.verdict, reason.removeprefix(f"{row.candidate}, "), _means(row))
            reasons.setdefault(key, {}).setdefault(row.check, []).append(SHORT[row.dtype])
    for (candidate, verdict, reason, means), checks in reasons.items():
        text = Text(f", {_which(checks, verdict)}: ")
        text.append(verdict.value, style=STYLE[verdict])
        text.append(f"{means}: {reason}")
        yield candidate, text


def _conventions(rows: Sequence[Row]) -> Iterator[tuple[str, Text]]:
    """Yield for each result of a candidate the first convention at a kink, and the first outside of a domain."""
    conventions: dict[tuple[str, str, bool], str] = {}
    for row in rows:
        for line in row.conventions:
            key = (row.candidate, line.split(" ")[0], "outside of the domain" in line)
            conventions.setdefault(key, f"{row.check}: {line}")
    for (candidate, _, _), line in conventions.items():
        yield candidate, Text(f", a convention in {line}", style="dim")


def _not_built(report: Results) -> Iterator[tuple[Text, bool]]:
    """A line for each candidate that is not built, and whether that was expected."""
    for candidate in report.not_built:
        style = "dim" if candidate.expected else "bold red"
        yield Text(f"{candidate.name}, not built: {candidate.reason}", style=style), candidate.expected


def _proofs(rows: Sequence[Row]) -> Iterator[tuple[str, Text]]:
    """A line for each map of a candidate whose program was compared with the oracle's; once for all dtypes."""
    for row in rows:
        yield from ((row.candidate, Text(f": {line}", style="dim")) for line in row.proofs if line != row.reason)


def _lost_digits(rows: Sequence[Row], brief: bool) -> Iterator[tuple[str, Text]]:
    """A line for each result of a candidate that has lost digits, on the first format in which it does."""
    lines: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    as_jax: dict[str, None] = {}
    for row in rows:
        for line in row.lost_digits:
            lines.setdefault((row.op, row.candidate, line.split(" ")[0]), []).append((SHORT[row.dtype], line))
    for (_, candidate, _), ((dtype, line), *others) in lines.items():
        if brief and AS_JAX in line:
            as_jax[candidate] = None
            continue
        also = " ".join(dict.fromkeys(other for other, _ in others if other != dtype))
        text = Text(f", {dtype}: ")
        text.append("LOSES DIGITS", style="yellow")
        text.append(f": {line}" + (f"; also in {also}" if also else ""))
        yield candidate, text
    for candidate in as_jax:
        yield candidate, Text(": digits are lost where JAX loses them, too (-v shows where)", style="dim")


def _arithmetics(rows: Sequence[Row]) -> Iterator[tuple[str, Text]]:
    """A line for each candidate and 16-bit format, with the arithmetic that explains each result."""
    for row in rows:
        labels: dict[str, list[str]] = {}
        for label, arithmetic in row.arithmetic.items():
            labels.setdefault(arithmetic, []).append(label)
        if labels:
            described = "; ".join(f"{', '.join(names)}: {arithmetic}" for arithmetic, names in labels.items())
            yield row.candidate, Text(f", {SHORT[row.dtype]}, its arithmetic: {described}", style="dim")


def _is_repeated(line: str, raised: Sequence[str]) -> bool:
    """True if a line is about an empty axis, and the candidate raises the same exception wherever it is called."""
    _, refuses, rest = line.partition(" refuses an empty axis")
    message = rest.partition(": ")[2]
    return bool(refuses) and any(f": {message} (" in pattern for pattern in raised)


def _shortened(reason: str, of_oracle: Mapping[str, str]) -> str:
    """A candidate's reason without what a row of the oracle's says already; `of_oracle`: these, and their checks."""
    for known, check in of_oracle.items():
        if reason == known:
            return f"for the reason that the oracle's {check} has"
        if reason.endswith(f" has no certificate: {known}"):
            return reason.removesuffix(f": {known}")
    return reason


def _means(row: Row) -> str:
    """How a refusal was expected: as the caller lists, as it is of such code, or as anybody is refused."""
    if not row.listed:
        return ""
    if row.limit_of:
        return f", a limit of {row.limit_of}"
    return ", a known limit" if row.declared else ", as listed"


def _which(checks: Mapping[str, Sequence[str]], verdict: Verdict) -> str:
    """The checks, with the formats unless each of many is skipped: "vjp, jvp, f64 f32", "vjp (f64 f32), jvp (f64)".

    Several operators or devices may have a row of one check and format.
    """
    formats = {check: " ".join(dict.fromkeys(dtypes)) for check, dtypes in checks.items()}
    if len(checks) > 1 and verdict is Verdict.SKIPPED:
        return ", ".join(checks)
    if len({*formats.values()}) == 1:
        return f"{', '.join(checks)}, {next(iter(formats.values()))}"
    return ", ".join(f"{check} ({dtypes})" for check, dtypes in formats.items())


def grouped_failures(failures: Sequence[Failure]) -> tuple[list[list[Failure]], list[list[Failure]]]:
    """The failures of every check, one per format: those to show, and those that follow from others.

    A failure follows from one of a check that it rests on, in the same format or in a wider one. A check is told if one
    of its failures does not follow: that first, in the widest format. The simplest check comes first, then the widest
    format, then the largest error.
    """
    by_check: dict[tuple[str, str, str, str], list[Failure]] = {}
    for f in failures:
        by_check.setdefault((f.op, f.candidate, f.device, f.check), []).append(f)
    causes, consequences = [], []
    for key, group in by_check.items():
        others = [f for other, fs in by_check.items() if other[:3] == key[:3] for f in fs]
        unexpected = [f for f in group if f.candidate == ORACLE or not any(_follows(f, other) for other in others)]
        if unexpected:
            first = min(unexpected, key=_rank)
            causes.append([first, *sorted((f for f in group if f is not first), key=_place)])
        else:
            consequences.append(sorted(group, key=_place))
    columns = list(dict.fromkeys((f.op, f.candidate, f.device) for f in failures))

    def order(group: list[Failure]) -> tuple[int, int, tuple[int, float]]:
        first = group[0]
        return columns.index((first.op, first.candidate, first.device)), _depth(first.check), _rank(first)

    return sorted(causes, key=order), sorted(consequences, key=order)


def _follows(failure: Failure, other: Failure) -> bool:
    return follows(_rests_on(failure.check), FORMATS[failure.dtype], other.check, FORMATS[other.dtype])


def _rests_on(check: str) -> frozenset[str]:
    return rests_on(check, MAPS[check]) if check in MAPS else frozenset()


def _rank(failure: Failure) -> tuple[int, float]:
    """The widest format first, then the largest error in units of what rounding explains."""
    ratios = [_ratio(result) for result in failure.wrong]
    return -FORMATS[failure.dtype].storage.itemsize, -max(ratios, default=math.inf)


def _ratio(result: WrongResult) -> float:
    """The error in units of its bound; infinite for a property that does not hold, and where the bound is 0."""
    if result.error is None or not result.allowed:
        return math.inf
    return result.error / result.allowed


def _place(failure: Failure) -> int:
    """The position of a format in the usual order."""
    return list(SHORT).index(failure.dtype)


def _depth(check: str) -> int:
    """The number of checks below a check that rest on one another; 0 for `forward`."""
    return max((1 + _depth(other) for other in _rests_on(check)), default=0)


def summary(consequences: Sequence[Sequence[Failure]]) -> dict[tuple[str, str, str], str]:
    """A line for each operator, candidate and device, with the checks and the dtypes."""
    checks: dict[tuple[str, str, str], list[str]] = {}
    for group in consequences:
        dtypes = " ".join(SHORT[f.dtype] for f in group)
        checks.setdefault((group[0].op, group[0].candidate, group[0].device), []).append(f"{group[0].check} ({dtypes})")
    return {
        (op, candidate, device): f"{op}: {candidate} also fails, probably by the same mistake: {', '.join(names)}"
        for (op, candidate, device), names in checks.items()
    }


def _failure_texts(failures: Sequence[Failure]) -> Iterator[Text]:
    """The first failure of every check in full, except of those that rest on one that fails, too: these in a line."""
    causes, consequences = grouped_failures(failures)
    for group in causes:
        yield failure_text(group[0], also=[SHORT[f.dtype] for f in group[1:]])
    yield from (Text(f"{line}\n") for line in summary(consequences).values())


def verdict_line(report: Results) -> Text:
    """One line that says whether everything agrees."""
    judged = [row for row in report.rows if row.candidate != ORACLE]
    failed = report.failed
    refusals = [row for row in judged if row.verdict is Verdict.UNSUPPORTED and row.listed]
    declared = sum(row.declared for row in refusals)
    others = Counter(row.limit_of for row in refusals if row.limit_of)
    listed = len(refusals) - declared - others.total()
    skipped = sum(row.verdict is Verdict.SKIPPED for row in judged)
    compared = sum(row.comparisons for row in judged)
    if report.error:
        return Text(f"Could not judge: {report.error}", style="bold red")
    if report.passed:
        text = f"All agree: {len(judged) - len(refusals) - skipped} rows, {compared:,} comparisons"
        text += _limits(listed, "listed limit") + _limits(declared, "known limit")
        text += "".join(_limits(count, "limit", f" of {whose}") for whose, count in others.items())
        suspect = sum(row.verdict is Verdict.SUSPECT for row in judged)
        text += f"; {suspect} suspect, which is allowed" if suspect else ""
        only = values_only(judged)
        text += f"; {only}" if only else ""
        text += "".join(f"; {line}" for line in extent.not_at_given_size(report))
        return Text(text, style="bold green")
    if not failed and (without := unjudged(judged)):
        lines = (why_unjudged(candidate, refused) for (_, candidate), refused in without.items())
        text = "; ".join(lines)
        return Text(text[0].upper() + text[1:], style="bold red")
    if not failed:
        return Text(_why_nothing_failed(report, judged), style="bold red")
    text = f"{len(failed)} of {len(report.rows)} rows do not pass, {compared:,} comparisons"
    if first_order.only_higher_order_fails(report):
        text = f"First order agrees, second order does not: {text}"
    return Text(text, style="bold red")


def _limits(count: int, kind: str, whose: str = "") -> str:
    return f", {count} {kind}{'s' if count != 1 else ''}{whose}" if count else ""


def _why_nothing_failed(report: Results, judged: Sequence[Row]) -> str:
    """Why a report does not pass although none of its rows fails."""
    broken = [candidate for candidate in report.not_built if not candidate.expected]
    if judged and broken:
        return f"{'; '.join(dict.fromkeys(map(_with_operator, broken)))} should have been judged"
    verdicts = " or ".join(dict.fromkeys(row.verdict.value for row in judged))
    return f"Nothing was judged: each row is {verdicts}" if judged else "Nothing was judged"


def _with_operator(candidate: NotBuilt) -> str:
    return f"{candidate.op}, {candidate.name}" if candidate.op not in ("", candidate.name) else candidate.name


def as_text(report: Results, width: int = 120) -> str:
    """The whole report as plain text."""
    console = PrintableConsole(
        file=io.StringIO(), width=width, color_system=None, force_terminal=False, legacy_windows=False
    )
    if report.rows:
        console.print(table(report))
    console.print(details(report), soft_wrap=True)
    if report.rows:
        console.print(timing_line(report), soft_wrap=True)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()
