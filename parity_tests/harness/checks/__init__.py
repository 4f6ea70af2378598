"""The checks, one file each. A check is a name, the mistakes that it is there to catch, and a function of a trial."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from parity_tests.harness.checks.check import Check as Check
from parity_tests.harness.names import MAPS


def load(registered: Mapping[str, tuple[str, ...]], package: str = __name__) -> dict[str, Check]:
    """The checks with these names and maps, each from the module of its name in a package.

    Raises:
        ValueError: the check of a module has another name, or relies on other maps.
    """
    found: dict[str, Check] = {}
    for name, maps in registered.items():
        check: Check = importlib.import_module(f"{package}.{name}").CHECK
        if (check.name, check.maps) != (name, maps):
            raise ValueError(
                f"{package}.{name} has the check {check.name!r} with the maps {check.maps}, and is registered as "
                f"{name!r} with {maps} (MAPS in parity_tests/harness/names.py); make them equal"
            )
        found[name] = check
    return found


CHECKS = load(MAPS)
