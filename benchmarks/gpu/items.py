"""The items of a run on a GPU, in order. Imports no framework.

An item runs in one of the processes of `worker`. Those of the dry run are the same, at tiny sizes and in interpreters;
those that the device "pretend" can do run there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from benchmarks.cases import WHATS, Case
from benchmarks.roofline import Rates

Part = Literal["correctness", "kernels", "judging"]
PARTS: tuple[Part, ...] = ("correctness", "kernels", "judging")
FORMATS = ("float32", "bfloat16", "float16")
IN_TORCH = ("attn_composite", "attn_function", "attn_native_implicit", "attn_native")
IN_JAX = "_triton_in_jax"
FUSED = ("attn_triton", "attn_output_triton", f"attn{IN_JAX}", f"attn_output{IN_JAX}")
PLACED = ("attn_function", "attn_native", "attn_triton", "attn_output_triton")  # on a stream, in a graph, elsewhere
# Of the tests that run where there is a GPU: file -> marks, and the tests of a dry run.
TESTS = {
    "torch_impl/test_native_cuda.py": ("not soak", "test_two_devices"),
    "torch_impl/with_triton.py": ("not soak", "test_tanh_at_the_ends"),
    "torch_impl/with_triton_mistakes.py": ("not soak", "forgotten and not output"),
    "jax_ref/with_jax_triton.py": ("not soak", "test_an_empty_axis and n"),
}
SIZES = (1024, 4096, 16384, 2048, 8192)  # the ends and the middle first
FEATURES = (64, 128)
JUDGED = (20, 256, 1024)  # n of the judged attn


@dataclass(frozen=True)
class Item:
    """One thing to do.

    Attributes:
        kind: the function that does it, see `worker.KINDS`; options: its arguments.
        seconds: what it may take before it is ended.
    """

    part: Part
    title: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 120.0

    @property
    def name(self) -> str:
        """Its name in the results."""
        return f"{self.part}: {self.title}"


@dataclass(frozen=True)
class GpuCase(Case):
    """A case with or without attn among the results."""

    with_attn: bool = True

    def __str__(self) -> str:
        return super().__str__() + ("" if self.with_attn else ", without attn")

    def bound(self, rates: Rates) -> float:
        """Seconds: the flops at the GEMM rate, or the bytes at the rate of a copy, whichever takes longer.

        A backward reads attn, or makes the scores again: the bound is that of the faster way. Overlap is assumed, and
        tanh and what a softmax takes are not counted.
        """
        gemm, copy = max(rates[f"gemm {self.dtype}"].values()), max(rates["copy"].values())
        small = 2 * (self.n + self.m) * self.d  # q, k, v and output
        written = self.n * self.m if self.with_attn else 0
        forward = 2, small + written
        ways = [forward]
        if self.what != "forward":
            bars = self.n * self.m if self.what == "both" else 0
            total = forward[1] + 2 * small + bars  # q, k, v, output_bar; q_bar, k_bar, v_bar
            ways = [(7, total), *([(6, total + written)] if self.with_attn else [])]
        itemsize = self.matrix_bytes // (self.n * self.m)
        product = 2 * self.n * self.m * self.d
        return min(max(product * count / gemm, entries * itemsize / copy) for count, entries in ways)


def on_pretend(item: Item) -> bool:
    """True if the tests' device can do it, which has no compiler, no meter of memory, and neither Triton nor JAX."""
    if item.kind == "case":
        return item.options["dtype"] != "float32"  # in which a dry run asks the compiler
    return item.kind not in ("memory", "tests") and item.options.get("of") not in FUSED


def items(tiny: bool) -> list[Item]:
    """Every item; tiny ones for a dry run."""
    return [*_correctness(tiny), *_kernels(tiny), *_judging(tiny)]


def _correctness(tiny: bool) -> Iterator[Item]:
    for of, dtype in itertools.product((*IN_TORCH, *FUSED), FORMATS):
        yield Item("correctness", f"{of}, {dtype}", "candidate", {"of": of, "dtypes": [dtype]})
    for how, of in itertools.product(("stream", "graph", "another device"), PLACED):
        yield Item("correctness", f"{of}, {how}", "placed", {"of": of, "how": how})
    yield Item("correctness", "TF32 is pinned", "tf32")
    for of in PLACED:
        yield Item("correctness", f"{of}, memory", "memory", {"of": of})
    for of, dtype in itertools.product(IN_TORCH, FORMATS):
        options = {"of": of, "dtypes": [dtype], "every": True}
        yield Item("correctness", f"{of}, {dtype}, every check", "candidate", options, 300)
    for file, (marks, some) in TESTS.items():
        options = {"file": file, "marks": marks, "some": some if tiny else None}
        yield Item("correctness", f"tests of {file}", "tests", options, 400)


def cases(tiny: bool) -> list[GpuCase]:
    """The cases that are timed: with attn in each direction, without it those that need none."""
    found = []
    for n, d in itertools.product((24,) if tiny else SIZES, (8,) if tiny else FEATURES):
        for dtype in FORMATS if d != 128 else FORMATS[:2]:
            found += [
                GpuCase(n, n, d, dtype, what, with_attn=with_attn)
                for with_attn in (True, False)
                for what in WHATS
                if with_attn or what != "both"
            ]
    return found


def _kernels(tiny: bool) -> Iterator[Item]:
    for case in cases(tiny):
        yield Item("kernels", str(case), "case", asdict(case), 240)  # kernels are tuned and compiled


def _judging(tiny: bool) -> Iterator[Item]:
    for n in (3,) if tiny else JUDGED:
        yield Item("judging", f"cost at n = {n}", "cost", {"n": n})
    n = 5 if tiny else 60
    yield Item("judging", f"planted mistakes at n = {n}", "mistakes", {"n": n})
