"""A run of the sweep: each operator is judged once, on any executor, and written down as soon as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from parity_tests.sweep.guard import Limits, Request, end_children, judged, require_pebble
from parity_tests.sweep.lines import NORMS, THIRD_ORDER, Line
from parity_tests.sweep.results_file import ResultsFile

JUDGE = "parity_tests.sweep.judgement:judge_operator"
_POLL = 0.25  # seconds after which whoever waits may look at the clock, or at a signal


class Lost(Exception):
    """Raised where the executor has lost operators: they are not judged, and stand in no file."""


def run(
    operators: Iterable[str],
    file: ResultsFile,
    executor: Executor,
    judge: str = JUDGE,
    limits: Limits = Limits(),  # noqa: B008 (it cannot be changed)
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[tuple[str, list[Line]]]:
    """Judge the operators that a file does not have, and yield each with its lines once they are in the file.

    Args:
        operators: the entries of derivatives.yaml.
        file: where the results go; its header has the modes and dtypes.
        executor: of `concurrent.futures`, or one that is like it. Where its tasks run, they start processes.
        judge: the function that judges, as "module:function"; see `guard.Request`.
        limits: of each operator.
        meanwhile: called often; what it raises ends the run.

    Raises:
        NoPebble: pebble is not installed here.
        Lost: all others are judged.
        OSError: the file cannot be written.
    """
    require_pebble()
    options = file.header.options
    left = [operator for operator in dict.fromkeys(operators) if operator not in file.lines]
    waiting: dict[Future[list[Line]], str] = {}
    lost: dict[str, str] = {}
    try:
        for operator in left:
            request = Request(judge, operator, modes_of(operator, options), tuple(options["dtypes"]), limits)
            waiting[executor.submit(judged, request)] = operator
        while waiting:
            for future in wait(waiting, timeout=_POLL, return_when=FIRST_COMPLETED).done:
                operator = waiting.pop(future)
                error = future.exception()
                if error is None:
                    file.append(operator, future.result())
                    yield operator, future.result()
                else:
                    lost[operator] = f"{type(error).__name__}: {error}"
            meanwhile()
    finally:
        _end(waiting, executor)
    if lost:
        names = ", ".join(lost)
        raise Lost(f"the executor has lost {len(lost)} of the operators ({names}): {next(iter(lost.values()))}")


def modes_of(operator: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the modes in which an operator is judged: the third order, unless it was asked for, of norms only."""
    of_norms = "third_order" in options and operator not in NORMS
    return tuple(mode for mode in options["modes"] if not (of_norms and mode == THIRD_ORDER))


def _end(waiting: Iterable[Future[list[Line]]], executor: Executor) -> None:
    """Have no more operators judged, and end the children of this process."""
    for future in waiting:
        future.cancel()
    end_children()
    # A thread that had just taken an operator may start its child only now.
    while isinstance(executor, ThreadPoolExecutor) and wait(waiting, timeout=_POLL).not_done:
        end_children()
