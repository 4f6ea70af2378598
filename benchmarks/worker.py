"""A process that measures one framework: it answers orders, one line of JSON each, and computes only meanwhile.

The parent has pinned it to its cores and set its numbers of threads before Python started.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Call = Callable[[], object]  # runs to its end, and returns all results, which are dropped by the caller
Clock = Callable[[Call, int, int], float]  # of a call, which it makes so many times, on so many threads: see `seconds`
BATCH = 0.01  # seconds: calls are repeated until they take so long, so that the clock does not count


@dataclass
class Prepared:
    """The calls of a case, by version, and why others are left out."""

    calls: dict[str, Call] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def seconds(call: Call, count: int, threads: int) -> float:
    """Seconds of one call: CPU time, user and system, of all threads; wall time if there is more than one thread."""
    clock = time.process_time if threads == 1 else time.perf_counter
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


def best_rate(call: Call, work: float, budget: float = 0.25, clock: Clock = seconds) -> float:
    """The most work for a second of CPU time, or of another clock, that repeated calls reach."""
    call()
    best, spent = 0.0, 0.0
    while spent < budget:
        taken = clock(call, 3, 1)
        best, spent = max(best, work / taken), spent + 3 * taken
    return best


def peak_bytes(call: Call) -> int | None:
    """The most by which the resident memory of the process grows during a call, its results included.

    The least of three calls: what else grows in the process meanwhile can only add to it. Linux only: the kernel's own
    high-water mark, which is set back before. None elsewhere.
    """
    if not Path("/proc/self/clear_refs").exists():
        return None
    call()  # what is allocated once, such as a library's buffers, is not the call's
    gc.collect()
    return min(_growth(call) for _ in range(3))


def _growth(call: Call) -> int:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed before, but kept, would hide what the call takes
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    held = call()
    peak = _status("VmHWM")
    del held
    return peak - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {name}")


def answer_orders(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answer orders until there are none; an exception is an answer, too."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is not an answer
    for line in sys.stdin:
        try:
            reply = {"answer": answer(json.loads(line))}
        except Exception:
            reply = {"error": traceback.format_exc()}
        answers.write(json.dumps(reply) + "\n")


def serve(
    facts: Callable[[], dict[str, Any]],
    rates: Callable[[], dict[str, dict[str, float]]],
    prepare: Callable[[dict[str, Any], list[str]], Prepared],
    clock: Clock = seconds,
) -> None:
    """Answer orders until there are none: facts, rates, prepare, time, peak.

    Args:
        facts: versions and settings of the framework.
        rates: of GEMM, tanh and memory, see `roofline.Rates`.
        prepare: the versions of these names, ready to be called, at the case with these fields.
        clock: the seconds of a call.
    """
    prepared, counts, threads = Prepared(), {}, 1

    def answer(order: dict[str, Any]) -> Any:
        nonlocal prepared, counts, threads
        match order["do"]:
            case "facts":
                return facts() | {"loaded": [x for x in ("torch", "jax") if x in sys.modules]}
            case "rates":
                return rates()
            case "prepare":
                prepared = Prepared()  # the last case's arrays go before the next one's come
                gc.collect()
                prepared, threads = prepare(order["case"], order["versions"]), order["case"]["threads"]
                counts = {name: _count(call, threads, clock) for name, call in prepared.calls.items()}
                return {"ready": [*counts], "left_out": prepared.left_out}
            case "time":
                call = prepared.calls[order["version"]]
                call()  # what the version before left in the caches and on the heap does not count, as in the rates
                return clock(call, counts[order["version"]], threads)
            case "peak":
                return peak_bytes(prepared.calls[order["version"]])
            case unknown:
                raise ValueError(f"unknown order {unknown!r}")

    gc.disable()
    answer_orders(answer)


def _count(call: Call, threads: int, clock: Clock) -> int:
    """How many calls make a batch; compiles and warms up, too."""
    call()
    taken = min(clock(call, 1, threads) for _ in range(2))
    return max(1, min(10_000, round(BATCH / max(taken, 1e-7))))
