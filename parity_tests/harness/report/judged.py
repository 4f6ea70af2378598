"""Whether a derivative of each candidate has been judged: refusals alone, listed or not, are no agreement."""

from __future__ import annotations

from collections.abc import Sequence

from parity_tests.harness.findings import AGREE, Verdict
from parity_tests.harness.names import MAPS
from parity_tests.harness.report.results import ORACLE, Row

_JUDGED = (*AGREE, Verdict.MISMATCH, Verdict.SUSPECT)


def is_of_a_derivative(row: Row) -> bool:
    """Return whether a row is a candidate's, under a check of a derivative of the operator."""
    return row.candidate != ORACLE and bool(MAPS.get(row.check, ()))


def unjudged(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of listed refusals of each candidate of which a derivative was asked for, and none was judged.

    Of each operator and candidate, by their names; on any device, and in any format, one judged derivative is enough.
    A check that does not apply (SKIPPED) is no refusal: an operator may have nothing to be differentiated.
    """
    refused: dict[tuple[str, str], list[Row]] = {}
    judged = set[tuple[str, str]]()
    for row in filter(is_of_a_derivative, rows):
        key = row.op, row.candidate
        if row.verdict in _JUDGED:
            judged.add(key)
        elif row.verdict is Verdict.UNSUPPORTED and row.listed:  # one that is not listed fails by itself
            refused.setdefault(key, []).append(row)
    return {key: of_one for key, of_one in refused.items() if key not in judged}


def why_unjudged(candidate: str, refused: Sequence[Row]) -> str:
    """Return a line about a candidate of which no derivative was judged, with what to do."""
    checks = ", ".join(dict.fromkeys(row.check for row in refused))
    return (
        f"no derivative of {candidate} was judged: it refuses {checks} ({refused[0].reason}); give it one, or judge "
        "its values alone: --only forward, or checks=['forward']"
    )


def values_only(rows: Sequence[Row]) -> str:
    """Return why the rows of a run that passes are about values alone; empty if a derivative was judged."""
    of_derivatives = [row for row in rows if is_of_a_derivative(row)]
    if not of_derivatives:
        return "values only: no derivative was asked for"
    if any(row.verdict in _JUDGED for row in of_derivatives):
        return ""
    return "values only: no check of a derivative applies"
