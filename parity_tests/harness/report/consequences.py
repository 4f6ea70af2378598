"""Failures that follow from others: a check rests on one that fails in the same format, or in a wider one."""

from __future__ import annotations

from collections.abc import Collection

from parity_tests.harness.numbers.formats import Precision


def follows(rests_on: Collection[str], precision: Precision, cause: str, of_cause: Precision) -> bool:
    """True if a failure of a check that rests on these, in a format, follows from one of the check `cause` in another.

    Never from a narrower one: rounding, or code that is run in that format only, may be what is wrong there.
    """
    return cause in rests_on and of_cause.covers(precision)


class Failed:
    """The checks that have failed so far, in the order of the formats, of one candidate."""

    def __init__(self) -> None:
        self._news: dict[tuple[str, Precision], bool] = {}

    def is_news(self, check: str, rests_on: Collection[str], precision: Precision) -> bool:
        """True if a failure follows from none so far, and none of this check was news in a format as wide.

        These are the failures that a report tells first, so that they are worth shrinking.
        """
        return not any(
            (news and name == check and other.storage.itemsize >= precision.storage.itemsize)
            or follows(rests_on, precision, name, other)
            for (name, other), news in self._news.items()
        )

    def add(self, check: str, rests_on: Collection[str], precision: Precision) -> None:
        """Add a check that has failed in a format."""
        self._news[check, precision] = self.is_news(check, rests_on, precision)
