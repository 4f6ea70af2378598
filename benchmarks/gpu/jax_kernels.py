"""The JAX versions: `python -m benchmarks.gpu.jax_kernels DEVICE`, started by `benchmarks.gpu.command`.

They run on a GPU where DEVICE is "cuda", and on the CPU otherwise, the kernels then in Triton's interpreter.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax

import jax_ref
from benchmarks.gpu.correctness import in_jax, interpreting
from benchmarks.gpu.device import Device
from benchmarks.gpu.items import IN_JAX, GpuCase
from benchmarks.gpu.outcome import raised
from benchmarks.jax_worker import blockwise, jitted
from benchmarks.roofline import Rates
from benchmarks.worker import Call, Prepared, serve

HAS_GPU = jax.default_backend() == "gpu"


def _cudnn(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array]:
    q, k, v = (x[None, :, None] for x in (q, k, v))
    return (jax.nn.dot_product_attention(q, k, v, scale=1.0, implementation="cudnn")[0, :, 0],)


def version(name: str, with_attn: bool) -> Callable[..., tuple[jax.Array, ...]]:
    """(q, k, v) -> (output, attn), or (output,).

    Raises:
        LeftOut: it is not to be had here.
    """
    if name == "triton_in_jax":
        f = in_jax(f"attn{IN_JAX}" if with_attn else f"attn_output{IN_JAX}", Device(sys.argv[1]))
        return f if with_attn else lambda q, k, v: (f(q, k, v),)
    f = {
        "jax_jit": jax_ref.attn_primal,
        "jax_attn": jax_ref.attn,
        "blockwise": blockwise,
        "jax_cudnn": _cudnn,
    }[name]
    return f if with_attn else lambda q, k, v: f(q, k, v)[:1]


def prepare(fields: dict[str, Any], names: list[str]) -> Prepared:
    """The calls of versions for a case, compiled. One that raises is left out, with the reason.

    Float32 is float32, as when it is judged.
    """
    case, prepared = GpuCase(**fields), Prepared()
    if (sys.argv[1] == "cuda") != HAS_GPU:
        missing = f"JAX runs on {jax.default_backend()} here, and not on {sys.argv[1]}"
        return Prepared(left_out=dict.fromkeys(names, missing))
    jax.clear_caches()
    shapes = (case.n, case.d), (case.m, case.d), (case.m, case.d), (case.n, case.d), (case.n, case.m)
    scales = case.d**-0.25, case.d**-0.25, 1.0, 1.0, 1.0
    keys = jax.random.split(jax.random.key(0), 5)
    made = shapes if case.what == "both" else (*shapes[:4], (0, 0))
    args = [(s * jax.random.normal(key, x)).astype(case.dtype) for key, x, s in zip(keys, made, scales, strict=True)]
    for name in names:
        try:
            precision = jax.default_matmul_precision("highest" if case.dtype == "float32" else "default")
            with precision, interpreting(f"_{name}"):
                compiled = jitted(version(name, case.with_attn), case.what).lower(*args).compile()
            call = functools.partial(compiled, *args)
            seconds(call, 1, 1)
        except Exception as error:
            prepared.left_out[name] = raised(error).reason
        else:
            prepared.calls[name] = call
    return prepared


def seconds(call: Call, count: int, threads: int) -> float:
    """Wall time of a call: JAX has no events. Calls are queued: launching one costs only where it is longer."""
    last = jax.block_until_ready(call())  # what was queued before does not count
    start = time.perf_counter()
    for _ in range(count):
        last = call()
    jax.block_until_ready(last)
    return (time.perf_counter() - start) / count


def rates() -> Rates:
    """None: those of PyTorch count."""
    return {}


def facts() -> dict[str, Any]:
    """The device."""
    return {"jax device": jax.devices()[0].device_kind}


if __name__ == "__main__":
    serve(facts, rates, prepare, seconds)
