"""The time that judging takes on a device, and whether the planted mistakes of `benchmarks.faults` are caught there."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable

from benchmarks.faults import FAULTS, NONE
from benchmarks.figures import rounded
from benchmarks.gpu.device import Device
from benchmarks.gpu.outcome import RIGHT, WRONG, Outcome
from benchmarks.judging import arrays, by_crosscheck, by_gradcheck

ROUNDS = 3


def cost(device: Device, tiny: bool, n: int) -> Outcome:
    """Wall time of judging attn without a fault: there, on the CPU, and by gradcheck's fast mode there; medians."""
    inputs = arrays(n)
    methods: dict[str, Callable[[], bool]] = {
        "crosscheck": functools.partial(by_crosscheck, NONE, inputs, device.name),
        "crosscheck on the CPU": functools.partial(by_crosscheck, NONE, inputs, "cpu"),
        "gradcheck fast": functools.partial(by_gradcheck, NONE, inputs, fast=True, device=device.name),
    }
    alarms = [name for name, method in methods.items() if method()]  # the first call compiles
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(1 if tiny else ROUNDS):
        for name, method in methods.items():
            start = time.perf_counter()
            method()
            times[name].append(time.perf_counter() - start)
    data = {name: rounded(statistics.median(taken)) for name, taken in times.items()}
    false = [name for name in alarms if name.startswith("crosscheck")]
    return Outcome(WRONG if false else RIGHT, f"false alarm: {', '.join(false)}" if false else "", {"seconds": data})


def mistakes(device: Device, tiny: bool, n: int) -> Outcome:
    """Judge each planted mistake there."""
    inputs, chosen = arrays(n), FAULTS[:2] if tiny else FAULTS
    missed = [fault.name for fault in chosen if not by_crosscheck(fault, inputs, device.name)]
    data = {"caught": len(chosen) - len(missed), "of": len(chosen)}
    return Outcome(WRONG if missed else RIGHT, f"missed: {'; '.join(missed)}" if missed else "", data)
