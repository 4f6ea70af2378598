"""The work of a run, of all that was found: with `--last-failed` only the rows that did not pass in the last run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from parity_tests.cli.last_failed import LastRun
from parity_tests.cli.run_spec import RunSpec, Survey
from parity_tests.harness.isolation.messages import CannotLoad


class Arranged(NamedTuple):
    """The work of a run, now that its sources are surveyed.

    Attributes:
        orders: of each source.
        length: the number of rows.
        message: a line that tells the user; empty if there is nothing to tell.
        partial: is something left out that passed?
    """

    orders: list[list[RunSpec]]
    length: int
    message: str = ""
    partial: bool = False


def arranged(found: Sequence[tuple[Survey, list[RunSpec]]], requested: bool) -> Arranged:
    """Return what is judged of what was found: all of it, or only what did not pass in the last run.

    Args:
        found: of each source the survey, and an order for each device that is there, with what failed.
        requested: was `--last-failed` given, so that it must be said if nothing failed?

    Raises:
        CannotLoad: two operators have the same name, and nobody could tell their rows apart.
    """
    for op, count in Counter(survey.op for survey, _ in found).items():
        if count > 1:
            where = ", ".join(dict.fromkeys(orders[0].named for survey, orders in found if survey.op == op and orders))
            raise CannotLoad(f"{count} operators are named {op!r} ({where}); rename one, or judge them apart")
    whole = sum(survey.length * len(orders) for survey, orders in found)
    alone = any(order.alone for _, orders in found for order in orders)
    failed, unknown, rest = (
        sum(survey.failed[order.device][i] for survey, orders in found for order in orders) for i in (0, 1, 2)
    )
    if not failed or (alone and not rest):
        plain = [[replace(order, last_run=LastRun(), alone=False) for order in orders] for _, orders in found]
        of_last_run = "is known to have passed" if failed else "failed"
        message = f"nothing of this {of_last_run} in the last run: all of it is judged" if requested else ""
        return Arranged(plain, whole, message)
    count = failed + unknown if alone else failed
    rows = f"{count} row{'' if count == 1 else 's'}"
    if not alone:
        return Arranged([orders for _, orders in found], whole, f"first what failed in the last run: {rows}")
    kept = [[order for order in orders if any(survey.failed[order.device][:2])] for survey, orders in found]
    length = sum(survey.failed[order.device][3] for survey, orders in found for order in orders)
    unjudged = ", or was not judged," if unknown else ""
    return Arranged(kept, length, f"only what failed in the last run{unjudged} is judged: {rows}", partial=True)
