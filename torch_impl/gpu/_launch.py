"""Calls the kernels: allocates their results, passes strides, chooses the size of a block."""

# Triton is not a requirement
# pyright: reportMissingImports=false

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor

from torch_impl.gpu import _kernels

INTERPRETED = not isinstance(_kernels.forward, triton.runtime.JITFunction)
"""Do the kernels run in Triton's interpreter, and not on a GPU? Triton decides it when they are defined."""

# Different, so that one in the other's place is noticed; small, so that small inputs have several blocks.
INTERPRETED_BLOCKS = {"BLOCK_N": 16, "BLOCK_M": 32}

_KEY = ["work", "BLOCK_D", "BLOCK_E", "INDEX"]
_FLAGS = {
    "forward": ["WITH_ATTN"],
    "backward_of_rows": ["HAS_OUTPUT_BAR", "HAS_ATTN_BAR"],
    "backward_of_columns": ["HAS_OUTPUT_BAR", "HAS_ATTN_BAR", "WANTS_K", "WANTS_V"],
}
# BLOCK_N, BLOCK_M, warps, stages: those that ptxas gives Hopper's registers to with few spills or none, up to 128
# features. Which is the fastest was not measured; Triton tries them out at the first call, and keeps the fastest for as
# long as the process lives. 16-bit products are made by groups of 4 warps on tiles of 64 rows and more.
_HOPPER = {
    "forward": [(64, 64, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2)],
    "backward_of_rows": [(64, 64, 4, 3), (64, 32, 4, 4), (128, 64, 8, 2)],
    "backward_of_columns": [(64, 64, 4, 2), (32, 64, 4, 3), (64, 128, 8, 2)],
}
_HOPPER_FLOAT32 = {
    "forward": [(32, 32, 4, 2), (64, 32, 8, 2), (32, 64, 8, 2)],
    "backward_of_rows": [(32, 32, 4, 2), (64, 32, 8, 2), (32, 64, 8, 2)],
    "backward_of_columns": [(16, 32, 4, 2), (32, 32, 8, 2), (16, 64, 8, 2)],
}


def configurations(name: str, float32: bool) -> list[triton.Config]:
    """The sizes of blocks that are tried out for a kernel."""
    return [
        triton.Config({"BLOCK_N": N, "BLOCK_M": M}, num_warps=warps, num_stages=stages)
        for N, M, warps, stages in (_HOPPER_FLOAT32 if float32 else _HOPPER)[name]
    ]


@functools.cache
def _tuned(kernel: triton.runtime.JITFunction, name: str, float32: bool):
    return triton.autotune(configurations(name, float32), [*_KEY, *_FLAGS[name]])(kernel)


def forward(q: Tensor, k: Tensor, v: Tensor, with_attn: bool) -> tuple[Tensor, ...]:
    """(output, attn), or (output,): equations (1) to (3). One leading axis of examples, or none."""
    q, k, v = (x.resolve_neg() for x in (q, k, v))
    output = q.new_empty(*q.shape[:-1], v.shape[-1])
    attn = q.new_empty(*q.shape[:-1], k.shape[-2]) if with_attn else None
    _launch("forward", "BLOCK_N", (q, k, v, output, attn), {"WITH_ATTN": with_attn})
    return (output,) if attn is None else (output, attn)


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output_bar: Tensor | None,
    attn_bar: Tensor | None,
    wants_q: bool,
    wants_k: bool,
    wants_v: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """(q_bar, k_bar, v_bar), equations (8) to (12): `None` if not wanted, or if no cotangent leads there."""
    arguments = [None if x is None else x.resolve_neg() for x in (q, k, v, output_bar, attn_bar)]
    given = {"HAS_OUTPUT_BAR": output_bar is not None, "HAS_ATTN_BAR": attn_bar is not None}
    some = any(given.values())
    q_bar = _empty_like(q, wants_q and some)
    k_bar = _empty_like(k, wants_k and some)
    v_bar = _empty_like(v, wants_v and output_bar is not None)
    if q_bar is not None:
        _launch("backward_of_rows", "BLOCK_N", (*arguments, q_bar), given)
    if k_bar is not None or v_bar is not None:
        wants = {"WANTS_K": k_bar is not None, "WANTS_V": v_bar is not None}
        _launch("backward_of_columns", "BLOCK_M", (*arguments, k_bar, v_bar), given | wants)
    return q_bar, k_bar, v_bar


def _empty_like(x: Tensor, wanted: bool) -> Tensor | None:
    return torch.empty_like(x, memory_format=torch.contiguous_format) if wanted else None


def _launch(name: str, block: str, tensors: tuple[Tensor | None, ...], flags: dict[str, bool]) -> None:
    """Run a kernel with a program for each block, along n or m, of each example."""
    q, k, v = tensors[0], tensors[1], tensors[2]
    assert q is not None
    assert k is not None
    assert v is not None
    n, d, m, e = *q.shape[-2:], *v.shape[-2:]
    examples = q.shape[0] if q.dim() == 3 else 1
    size = n if block == "BLOCK_N" else m
    if examples * size == 0:
        return
    # Where there is no tensor, its strides are never read.
    strides = [s for x in tensors for s in ((0, 0, 0) if x is None else (*(0,) * (3 - x.dim()), *x.stride()))]
    constants = flags | {
        "INDEX": index_type(tensors),
        "INTERPRETED": INTERPRETED,
        "BLOCK_D": width(d),
        "BLOCK_E": width(e),
    }
    # What is best is found once for sizes within a factor of 2.
    work = triton.next_power_of_2(max(n, 1)) * triton.next_power_of_2(max(m, 1))

    def grid(constants: dict) -> tuple[int]:
        return (examples * triton.cdiv(size, constants[block]),)

    with torch.cuda.device_of(q):  # Triton launches on the current device
        kernel = getattr(_kernels, name)
        if INTERPRETED:
            constants |= INTERPRETED_BLOCKS
        else:
            kernel = _tuned(kernel, name, q.dtype == torch.float32)
            constants["enable_fp_fusion"] = True  # said, since Triton's default is about to change
        kernel[grid](*tensors, n, m, d, e, *strides, work, **constants)


def width(features: int) -> int:
    """The size of a tile along features: a power of 2, and of no fewer than the 16 that a tensor core takes."""
    return max(16, triton.next_power_of_2(max(features, 1)))


def index_type(tensors: tuple[Tensor | None, ...]) -> tl.dtype:
    """int64 if an entry of a tensor is so far from its first one, in its own example, that int32 does not hold it.

    A block reaches beyond the edge, up to which masks are computed; hence twice as far.
    """
    there = (x for x in tensors if x is not None)
    far = max(sum(2 * n * s for n, s in zip(x.shape[-2:], x.stride()[-2:], strict=True)) for x in there)
    return tl.int64 if far >= 2**31 else tl.int32
