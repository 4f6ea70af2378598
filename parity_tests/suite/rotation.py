"""Slow tests of which each run takes a part, another one after each commit: `pytest --rotation N`."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Hashable, Sequence
from typing import Any

import pytest

_LEFT_OUT = pytest.StashKey[int]()
_PARTS_OF_SLOW_FILES = 3


def rotating(parts: int, by: str | None = None, turn: int | None = None) -> pytest.MarkDecorator:
    """Of a family of tests, `--rotation N` runs only the cases of part N modulo `parts`; without it all of them run.

    Slow tests without this mark take turns by the file, in three parts.

    The cases of a parametrized test are counted, and shared out, in their order; so are the tests without parameters of
    a file. As `pytestmark` of a module it marks all tests that have no mark of their own; `rotating(1)` runs always.

    Args:
        parts: after how many commits every case has run. If a parameter varies fastest, no multiple of the number of
            its values, or each part would have one of these values only.
        by: the parameter of which all cases with the same value stay together, such as an operator that is certified
            once for all of them. Without it each case is counted by itself.
        turn: the part of all that is marked, for a single long test, or for tests that share what takes long. Those
            with the same number of parts are given turns that take about the same time.
    """
    return pytest.mark.rotating(parts, by, turn)


def left_out(items: Sequence[pytest.Item], number: int) -> list[pytest.Item]:
    """Return the rotating and the slow cases that are not of part `number`.

    All cases have to be given, also those that other options leave out, so that the part of a case does not depend on
    what else runs.

    Raises:
        pytest.UsageError: a test is marked that does not have the parameter that the mark names.
    """
    seen: dict[str, dict[Hashable, int]] = {}
    others = []
    for item in items:
        mark = item.get_closest_marker("rotating")
        if mark is not None:
            parts, by, turn = mark.args
            place = _place(item, by, seen) if turn is None else turn
        elif item.get_closest_marker("slow") is not None:
            parts, place = _PARTS_OF_SLOW_FILES, _place_of_file(item.nodeid.partition("::")[0])
        else:
            continue
        if place % parts != number % parts:
            others.append(item)
    return others


def _place_of_file(path: str) -> int:
    """By a digest of the name, so that a new file moves no other one to another part; MD5's parts take equal times."""
    return int.from_bytes(hashlib.md5(path.encode(), usedforsecurity=False).digest())


def _place(item: pytest.Item, by: str | None, seen: dict[str, dict[Hashable, int]]) -> int:
    """The number of a case within its test, of a test without parameters within its file; `seen`: those before it."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if by is not None and by not in params:
        raise pytest.UsageError(f"{item.nodeid} is marked as rotating and has no parameter {by!r}")
    family = item.nodeid.partition("[")[0] if params else item.nodeid.partition("::")[0]
    places = seen.setdefault(family, {})
    return places.setdefault(item.nodeid if by is None else id(params[by]), len(places))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rotation",
        type=int,
        metavar="N",
        help="of each test that is marked as rotating run a part of its cases, and of the slow ones a third of the "
        "files, another part for each N; without this option all of them run",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the cases are counted before -m and -k leave out any of them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    number = config.getoption("rotation")
    others = set() if number is None else set(left_out(items, number))
    yield
    deselected = [item for item in items if item in others]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in others]
    config.stash[_LEFT_OUT] = len(deselected)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist
        session.config.workeroutput["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, whose processes all collect the same
def pytest_testnodedown(node: Any) -> None:
    if hasattr(node, "workeroutput"):
        node.config.stash[_LEFT_OUT] = node.workeroutput["left_out"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    number = config.getoption("rotation")
    if number is not None:
        count = config.stash.get(_LEFT_OUT, 0)
        terminalreporter.write_line(f"rotation {number}: {count} cases are left to other numbers")
