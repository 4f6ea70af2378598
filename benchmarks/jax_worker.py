"""The JAX versions, in a process of their own: `python -m benchmarks.jax_worker`, started by `benchmarks.run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import jax_ref
import jax_ref.ffi
from benchmarks.cases import Case
from benchmarks.roofline import LARGE, TANH_BLOCK
from benchmarks.worker import Call, Prepared, best_rate, serve

_TANHS = 64  # in one call, one after the other on a block that stays in the cache


def blockwise(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array]:
    """The output of attention with a softmax by blocks, which returns no attn."""
    q, k, v = (x[:, None] for x in (q, k, v))  # one head
    return (jax_ref.dot_product_attention(q, k, v, scale=1.0, implementation="blockwise")[:, 0],)


# A version is entered here, and by its name in `cases.VERSIONS`: (q, k, v) -> (output, attn), or (output,).
VERSIONS: dict[str, Callable] = {
    "jax_jit": jax_ref.attn_primal,
    "jax_attn": jax_ref.attn,
    "jax_ffi": jax_ref.ffi.attn,
    "blockwise": blockwise,
}


def jitted(attn: Callable, what: str) -> Callable:
    """A jitted function of (q, k, v, output_bar, attn_bar). XLA computes what is returned, which is all."""

    def forward(q, k, v, output_bar, attn_bar):
        return attn(q, k, v)

    def both(q, k, v, output_bar, attn_bar):
        outputs, vjp = jax.vjp(attn, q, k, v)
        return outputs, vjp((output_bar, attn_bar))

    def output_only(q, k, v, output_bar, attn_bar):
        def first(*args):
            output, *rest = attn(*args)
            return output, rest

        output, vjp, rest = jax.vjp(first, q, k, v, has_aux=True)
        return output, rest, vjp(output_bar)

    return jax.jit({"forward": forward, "both": both, "output": output_only}[what])


def blocking(f: Callable, *args: jax.Array) -> Call:
    """A call that runs to its end."""
    return lambda: jax.block_until_ready(f(*args))


def prepare(fields: dict[str, Any], names: list[str]) -> Prepared:
    """The calls of these versions for the case with these fields, compiled."""
    case = Case(**fields)
    jax.clear_caches()
    args = tuple(map(jnp.asarray, case.arrays()))
    calls = {name: blocking(jitted(VERSIONS[name], case.what).lower(*args).compile(), *args) for name in names}
    return Prepared(calls)


def rates() -> dict[str, dict[str, float]]:
    """Measure the rates that XLA reaches: see `roofline`."""
    found: dict[str, dict[str, float]] = {}
    matmul = jax.jit(jnp.matmul)
    repeated = jax.jit(lambda x: jax.lax.fori_loop(0, _TANHS, lambda _, y: jnp.tanh(y), x))
    for kind in ("float32", "float64"):
        gemm = found.setdefault(f"gemm {kind}", {})
        for a, b, c in LARGE:
            x, y = (jax.random.normal(jax.random.key(0), shape, kind) for shape in ((a, b), (b, c)))
            gemm[f"jax.numpy.matmul {a}x{b}x{c}"] = best_rate(blocking(matmul, x, y), 2 * a * b * c)
        x = jax.random.normal(jax.random.key(0), (TANH_BLOCK,), kind)
        work = _TANHS * TANH_BLOCK
        found[f"tanh {kind}"] = {"jax.numpy.tanh": best_rate(blocking(repeated, x), work)}
    return found


def facts() -> dict[str, object]:
    """Versions and settings."""
    return {"jax": jax.__version__, "jax device": jax.devices()[0].platform}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)  # this process's own: float32 arrays stay float32
    serve(facts, rates, prepare)
