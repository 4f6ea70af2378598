"""Every formula that some calls reach, with what came of it."""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from parity_tests.suite.torch_impl.derivatives._calls import Call, operators, record
from parity_tests.suite.torch_impl.derivatives._comparison import Mode, Outcome, compare
from parity_tests.suite.torch_impl.derivatives._explained import is_explained
from parity_tests.suite.torch_impl.derivatives._more_calls import backward_calls, more_calls
from torch_impl.derivatives import Entry, entries
from torch_impl.derivatives.binding import bind

Formula = tuple[str, Mode, tuple[str, ...]]
Survey = Mapping[Formula, Sequence[Outcome]]


def default_entries() -> dict[str, Entry]:
    """The entries of the default key, by name."""
    return {entry.name: entry for entry in entries() if entry.key == "Default"}


def outcomes(entry: Entry, calls: Iterable[Call]) -> list[Outcome]:
    """What came of the entry's formulas; a disagreement that is PyTorch's mistake is marked as explained."""
    found = []
    for call in calls:
        arguments = bind(entry, call.args, call.kwargs)
        for one in compare(entry, call):
            known = one.verdict == "disagrees" and is_explained(entry.name, one.mode, one.names, arguments)
            found.append(dataclasses.replace(one, verdict="explained") if known else one)
    return found


def survey(calls: Mapping[str, Sequence[Call]]) -> Survey:
    """What came of every formula that these calls reach."""
    known = default_entries()
    found: dict[Formula, list[Outcome]] = defaultdict(list)
    for name, of in calls.items():
        for one in outcomes(known[name], of):
            found[one.entry, one.mode, one.names].append(one)
    return found


@functools.cache
def every_call() -> Mapping[str, Sequence[Call]]:
    """All of PyTorch's samples, and what they do not reach."""
    calls: dict[str, list[Call]] = defaultdict(list)
    for source in (record(operators()), more_calls(), backward_calls()):
        for name, of in source.items():
            calls[name] += of
    return calls


@functools.cache
def whole_survey() -> Survey:
    """What came of every formula that is reached at all: minutes."""
    return survey(every_call())


def judged(outcomes: Sequence[Outcome]) -> str:
    """One word for a formula: the worst of its outcomes, and "agrees" only where a derivative was not zero."""
    verdicts = {outcome.verdict for outcome in outcomes}
    for verdict in ("disagrees", "not evaluable", "agrees", "explained", "both refuse", "zero"):
        if verdict in verdicts:
            return verdict
    return "autograd refuses"
