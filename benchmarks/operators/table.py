"""The results of the survey: the bars, and a row for each operator, as a Markdown page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.campaign import listed, table
from benchmarks.operators.run import Outcome

SECONDS, MEGABYTES = 20, 1000  # bars of CPU time and of memory, for each of the costly operators
_CHOSEN = "`benchmarks/operators/rule.py` says how they were chosen."


def bars(outcomes: Sequence[Outcome], costly: bool = False) -> list[tuple[str, str, bool]]:
    """Each bar, what was measured, and whether it is met; of the costly operators, the time and memory of each, too."""
    rows = sum(sum(x.rows.values()) for x in outcomes)
    unresolved = sum(x.rows.get("UNRESOLVED", 0) for x in outcomes)
    share = 100 * unresolved / max(rows, 1)
    lost, alarms = (_names(outcomes, kind) for kind in ("LOST", "FALSE ALARM"))
    found = [
        ("at most 1 % of rows UNRESOLVED", f"{share:.2f} % ({unresolved} of {rows})", share <= 1),
        ("no false alarm", _counted(alarms), not alarms),
        ("no lost report", _counted(lost), not lost),
    ]
    if costly:
        seconds, megabytes = (max((getattr(x, of) for x in outcomes), default=0) for of in ("seconds", "megabytes"))
        found.append((f"at most {SECONDS} CPU s for each", f"{seconds:.1f} s", seconds <= SECONDS))
        found.append((f"at most {MEGABYTES} MB for each", f"{megabytes:.0f} MB", megabytes <= MEGABYTES))
    return found


def _names(outcomes: Sequence[Outcome], kind: str) -> list[str]:
    return [x.name for x in outcomes if x.verdict == kind]


def _counted(names: list[str]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "0"


def times(outcomes: Sequence[Outcome]) -> str:
    """A sentence about CPU time and memory."""
    seconds = sorted(x.seconds for x in outcomes if x.error is None)
    if not seconds:
        return "Nothing was judged."
    worst = max((x for x in outcomes if x.error is None), key=lambda x: x.megabytes)
    return (
        f"CPU time of one crosscheck: median {statistics.median(seconds):.1f} s, 90th percentile "
        f"{seconds[int(0.9 * (len(seconds) - 1))]:.1f} s, longest {seconds[-1]:.1f} s, sum {sum(seconds):.0f} s; "
        f"largest memory {worst.megabytes:.0f} MB ({worst.name})."
    )


def as_markdown(facts: dict[str, Any], outcomes: Sequence[Outcome]) -> str:
    """A page."""
    commits = ", ".join(dict.fromkeys(x.commit or "unknown" for x in outcomes))
    costly = facts.get("costly", False)
    title = "The operators whose judgment takes longest" if costly else "A hundred operators of PyTorch, judged"
    whence = "`benchmarks/operators/costly.py` has them." if costly else _CHOSEN
    command = "python -m benchmarks.operators" + " --costly" * costly
    lines = [
        f"# {title}",
        "",
        f"Written by `{command}`; {facts['date']}; commit {commits}; {listed(facts['versions'])}; "
        f"{facts['machine']['cpu']}, {facts['machine']['cores']} cores, load {facts['machine']['load']}; seed "
        f"{facts['seed']}; default settings. {whence}",
        "",
        *([] if facts["complete"] else ["**Not complete.**", ""]),
        *table(
            "| bar | measured | |",
            ((bar, measured, "met" if met else "MISSED") for bar, measured, met in bars(outcomes, costly)),
        ),
        "",
        times(outcomes),
        "",
        *table("| operator | verdict | rows | CPU s | MB | what failed |", map(_line, outcomes)),
    ]
    return "\n".join(lines) + "\n"


def _line(outcome: Outcome) -> tuple[str, ...]:
    rows = ", ".join(f"{count} {verdict}" for verdict, count in outcome.rows.items())
    seconds, megabytes = f"{outcome.seconds:.1f}", f"{outcome.megabytes:.0f}"
    return outcome.name, outcome.verdict, rows, seconds, megabytes, _what_failed(outcome)


def _what_failed(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error
    by_check: dict[tuple[str, str], list[str]] = {}
    for x in outcome.failures:
        by_check.setdefault((x["verdict"], x["check"]), []).append(x["dtype"])
    parts = [f"{verdict} {check} ({', '.join(dtypes)})" for (verdict, check), dtypes in by_check.items()]
    titles = [outcome.explained[row] for row in outcome.convicted if row in outcome.explained]
    parts += [f"docs/found.md, {title}" for title in dict.fromkeys(titles)]
    return "; ".join(parts)
