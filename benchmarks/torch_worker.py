"""The PyTorch versions, in a process of their own: `python -m benchmarks.torch_worker`, started by `benchmarks.run`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import torch_impl
from benchmarks.cases import Case
from benchmarks.roofline import BLOCKS, BUFFERS, LARGE, TANH_BLOCK
from benchmarks.worker import Call, Prepared, best_rate, serve
from torch_impl.native.build import BuildError, ToolchainMissing, toolchain_missing
from torch_impl.native.declarations import DeclarationError


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor]:
    """The output of attention with a softmax, which returns no attn."""
    q, k, v = (x[None, None] for x in (q, k, v))
    return (torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)[0, 0],)


@functools.cache  # one for all cases, so that a shape is compiled once
def compiled() -> Callable:
    """The plain version, compiled.

    Raises:
        ToolchainMissing: there is no compiler.
    """
    missing = toolchain_missing()
    if missing:
        raise ToolchainMissing(missing)
    return torch.compile(torch_impl.attn_composite, dynamic=False)


# A version is entered here, and by its name in `cases.VERSIONS`: (q, k, v) -> (output, attn), or (output,).
VERSIONS: dict[str, Callable[[], Callable]] = {
    "native": lambda: torch_impl.attn_native,
    "eager": lambda: torch_impl.attn_composite,
    "function": lambda: torch_impl.attn_function,
    "compile": compiled,
    "sdpa": lambda: sdpa,
}


def call_of(attn: Callable, case: Case, inputs: list[torch.Tensor], bars: list[torch.Tensor]) -> Call:
    """Forward with a tape, as in training; and, if the case has it, backward to all three inputs."""

    def forward() -> object:
        return attn(*inputs)

    def both() -> object:
        outputs = attn(*inputs)
        return outputs, torch.autograd.grad(outputs, inputs, bars)

    def output_only() -> object:
        outputs = attn(*inputs)
        return outputs, torch.autograd.grad(outputs[0], inputs, bars[0])

    return {"forward": forward, "both": both, "output": output_only}[case.what]


def prepare(fields: dict[str, Any], names: list[str]) -> Prepared:
    """The calls of these versions for the case with these fields."""
    case = Case(**fields)
    arrays = [torch.from_numpy(x) for x in case.arrays()]
    inputs, bars = [x.requires_grad_() for x in arrays[:3]], arrays[3:]
    prepared = Prepared()
    for name in names:
        try:
            attn = VERSIONS[name]()
        except (ToolchainMissing, BuildError, DeclarationError) as error:
            prepared.left_out[name] = str(error)
            continue
        prepared.calls[name] = call_of(attn, case, inputs, bars)
    return prepared


def rates() -> dict[str, dict[str, float]]:
    """Measure the rates that PyTorch, and NumPy on the same memory, reach: see `roofline`."""
    found: dict[str, dict[str, float]] = {}
    for dtype in (torch.float32, torch.float64):
        kind = str(dtype).removeprefix("torch.")
        gemm = found.setdefault(f"gemm {kind}", {})
        for a, b, c in (*LARGE, *BLOCKS):
            x, y, out = torch.randn(a, b, dtype=dtype), torch.randn(b, c, dtype=dtype), torch.empty(a, c, dtype=dtype)
            gemm[f"torch.mm {a}x{b}x{c}"] = best_rate(functools.partial(torch.mm, x, y, out=out), 2 * a * b * c)
        x = torch.randn(TANH_BLOCK, dtype=dtype)
        out = torch.empty_like(x)
        found[f"tanh {kind}"] = {
            "torch.tanh": best_rate(functools.partial(torch.tanh, x, out=out), TANH_BLOCK),
            "numpy.tanh": best_rate(functools.partial(np.tanh, x.numpy(), out.numpy()), TANH_BLOCK),
        }
    for mebibytes in BUFFERS:
        size = mebibytes * 2**20
        buffer = torch.zeros(size // 4)
        found.setdefault("write", {})[f"{mebibytes} MiB"] = best_rate(functools.partial(buffer.fill_, 1.0), size, 0.1)
        found.setdefault("read", {})[f"{mebibytes} MiB"] = best_rate(buffer.sum, size, 0.1)
    size = 64 * 2**20
    found["first touch"] = {"64 MiB": best_rate(functools.partial(torch.full, (size // 4,), 1.0), size)}
    return found


def facts() -> dict[str, object]:
    """Versions and settings."""
    return {
        "torch": torch.__version__,
        "torch cpu capability": torch.backends.cpu.get_cpu_capability(),
        "torch threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    serve(facts, rates, prepare)
