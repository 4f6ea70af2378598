"""Time and memory of `jax_ref.dot_product_attention`, side by side with attention written plainly, under jit.

    python -m benchmarks model [queries ...]      the table, and benchmarks/results/model_attention.json

Rounds are interleaved, one call of each version after the other, so that what else runs on the machine hits all alike;
a ratio is the median over the rounds. Memory is what XLA allocates besides arguments and results.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from jax_ref import dot_product_attention

FEATURES = 64
SECONDS = 4.0  # for each row
RESULTS = Path(__file__).parent / "results" / "model_attention.json"


def plain(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """The same in one line for a head; one head is not mapped."""

    def head(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.tanh(FEATURES**-0.5 * (q @ k.T)) @ v

    if query.shape[1] == 1:
        return head(query[:, 0], key[:, 0], value[:, 0])[:, None]
    return jax.vmap(head, 1, 1)(query, key, value)


def version(implementation: Literal["matrix", "blockwise"]) -> Callable:
    """The face with one of its implementations."""
    return lambda *args: dot_product_attention(*args, implementation=implementation)


VERSIONS = {"plain": plain, "matrix": version("matrix"), "blockwise": version("blockwise")}


def with_gradient(f: Callable) -> Callable:
    """(value, gradients) of ⟨weights, f⟩."""
    return jax.value_and_grad(lambda *args: jnp.vdot(f(*args[:3]), args[3]), (0, 1, 2))


def measured(versions: dict[str, Callable], args: tuple[jax.Array, ...]) -> dict[str, dict[str, float]]:
    """The median time in ms of each version, its ratio to the first version's, and MiB."""
    made = {name: jax.jit(f).lower(*args).compile() for name, f in versions.items()}
    times: dict[str, list[float]] = {name: [] for name in made}
    for compiled in made.values():
        jax.block_until_ready(compiled(*args))
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times["plain"]) < 5:
        for name, compiled in made.items():
            start = time.perf_counter()
            jax.block_until_ready(compiled(*args))
            times[name].append(time.perf_counter() - start)
    cells = {}
    for name, taken in times.items():
        ratio = statistics.median(x / y for x, y in zip(taken, times["plain"], strict=True))
        memory = made[name].memory_analysis()
        mebibytes = memory.temp_size_in_bytes / 2**20 if memory else float("nan")
        cells[name] = {"ms": round(1e3 * statistics.median(taken), 3), "ratio": round(ratio, 3), "MiB": mebibytes}
    return cells


def main(sizes: list[int]) -> None:
    """One row for each number of queries, of heads, and of derivatives."""
    rows = []
    table = Table("queries = keys", "heads", "what", *VERSIONS, title=f"float32, head_dim {FEATURES}")
    for n in sizes:
        for heads in 1, 4:
            args = tuple(jax.random.normal(jax.random.key(i), (n, heads, FEATURES)) for i in range(4))
            value = measured(VERSIONS, args[:3])
            gradient = measured({name: with_gradient(f) for name, f in VERSIONS.items()}, args)
            for what, cells in (("value", value), ("value and gradient", gradient)):
                rows.append({"queries": n, "heads": heads, "what": what, **cells})
                texts = (f"{x['ms']:.1f} ms, x{x['ratio']:.2f}, {x['MiB']:.1f} MiB" for x in cells.values())
                table.add_row(str(n), str(heads), what, *texts)
    Console(width=160).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    facts = {
        "date": datetime.date.today().isoformat(),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {jax.devices()[0].platform}",
        "load": os.getloadavg()[0],
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(facts, indent=1) + "\n")
