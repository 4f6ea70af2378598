"""The mistakes that each check is there to catch: one file for each check, which has the check's name.

A mistake passes the plainer checks wherever it can, so that it is this check that is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from parity_tests.operators.operator import Mistake, Operator


def cases_of(check: str, package: str = __name__) -> Sequence[Operator]:
    """The operators with mistakes that a check must catch, and with the right versions that it must not accuse.

    Raises:
        LookupError: nothing is planted for this check.
    """
    try:
        return importlib.import_module(f"{package}.{check}").CASES
    except ModuleNotFoundError as error:
        if error.name != f"{package}.{check}":
            raise  # something that the file imports is not installed
        path = f"{package.replace('.', '/')}/{check}.py"
        raise LookupError(f"the check {check!r} has no planted mistake; write {path} with CASES") from error


def mistake_of(check: str, name: str) -> tuple[Mistake, Operator]:
    """A mistake by its name, and the case that it is planted in."""
    ((mistake, case),) = ((case.mistakes[name], case) for case in cases_of(check) if name in case.mistakes)
    return mistake, case
