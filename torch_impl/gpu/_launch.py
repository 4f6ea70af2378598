"""Calls the kernels of `derivation.attn_kernels`: allocates their results, passes strides, chooses sizes of blocks."""

# Triton is not a requirement
# pyright: reportMissingImports=false

from __future__ import annotations

import functools

import torch
import triton
from torch import Tensor

from derivation import attn_kernels

_KEY = ["work", "BLOCK_D", "BLOCK_E", "INDEX"]
_FLAGS = {
    "forward": ["WITH_ATTN"],
    "backward_of_rows": ["HAS_OUTPUT_BAR", "HAS_ATTN_BAR"],
    "backward_of_columns": ["HAS_OUTPUT_BAR", "HAS_ATTN_BAR", "WANTS_K", "WANTS_V"],
}


@functools.cache
def _tuned(kernel: triton.runtime.JITFunction, name: str, float32: bool):
    return triton.autotune(attn_kernels.configurations(name, float32), [*_KEY, *_FLAGS[name]])(kernel)


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
        "INDEX": attn_kernels.index_type((*x.shape[-2:], *x.stride()[-2:]) for x in tensors if x is not None),
        "INTERPRETED": attn_kernels.INTERPRETED,
        "BLOCK_D": attn_kernels.width(d),
        "BLOCK_E": attn_kernels.width(e),
    }
    # What is best is found once for sizes within a factor of 2.
    work = triton.next_power_of_2(max(n, 1)) * triton.next_power_of_2(max(m, 1))

    def grid(constants: dict) -> tuple[int]:
        return (examples * triton.cdiv(size, constants[block]),)

    with torch.cuda.device_of(q):  # Triton launches on the current device
        kernel = getattr(attn_kernels, name)
        if attn_kernels.INTERPRETED:
            constants |= attn_kernels.INTERPRETED_BLOCKS
        else:
            kernel = _tuned(kernel, name, q.dtype == torch.float32)
            constants["enable_fp_fusion"] = True  # said, since Triton's default is about to change
        kernel[grid](*tensors, n, m, d, e, *strides, work, **constants)
