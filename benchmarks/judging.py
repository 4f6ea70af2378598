"""The cost of judging, and the faults that it catches: `crosscheck` beside gradcheck and `jax.test_util.check_grads`.

Both frameworks are in one process here, since `crosscheck` needs both. Everything is float64, d = 16, as a user would
call it; the time is CPU time, the median over rounds in which every method has its turn, on attn without a fault. Each
fault of `faults` is then judged by each method once.
"""

from __future__ import annotations

import datetime
import functools
import inspect
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.test_util import check_grads
from torch.autograd import gradcheck

import jax_ref
from benchmarks.campaign import as_json, listed, save, table
from benchmarks.faults import FAULTS, NONE, Fault, in_jax, in_torch
from benchmarks.figures import rounded
from gradparity import OpSpec, crosscheck

SIZES = (5, 20, 60, 256, 1024)
D = 16
SLOW_UP_TO = 20  # of n: gradcheck's slow mode goes through every entry of every input and output
SECONDS = 3.0  # for the rounds of a size
Arrays = tuple[np.ndarray, ...]


def arrays(n: int) -> Arrays:
    """q, k, v; the scores are of the order of 1."""
    rng = np.random.default_rng(n)
    scales = D**-0.25, D**-0.25, 1.0
    return tuple(scale * rng.standard_normal((n, D)) for scale in scales)


def by_crosscheck(fault: Fault, inputs: Arrays, device: str = "cpu") -> bool:
    """Is the fault caught? `crosscheck` of the VJP, the oracle's own certificate included."""
    spec = OpSpec("attn", primal=jax_ref.attn_primal, vjp=jax_ref.attn_vjp, inputs=inputs)
    options: dict[str, Any] = {"checks": ["vjp"], "dtypes": ["float64"], "device": device, "progress": False}
    return not crosscheck(in_torch(fault), spec, **options).passed


def by_gradcheck(fault: Fault, inputs: Arrays, fast: bool, device: str = "cpu") -> bool:
    """True if `torch.autograd.gradcheck` catches the fault with its own tolerances."""
    tensors = [torch.from_numpy(x.copy()).to(device).requires_grad_() for x in inputs]
    # Fast mode, when it has found a mistake, runs slow mode for the text of its error, on whole Jacobians: at n = 256
    # more than 20 GB. Whether it has found one is known by then.
    with mock.patch.object(inspect.getmodule(gradcheck), "_run_slow_mode_and_get_error", return_value=""):
        return not gradcheck(in_torch(fault), tensors, fast_mode=fast, raise_exception=False)


def by_check_grads(fault: Fault, inputs: Arrays) -> bool:
    """True if `jax.test_util.check_grads`, reverse mode, order 1, catches the fault with its own tolerances."""
    with jax.enable_x64(True):
        try:
            check_grads(in_jax(fault), tuple(map(jnp.asarray, inputs)), order=1, modes=("rev",))
        except AssertionError:
            return True
    return False


METHODS: dict[str, Callable[[Fault, Arrays], bool]] = {
    "crosscheck": by_crosscheck,
    "gradcheck slow": functools.partial(by_gradcheck, fast=False),
    "gradcheck fast": functools.partial(by_gradcheck, fast=True),
    "check_grads": by_check_grads,
}


def methods_at(n: int) -> dict[str, Callable[[Fault, Arrays], bool]]:
    """Those that come to an end at this size."""
    return {name: method for name, method in METHODS.items() if name != "gradcheck slow" or n <= SLOW_UP_TO}


def measure(sizes: list[int]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure at these sizes; before each step, yield its name and the results so far."""
    torch.set_num_threads(1)
    results: dict[str, Any] = {
        "schema": 1,
        "complete": False,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"torch": torch.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "load": [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else None,
        "d": D,
        "faults": [fault.name for fault in FAULTS],
        "rows": [],
    }
    for n in sizes:
        inputs, methods = arrays(n), methods_at(n)
        row: dict[str, Any] = {"n": n, "judged": [], "methods": {}}
        yield f"n = {n}, time", results
        alarms = {name: method(NONE, inputs) for name, method in methods.items()}  # the first call compiles
        times: dict[str, list[float]] = {name: [] for name in methods}
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(times["crosscheck"]) < 3:
            for name, method in methods.items():
                start = time.process_time()
                method(NONE, inputs)
                times[name].append(time.process_time() - start)
        for name in methods:
            row["methods"][name] = {
                "ms": rounded(1e3 * statistics.median(times[name])),
                "times_crosscheck": rounded(
                    statistics.median(x / y for x, y in zip(times[name], times["crosscheck"], strict=True))
                ),
                "false_alarm": alarms[name],
                "caught": [],
            }
        results["rows"].append(row)
        for fault in FAULTS:
            yield f"n = {n}, {fault.name}", results
            for name, method in methods.items():
                if method(fault, inputs):
                    row["methods"][name]["caught"].append(fault.name)
            row["judged"].append(fault.name)
    results["complete"] = True
    yield "done", results


def steps(sizes: list[int]) -> int:
    """How many `measure` has before it is done."""
    return len(sizes) * (1 + len(FAULTS))


def write(results: dict[str, Any], path: Path) -> None:
    """Write the results, and a page beside them."""
    save(path, as_json(results), as_markdown(results))


def cells(results: dict[str, Any]) -> list[list[str]]:
    """A row for each size: time and catches of each method; the first row is the head."""
    table = [["n = m", *METHODS]]
    for row in results["rows"]:
        texts, count = [], len(row["judged"])
        for name in METHODS:
            of = row["methods"].get(name)
            alarm = ", FALSE ALARM" if of and of["false_alarm"] else ""
            texts.append(f"{of['ms']:.3g} ms, {len(of['caught'])} of {count}{alarm}" if of else "too slow")
        table.append([str(row["n"]), *texts])
    return table


def missed(results: dict[str, Any]) -> list[str]:
    """One line for each fault that some method missed: the methods, and the sizes."""
    lines = []
    for fault in results["faults"]:
        where = [
            f"{name} at n = {', '.join(sizes)}"
            for name in METHODS
            if (
                sizes := [
                    str(row["n"])
                    for row in results["rows"]
                    if name in row["methods"] and fault in row["judged"] and fault not in row["methods"][name]["caught"]
                ]
            )
        ]
        if where:
            lines.append(f"{fault}: missed by " + "; ".join(where))
    return lines


def as_markdown(results: dict[str, Any]) -> str:
    """A page."""
    head, *rows = cells(results)
    lines = [
        "# Judging: its cost, and what it catches",
        "",
        f"Written by `python -m benchmarks judging`; {results['date']}; {listed(results['versions'])}; load "
        f"{results['load']}. CPU time of one judgment of attn's VJP without a fault, float64, d = {results['d']}; and "
        f"how many of the {len(results['faults'])} planted faults are caught.",
        "",
        *([] if results["complete"] else ["**Not complete.**", ""]),
        *table(f"| {' | '.join(head)} |", rows),
        "",
        *(f"- {line}" for line in missed(results)),
    ]
    return "\n".join(lines).rstrip() + "\n"
