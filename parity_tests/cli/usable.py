"""The sources of a run that can be loaded; one of several that cannot, or that ends its process, costs its own rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from parity_tests.cli.run_spec import RunSpec, Survey
from parity_tests.cli.sources.source import Source
from parity_tests.harness.candidates.definition import Definition, definitions
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.isolation.messages import CannotLoad


class Usable(NamedTuple):
    """The sources that can be loaded, of each the survey and its orders; the candidates of all others, and where."""

    sources: list[Source]
    found: list[tuple[Survey, list[RunSpec]]]
    not_built: list[NotBuilt]
    definitions: list[Definition]


def usable(
    sources: Sequence[Source], orders_of: Callable[[Source], list[RunSpec]], surveyed: Callable[[RunSpec], Survey]
) -> Usable:
    """Load each source, and return what can be judged.

    Args:
        sources: of the run.
        orders_of: returns the orders of a source.
        surveyed: loads the source of an order, and returns its survey.

    Raises:
        CannotLoad: no source can be loaded.
    """
    result = Usable([], [], [], [])
    for source in sources:
        orders = orders_of(source)
        try:
            survey = surveyed(orders[0])
        except CannotLoad as error:
            named = orders[0].named
            names = source.names or (named,)
            result.not_built.extend(NotBuilt(name, str(error), expected=False, op=named) for name in names)
            file = next(iter(source.files), None)
            result.definitions.extend(definitions(named, result.not_built[-len(names) :], file, orders[0].start))
        else:
            result.sources.append(source)
            result.found.append((survey, orders))
    if not result.found:
        raise CannotLoad("; ".join(dict.fromkeys(candidate.reason for candidate in result.not_built)))
    return result
