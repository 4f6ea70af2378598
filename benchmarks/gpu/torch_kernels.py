"""The PyTorch versions on a device: `python -m benchmarks.gpu.torch_kernels DEVICE`, with "tiny" or not.

Started by `benchmarks.gpu.command`.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

import torch_impl
from benchmarks import torch_worker
from benchmarks.gpu.correctness import callable_of
from benchmarks.gpu.device import Device
from benchmarks.gpu.items import FORMATS, GpuCase
from benchmarks.gpu.outcome import raised
from benchmarks.roofline import Rates
from benchmarks.worker import Prepared, best_rate, serve
from parity_tests import JaxCandidate
from parity_tests.harness.numbers.devices import is_on

SQUARE, TINY_SQUARE = (4096, 8192), (32,)  # of the GEMMs whose rates are measured
BUFFER, TINY_BUFFER = 2**30, 2**16  # bytes that are copied
RATE_SECONDS, TINY_SECONDS = 0.5, 0.001
Version = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]


def _cudnn(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return torch_worker.sdpa(q, k, v)


def _flex(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
    q, k, v = (x[None, None] for x in (q, k, v))
    found = flex_attention(q, k, v, score_mod=lambda score, *place: torch.tanh(score), scale=1.0)
    assert isinstance(found, Tensor)
    return (found[0, 0],)


@functools.cache  # one for all cases, so that a shape is compiled once
def _compiled_flex() -> Callable:
    return torch.compile(_flex, dynamic=False)


def version(name: str, device: Device, with_attn: bool) -> Version:
    """(q, k, v) -> (output, attn), or (output,).

    Raises:
        LeftOut, ToolchainMissing: it is not to be had here.
    """
    if name == "triton":
        fused = callable_of("attn_triton" if with_attn else "attn_output_triton", device)
        assert not isinstance(fused, JaxCandidate)
        return fused if with_attn else lambda q, k, v: (fused(q, k, v),)
    f = {
        "eager": lambda: torch_impl.attn_composite,
        "function": lambda: torch_impl.attn_function,
        "native": lambda: callable_of("attn_native", device),
        "compile": torch_worker.compiled,
        "sdpa": lambda: torch_worker.sdpa,
        "cudnn": lambda: _cudnn,
        "flex": _compiled_flex,
    }[name]()
    return f if with_attn else lambda q, k, v: f(q, k, v)[:1]


def _check_where(result: Tensor, device: Device) -> None:
    if not is_on(result, device.name):
        raise RuntimeError(f"it computes on {result.device}, and not on {device.name}")


def preparing(device: Device) -> Callable[[dict[str, Any], list[str]], Prepared]:
    """The calls of versions for a case. One that raises, or has no memory, is left out, with the reason."""

    def prepare(fields: dict[str, Any], names: list[str]) -> Prepared:
        case, prepared = GpuCase(**fields), Prepared()
        shapes = (case.n, case.d), (case.m, case.d), (case.m, case.d), (case.n, case.d), (case.n, case.m)
        scales = case.d**-0.25, case.d**-0.25, 1.0, 1.0, 1.0
        made = shapes if case.what == "both" else shapes[:4]
        dtype = getattr(torch, case.dtype)
        torch.manual_seed(0)
        arrays = [s * torch.randn(x, device=device.name, dtype=dtype) for x, s in zip(made, scales, strict=False)]
        inputs, bars = [x.requires_grad_() for x in arrays[:3]], arrays[3:]
        for name in names:
            try:
                f = version(name, device, case.with_attn)
                _check_where(f(*inputs)[0], device)
                call = torch_worker.call_of(f, case, inputs, bars)
                device.seconds(call, 1)
            except Exception as error:
                prepared.left_out[name] = raised(error).reason
            else:
                prepared.calls[name] = call
        return prepared

    return prepare


def rates(device: Device, tiny: bool) -> Rates:
    """The GEMM rate of each format, and the rate of a copy: bytes read and bytes written, a second."""
    found: Rates = {}
    budget = TINY_SECONDS if tiny else RATE_SECONDS
    for kind in FORMATS:
        of = found.setdefault(f"gemm {kind}", {})
        for n in TINY_SQUARE if tiny else SQUARE:
            x = torch.randn(n, n, device=device.name).to(getattr(torch, kind))
            out = torch.empty_like(x)
            of[f"torch.mm {n}"] = best_rate(
                functools.partial(torch.mm, x, x, out=out), 2 * n**3, budget, device.seconds
            )
    x = torch.zeros(TINY_BUFFER if tiny else BUFFER, dtype=torch.uint8, device=device.name)
    out = torch.empty_like(x)
    found["copy"] = {"torch.Tensor.copy_": best_rate(lambda: out.copy_(x), 2 * x.nbytes, budget, device.seconds)}
    return found


def facts() -> dict[str, object]:
    """Settings that decide how fast a product is."""
    return {"float32 products": torch.backends.cuda.matmul.fp32_precision}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of the frameworks
    torch.backends.cuda.matmul.fp32_precision = "ieee"  # this process's own: float32 is float32, as when it is judged
    where = Device(sys.argv[1])
    serve(facts, lambda: rates(where, "tiny" in sys.argv), preparing(where), where.seconds)
