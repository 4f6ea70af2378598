"""How fast attn is on a device, version beside version in rounds, as a fraction of the measured roofline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.figures import Times, rounded
from benchmarks.gpu.items import GpuCase, Item
from benchmarks.gpu.outcome import LEFT_OUT, MEASURED, Outcome
from benchmarks.gpu.processes import Processes
from benchmarks.roofline import Rates, merged
from benchmarks.run import ROUNDS, Worker, take_turns

TORCH, JAX = "benchmarks.gpu.torch_kernels", "benchmarks.gpu.jax_kernels"
# The versions by their processes, for cases with attn and without it.
VERSIONS: Mapping[bool, Mapping[str, tuple[str, ...]]] = {
    True: {TORCH: ("eager", "function", "native", "compile", "triton"), JAX: ("jax_jit", "jax_attn", "triton_in_jax")},
    False: {
        TORCH: ("eager", "compile", "triton", "sdpa", "cudnn", "flex"),
        JAX: ("jax_jit", "triton_in_jax", "blockwise", "jax_cudnn"),
    },
}
SOFTMAX = ("sdpa", "cudnn", "flex", "jax_cudnn")  # yardsticks that compute a softmax, of tanh in flex
COMPILED = (1024, 4096, 16384)  # n at which the compiler of PyTorch is asked: it takes seconds for each shape
SECONDS = 1.0  # for the rounds of a case


def roofline(processes: Processes, limit: float) -> tuple[Rates, dict[str, Any]]:
    """The rates of the device, and the settings of the processes."""
    both = [processes[module] for module in (TORCH, JAX)]
    settings = {name: value for each in both for name, value in each.ask(do="facts", limit=limit).items()}
    return merged(each.ask(do="rates", limit=limit) for each in both), settings


def refusal(name: str, case: GpuCase, tiny: bool) -> str | None:
    """Why a version is not asked for a case; None if it is."""
    if name not in ("compile", "flex"):
        return None
    asked = case.dtype == "float32" and case.what == "forward" if tiny else case.n in COMPILED
    return None if asked else "compiling takes seconds for each shape: not for this one"


def timed(item: Item, processes: Processes, rates: Rates, tiny: bool) -> Outcome:
    """The median of each version at a case, from rounds in which each has its turn."""
    case, ready, left_out = GpuCase(**item.options), list[tuple[Worker, str]](), dict[str, str]()
    for module, versions in VERSIONS[case.with_attn].items():
        refused = {name: why for name in versions if (why := refusal(name, case, tiny)) is not None}
        names = [name for name in versions if name not in refused]
        worker = processes[module]
        answer = worker.ask(do="prepare", case=asdict(case), versions=names, limit=item.seconds)
        left_out |= refused | answer["left_out"]
        ready += [(worker, name) for name in answer["ready"]]
    times: Times = {name: [] for _, name in ready}
    take_turns(times, ready, 0.0 if tiny else SECONDS, item.seconds, 1 if tiny else ROUNDS)
    bound = case.bound(rates)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    data = {
        "bound_ms": rounded(1e3 * bound),
        "versions": {
            name: {
                "ms": rounded(1e3 * median),
                "fraction_of_bound": rounded(bound / median),
                "rounds_ms": [rounded(1e3 * x) for x in times[name]],
            }
            for name, median in medians.items()
        },
        "left_out": left_out,
    }
    return Outcome(MEASURED, data=data) if medians else Outcome(LEFT_OUT, "no version could be timed", data)
