"""The results of the sweep of MLX as a page: README.md beside this file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.campaign import listed, table
from benchmarks.mlx_sweep.found import FOUND, MEANT
from benchmarks.mlx_sweep.run import SHORT, Outcome

FOUND_PAGES = Path(__file__).parents[2] / "docs" / "found"

_INTRODUCTION = """# Operators of MLX, judged by JAX

Written by `python -m benchmarks mlx`; {date}; {versions}; Python {python}, {machine}, CPU.

{count} operators of MLX, each against a reference in JAX (`benchmarks/mlx_sweep/`), through
[`MLXCandidate`](../../docs/judge_function.md#several-candidates): in float32 by every check, in float16 and bfloat16 by
{short}. MLX's float64 is not judged: its `exp`, `sin`, `cos`, `erf` and `erfinv` compute in float32
([mlx#3047](https://github.com/ml-explore/mlx/issues/3047)).

{right} are right, of {wrong} rows fail that a section of [what was found](../../docs/found.md), 126 to 145, is
about, and of {none} MLX has no first derivative. Of {other} a row fails for a reason that is documented, or that the
table names. "No rule" names the checks of what MLX has not implemented, as its own messages say; they are no mistake.

No axis is empty where a function reduces: there a reduction of MLX was seen not to return.

"""


def failed_rows(outcome: Outcome) -> list[str]:
    """The rows that found the operator wrong, or could not tell, such as "vjp float32"; "process" if there is none."""
    process = ["process"] if outcome.error is not None else []
    return process + [f"{x['check']} {x['dtype']}" for x in outcome.failures if x["verdict"] != "UNSUPPORTED"]


def unexplained(outcome: Outcome) -> list[str]:
    """The failing rows that no section explains and no reason excuses."""
    known = {*FOUND.get(outcome.name, {}), *MEANT.get(outcome.name, {})}
    return [row for row in failed_rows(outcome) if row.split()[0] not in known]


def sections_of(outcome: Outcome) -> list[int]:
    """The numbers of the sections that explain failing rows of an operator."""
    checks = {row.split()[0] for row in failed_rows(outcome)}
    return sorted({n for check, n in FOUND.get(outcome.name, {}).items() if check in checks})


def verdict(outcome: Outcome) -> str:
    """A word or two for the table."""
    if unexplained(outcome):
        return "unexplained"
    if sections_of(outcome):
        return "defect found"
    if failed_rows(outcome):
        return "by design"
    return "no derivative" if outcome.failures else "right"


def page(facts: Mapping[str, Any], outcomes: Sequence[Outcome]) -> str:
    """The page."""
    kinds = [verdict(x) for x in outcomes]
    counts = {
        "right": kinds.count("right"),
        "wrong": kinds.count("defect found"),
        "none": kinds.count("no derivative"),
    }
    text = _INTRODUCTION.format(
        date=facts["date"],
        versions=listed(facts["versions"]),
        python=facts["python"],
        machine=facts["machine"],
        count=len(outcomes),
        short=", ".join(f"`{check}`" for check in SHORT),
        other=len(outcomes) - sum(counts.values()),
        **counts,
    )
    return text + "\n".join([*table("| operator | verdict | rows | what failed | no rule |", map(_line, outcomes)), ""])


def _line(outcome: Outcome) -> tuple[str, ...]:
    rows = ", ".join(f"{count} {name}" for name, count in outcome.rows.items())
    return outcome.name, verdict(outcome), rows, _what_failed(outcome), _no_rule(outcome)


def _what_failed(outcome: Outcome) -> str:
    parts = [] if outcome.error is None else [outcome.error]
    by_check: dict[str, list[str]] = {}
    for x in outcome.failures:
        by_check.setdefault(f"{x['verdict']} {x['check']}", []).append(x["dtype"])
    parts += [f"{check} ({', '.join(dtypes)})" for check, dtypes in by_check.items()]
    parts += [f"[{number}]({_anchors()[number]})" for number in sections_of(outcome)]
    checks = {row.split()[0] for row in failed_rows(outcome)}
    parts += dict.fromkeys(why for check, why in MEANT.get(outcome.name, {}).items() if check in checks)
    return "; ".join(parts)


def _no_rule(outcome: Outcome) -> str:
    checks = [row.split()[0] for rows in outcome.unsupported.values() for row in rows]
    return ", ".join(dict.fromkeys(checks))


def _anchors() -> dict[int, str]:
    """The file and the anchor of each section about MLX, by its number."""
    found = {}
    for path in sorted(FOUND_PAGES.glob("mlx*.md")):
        headings = re.findall(r"^## ((\d+)\. .*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for heading, n in headings:
            anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            found[int(n)] = f"../../docs/found/{path.name}#{anchor}"
    return found
