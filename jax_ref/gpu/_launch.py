"""Calls the kernels of `derivation.attn_kernels` by way of jax-triton, on matrices, or on batches of them.

A kernel of jax-triton has its operands first, then its results, then constants; all that JAX knows when it compiles is
a constant here, strides too. Where a cotangent is absent q stands in its place, and is not read.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false, reportIndexIssue=false

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import triton
import triton.language as tl
from jaxtyping import Array, Float

from derivation import attn_kernels
from jax_ref._products import MaybeZero


# fmt: off
@triton.jit
def _forward(
    q, k, v, output, attn,
    n: tl.constexpr, m: tl.constexpr, d: tl.constexpr, e: tl.constexpr, WITH_ATTN: tl.constexpr,
    INDEX: tl.constexpr, INTERPRETED: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):
    attn_kernels.forward(
        q, k, v, output, attn, n, m, d, e,
        n * d, d, 1, m * d, d, 1, m * e, e, 1, n * e, e, 1, n * m, m, 1, 0,
        WITH_ATTN, INDEX, INTERPRETED, BLOCK_D, BLOCK_E, BLOCK_N, BLOCK_M,
    )


@triton.jit
def _backward_of_rows(
    q, k, v, output_bar, attn_bar, q_bar,
    n: tl.constexpr, m: tl.constexpr, d: tl.constexpr, e: tl.constexpr,
    HAS_OUTPUT_BAR: tl.constexpr, HAS_ATTN_BAR: tl.constexpr, INDEX: tl.constexpr, INTERPRETED: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):
    attn_kernels.backward_of_rows(
        q, k, v, output_bar, attn_bar, q_bar, n, m, d, e,
        n * d, d, 1, m * d, d, 1, m * e, e, 1, n * e, e, 1, n * m, m, 1, n * d, d, 1, 0,
        HAS_OUTPUT_BAR, HAS_ATTN_BAR, INDEX, INTERPRETED, BLOCK_D, BLOCK_E, BLOCK_N, BLOCK_M,
    )


@triton.jit
def _backward_of_columns(
    q, k, v, output_bar, attn_bar, k_bar, v_bar,
    n: tl.constexpr, m: tl.constexpr, d: tl.constexpr, e: tl.constexpr,
    HAS_OUTPUT_BAR: tl.constexpr, HAS_ATTN_BAR: tl.constexpr, WANTS_K: tl.constexpr, WANTS_V: tl.constexpr,
    INDEX: tl.constexpr, INTERPRETED: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):
    attn_kernels.backward_of_columns(
        q, k, v, output_bar, attn_bar, k_bar, v_bar, n, m, d, e,
        n * d, d, 1, m * d, d, 1, m * e, e, 1, n * e, e, 1, n * m, m, 1, m * d, d, 1, m * e, e, 1, 0,
        HAS_OUTPUT_BAR, HAS_ATTN_BAR, WANTS_K, WANTS_V, INDEX, INTERPRETED, BLOCK_D, BLOCK_E, BLOCK_N, BLOCK_M,
    )
# fmt: on


@functools.cache
def _jax_triton() -> Any:
    """jax-triton, which cannot be imported where JAX has no part for GPUs.

    It empties the variable by which Triton, in PyTorch too, finds its cache; here it is as before.
    """
    before = os.environ.get("TRITON_CACHE_DIR")
    try:
        import jax_triton
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "jax_ref.gpu needs jax-triton: pip install 'gradparity[jax-triton]'; jax_ref.attn does without",
            name=error.name,
        ) from error
    finally:
        if before is None:
            os.environ.pop("TRITON_CACHE_DIR", None)
        else:
            os.environ["TRITON_CACHE_DIR"] = before
    return jax_triton


@functools.cache
def _tuned(kernel: Any, name: str, float32: bool) -> Any:
    """The kernel that tries out the sizes of blocks at its first run, and keeps the fastest."""
    if attn_kernels.INTERPRETED:
        return kernel
    return triton.autotune(attn_kernels.configurations(name, float32), key=[])(kernel)


_KERNELS = {"forward": _forward, "backward_of_rows": _backward_of_rows, "backward_of_columns": _backward_of_columns}
_AXES = {"output": "ne", "attn": "nm", "q_bar": "nd", "k_bar": "md", "v_bar": "me"}


def triton_call(*operands: jax.Array, out_shape: Sequence[jax.ShapeDtypeStruct], **options: Any) -> Sequence[jax.Array]:
    """See `jax_triton.triton_call`, which has another name for the results from 0.4 on."""
    call = _jax_triton().triton_call
    results = "out_type" if "out_type" in inspect.signature(call).parameters else "out_shape"
    return call(*operands, **{results: out_shape}, **options)


def _launch(
    name: str, block: str, operands: Sequence[MaybeZero], results: Sequence[str], flags: Mapping[str, bool | None]
) -> list[jax.Array]:
    """Run a kernel with a program for each block, along n or m, of each example.

    Args:
        operands: q, k, v, and the cotangents of a backward.
    """
    q, _, v, *_ = operands
    assert q is not None
    assert v is not None
    (B, n, d), (_, m, e) = q.shape, v.shape
    sizes = {"n": n, "m": m, "d": d, "e": e}
    shapes = [tuple(sizes[axis] for axis in _AXES[result]) for result in results]
    matrices = [*shapes, *(x.shape[-2:] for x in operands if x is not None)]
    return list(
        triton_call(
            *(q if x is None else x for x in operands),
            kernel=_tuned(_KERNELS[name], name, q.dtype == "float32"),
            out_shape=[jax.ShapeDtypeStruct((B, *shape), q.dtype) for shape in shapes],
            grid=lambda constants: (B * triton.cdiv(sizes[block], constants[f"BLOCK_{block.upper()}"]),),
            name=f"attn_{name}",
            **sizes,
            **flags,
            INDEX=attn_kernels.index_type((rows, columns, columns, 1) for rows, columns in matrices),
            INTERPRETED=attn_kernels.INTERPRETED,
            BLOCK_D=attn_kernels.width(d),
            BLOCK_E=attn_kernels.width(e),
            **(attn_kernels.INTERPRETED_BLOCKS if attn_kernels.INTERPRETED else {}),
        )
    )


def _by_examples(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of matrices, from one of batches (B, ...) of them: what `vmap` adds becomes part of B."""
    batched = jax.custom_batching.custom_vmap(f)

    @batched.def_vmap
    def rule(size: int, is_batched: Any, *args: Any) -> tuple[Any, Any]:
        full = jax.tree.map(lambda x, its: x if its else jnp.broadcast_to(x, (size, *x.shape)), args, tuple(is_batched))
        results = batched(*jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), full))
        results = jax.tree.map(lambda y: y.reshape(size, -1, *y.shape[1:]), results)
        return results, jax.tree.map(lambda y: True, results)

    @jax.jit
    def of_matrices(*args: Any) -> Any:
        return jax.tree.map(lambda y: y[0], batched(*jax.tree.map(lambda x: x[None], args)))

    return of_matrices


def _outputs(with_attn: bool, q: jax.Array, k: jax.Array, v: jax.Array) -> list[jax.Array]:
    flags = {"WITH_ATTN": True} if with_attn else {"WITH_ATTN": False, "attn": None}
    return _launch("forward", "n", (q, k, v), ("output", "attn")[: 1 + with_attn], flags)


_forwards = {with_attn: _by_examples(functools.partial(_outputs, with_attn)) for with_attn in (False, True)}


@_by_examples
def _backward(
    q: jax.Array, k: jax.Array, v: jax.Array, output_bar: MaybeZero, attn_bar: MaybeZero
) -> tuple[MaybeZero, ...]:
    operands, has_output_bar = (q, k, v, output_bar, attn_bar), output_bar is not None
    given = {"HAS_OUTPUT_BAR": has_output_bar, "HAS_ATTN_BAR": attn_bar is not None}
    (q_bar,) = _launch("backward_of_rows", "n", operands, ["q_bar"], given)
    wants = {"WANTS_K": True, "WANTS_V": has_output_bar} | ({} if has_output_bar else {"v_bar": None})
    k_bar, *v_bar = _launch(
        "backward_of_columns", "m", operands, ("k_bar", "v_bar")[: 1 + has_output_bar], given | wants
    )
    return q_bar, k_bar, v_bar[0] if v_bar else None


def forward(
    q: Float[Array, "n d"], k: Float[Array, "m d"], v: Float[Array, "m e"], *, with_attn: bool
) -> tuple[jax.Array, ...]:
    """(output (n, e), attn (n, m)), or (output,) alone: equations (1) to (3), in the dtype of q. No axis is empty."""
    return tuple(_forwards[with_attn](q, k, v))


def backward(
    q: Float[Array, "n d"], k: Float[Array, "m d"], v: Float[Array, "m e"], output_bar: MaybeZero, attn_bar: MaybeZero
) -> tuple[MaybeZero, ...]:
    """(q_bar, k_bar, v_bar) of cotangents of which one at least is there: equations (8) to (12), in the dtype of q."""
    return _backward(q, k, v, output_bar, attn_bar)
