"""The time below which a case can hardly be computed, from rates that are measured on the same machine in the same run.

    bound = flops / GEMM rate + n m / tanh rate + (bytes written) / write rate + (bytes read) / read rate

- flops: 2 n m d for each product of derivation/attn.md: (1), (3), and backward (8), (10), (11), (12).
- GEMM rate, tanh rate: the best that torch, NumPy or XLA reaches in any of the shapes below, for the format.
- bytes written: attn, once. Bytes read: attn for the backward, and attn's cotangent if there is one. q, k, v and their
  gradients are not counted.
- write rate, read rate: of a buffer that holds the matrix, and whose pages have been touched before. What the kernel
  takes for new pages is a cost that a version may avoid, so that it is not in the bound; it is measured apart.

Rates are of one thread; on T threads a bound has T times each. No overlap is assumed between the four terms: a version
that has memory and arithmetic overlap may come out above 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.cases import Case

LARGE = ((1024, 1024, 1024), (1024, 64, 1024), (1024, 1024, 64))
BLOCKS = ((128, 64, 256), (128, 256, 64))
TANH_BLOCK = 32768  # entries, which stay in the second-level cache
BUFFERS = (1, 4, 16, 64, 256)  # MiB

Rates = dict[str, dict[str, float]]  # "gemm float32" -> {"torch.mm 1024x1024x1024": flop/s}, "write" -> {"4 MiB": B/s}


def merged(measurements: Iterable[Rates]) -> Rates:
    """The best of each rate, over processes and over the times at which they measured."""
    best: Rates = {}
    for rates in measurements:
        for kind, found in rates.items():
            of_kind = best.setdefault(kind, {})
            for name, rate in found.items():
                of_kind[name] = max(rate, of_kind.get(name, 0.0))
    return best


def bound(case: Case, rates: Rates) -> float:
    """Seconds for a case."""
    gemm, tanh = (max(rates[f"{kind} {case.dtype}"].values()) for kind in ("gemm", "tanh"))
    size = next((f"{x} MiB" for x in BUFFERS if x * 2**20 >= case.matrix_bytes), f"{BUFFERS[-1]} MiB")
    memory = case.matrix_bytes * (1 / rates["write"][size] + case.reads / rates["read"][size])
    return (case.flops / gemm + case.n * case.m / tanh + memory) / case.threads
