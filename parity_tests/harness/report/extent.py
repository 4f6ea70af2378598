"""How far a run has looked: the largest size that was judged, what was cut, and what cannot have run here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence, Set
from typing import Any

from parity_tests.harness.report.results import ORACLE, Results, Row

AT_GIVEN_SIZE = "given_size"  # the check that judges at all of the inputs of which the others judge a part
CUDA_MISSING = "device cuda: "  # how the line begins that says why a GPU was not judged that nobody had left out


def extent(report: Results, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the extent to which one candidate was judged on one device, for its record in the summary.

    "largest" is {"sizes", "numbers"} of the largest sample at which anything was compared, None if nothing was; "cut"
    the numbers judged and given of a problem that is judged at a part of them, None of any other; "given_size" whether
    values and gradients were judged at all of them; "unseen" lines about what cannot have run.
    """
    largest = max(rows, key=lambda row: row.numbers, default=None)
    usual = [row for row in rows if row.check != AT_GIVEN_SIZE]
    whole = max((row.of_numbers for row in rows), default=0)
    part = max((row.numbers for row in usual), default=0)
    compared = largest is not None and largest.numbers
    return {
        "largest": {"sizes": largest.largest, "numbers": largest.numbers} if largest and compared else None,
        "cut": {"numbers": part, "of": whole} if whole and part else None,
        "given_size": any(row.check == AT_GIVEN_SIZE and row.comparisons > 0 for row in rows) if whole else None,
        "unseen": list(unseen(report, rows)),
    }


def unseen(report: Results, rows: Sequence[Row]) -> Iterator[str]:
    """Yield lines about code of a candidate that cannot have run where these rows were judged."""
    if any(row.device == "cpu" for row in rows):
        missing = next((line for line in report.skipped if line.startswith(CUDA_MISSING)), None)
        if missing is not None:
            yield f"judged on the CPU alone: {missing.removeprefix(CUDA_MISSING)}"
    yield from dict.fromkeys(line for row in rows for line in row.unseen)


def lines(report: Results) -> list[str]:
    """The same as text: a line for the candidates of an operator that were judged alike."""
    found: dict[tuple[str, str], list[str]] = {}
    for (op, candidate, _), rows in by_candidate(report).items():
        for line in _lines(extent(report, rows)):
            found.setdefault((op, line), []).append(candidate)
    several = len({op for op, _ in found}) > 1
    everybody = {candidate for candidates in found.values() for candidate in candidates}
    return [
        f"{f'{op}, ' if several else ''}{named(dict.fromkeys(candidates), everybody)}, {line}"
        for (op, line), candidates in found.items()
    ]


def named(candidates: Collection[str], everybody: Set[str]) -> str:
    """Return the names of candidates, or that they are all of `everybody`, if these are more than two."""
    if len(candidates) > 2 and set(candidates) == everybody:
        return f"all {len(candidates)} candidates"
    return ", ".join(candidates)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    largest, cut = found["largest"], found["cut"]
    if largest is not None:
        yield f"largest: {largest['sizes']} ({largest['numbers']:,} numbers)"
    if cut is not None:
        yield in_words(cut, found["given_size"])
    yield from (line for line in found["unseen"] if not line.startswith("judged on the CPU alone"))  # told once, below


def in_words(cut: dict[str, int], at_given_size: bool) -> str:
    """Return the line about a problem that was cut: at how many of its numbers it was judged."""
    also = "; values and gradients at all of them, too" if at_given_size else ", and at no larger size"
    return f"judged at {cut['numbers']:,} of {cut['of']:,} numbers{also}"


def not_at_given_size(report: Results) -> list[str]:
    """A line for each candidate that has no verdict at the size that was given."""
    extents = {key: extent(report, rows) for key, rows in by_candidate(report).items()}
    cut = {key: each for key, each in extents.items() if each["cut"] is not None and not each["given_size"]}
    too_large = [c.reason for c in report.not_built if c.too_large]
    of_cut = (f"{op}: {in_words(each['cut'], False)}" for (op, _, _), each in cut.items())
    return list(dict.fromkeys([*of_cut, *too_large]))


def by_candidate(report: Results) -> dict[tuple[str, str, str], list[Row]]:
    """The rows of each candidate of each operator on each device, in their order."""
    judged: dict[tuple[str, str, str], list[Row]] = {}
    for row in report.rows:
        if row.candidate != ORACLE:
            judged.setdefault((row.op, row.candidate, row.device), []).append(row)
    return judged
