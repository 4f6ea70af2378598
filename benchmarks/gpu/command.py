"""The run of `python -m benchmarks gpu`: item after item, as far as the minutes go."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.campaign import stamp
from benchmarks.gpu import kernels
from benchmarks.gpu.items import Item, items, on_pretend
from benchmarks.gpu.outcome import BAD, RAISED, Outcome
from benchmarks.gpu.processes import PRETEND, Processes
from benchmarks.gpu.results import BAD_FOUND, DONE, NOT_DONE, Results
from benchmarks.roofline import Rates
from benchmarks.run import WorkerError

JUDGE = "benchmarks.gpu.worker"
GRACE = 120.0  # seconds by which the last item may go beyond the minutes
START = 120.0  # seconds for a process to start, and for the roofline
# In a text, say that nothing more can be done in the process that it comes from: of PyTorch, JAX and Triton.
RUINED = ("CUDA error", "CUDA_ERROR", "Triton Error")


def chosen(part: str | None, tiny: bool) -> list[Item]:
    """The items of a part, or all."""
    return [item for item in items(tiny) if part in (None, item.part)]


def dry_run(console: Console, todo: Sequence[Item], path: Path, minutes: float) -> int:
    """Do tiny items: on "pretend" those that it can do, if it can be compiled here, and the others on the CPU."""
    from torch_impl.native.build import toolchain_missing  # which imports PyTorch

    reason = toolchain_missing()
    if reason is not None:
        console.print(
            f'all is done on the CPU, since the device "{PRETEND}" cannot be compiled: {reason}', markup=False
        )
    there = [item for item in todo if reason is None and on_pretend(item)]
    places = {PRETEND: there, "cpu": [item for item in todo if item not in there]}
    end, code = time.monotonic() + 60 * minutes, DONE
    for device, some in places.items():
        if some and code != NOT_DONE:
            found = measure_all(console, some, device, True, path, (end - time.monotonic()) / 60)
            code = BAD_FOUND if code == BAD_FOUND else found
    return code


def measure_all(
    console: Console,
    todo: Sequence[Item],
    device: str,
    tiny: bool,
    path: Path,
    minutes: float,
    start: Callable[[str, bool], Processes] = Processes,
) -> int:
    """Do what is due, write each outcome as it comes, and show it; the exit code.

    Args:
        start: starts the processes for a device, tiny or not.
    """
    end, by_name = time.monotonic() + 60 * minutes, {item.name: item for item in todo}
    with start(device, tiny) as processes:
        try:
            facts = processes[JUDGE].ask(do="facts", limit=START)
            if facts["missing"] is not None:
                console.print(f"nothing is done: {facts['missing']}; --dry-run needs no GPU", markup=False)
                return NOT_DONE
            results = Results(path, {**_run(facts), "dry run": tiny})
            left = _do(console, [by_name[name] for name in results.due(by_name)], processes, results, end, tiny)
        except WorkerError as error:
            console.print(f"nothing is done: {error}", markup=False, highlight=False)
            return NOT_DONE
        except KeyboardInterrupt:
            console.print("interrupted; what was done is kept", highlight=False)
            return NOT_DONE
    console.print(
        f"{len(todo) - left} of {len(todo)} items are done on {device}; written: {path}, and .md", markup=False
    )
    return results.code(by_name, left)


def _run(facts: dict[str, Any]) -> dict[str, Any]:
    date, commit, _ = stamp()
    names = "device", "versions", "settings while judged"
    return {"date": date, "commit": commit} | {name: facts[name] for name in names}


def _do(console: Console, due: Sequence[Item], processes: Processes, results: Results, end: float, tiny: bool) -> int:
    """Do the items that can end in time, the first one in any case; how many are left."""
    rates, left = Rates(), 0
    for i, item in enumerate(due):
        begun = time.monotonic()
        if i > 0 and begun + item.seconds > end + GRACE:
            left += 1
            continue
        try:
            if item.kind == "case" and not rates:
                rates, settings = kernels.roofline(processes, START)
                results.add_rates(rates, settings)
            outcome = _done(item, processes, rates, tiny)
        except WorkerError as error:
            outcome = Outcome(RAISED, str(error).strip().splitlines()[-1])
        if outcome.ended == RAISED or any(text in str(outcome) for text in RUINED):
            processes.end()
        results.add(item, outcome, time.monotonic() - begun)
        said = f"{item.name}: {outcome.ended} {outcome.reason}".strip()
        console.print(said, style="bold red" if outcome.ended in BAD else "", highlight=False, markup=False)
    return left


def _done(item: Item, processes: Processes, rates: Rates, tiny: bool) -> Outcome:
    if item.kind == "case":
        return kernels.timed(item, processes, rates, tiny)
    return Outcome(**processes[JUDGE].ask(do="item", kind=item.kind, options=item.options, limit=item.seconds))
