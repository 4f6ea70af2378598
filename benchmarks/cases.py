"""The measured cases: sizes, formats, directions, and the work that each of them asks for. Imports no framework."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np

What = Literal["forward", "both", "output"]
WHATS: dict[What, str] = {
    "forward": "forward",
    "both": "forward + backward",
    "output": "forward + backward, output's cotangent only",
}
# Name in results -> what it is. The order is that of tables and plots.
VERSIONS = {
    "native": "torch_impl.attn_native",
    "eager": "torch_impl.attn_composite",
    "function": "torch_impl.attn_function, an autograd.Function",
    "compile": "torch.compile of attn_composite",
    "jax_jit": "jax.jit of jax_ref.attn_primal, JAX's own VJP",
    "jax_attn": "jax.jit of jax_ref.attn, explicit VJP",
    "jax_ffi": "jax.jit of jax_ref.ffi.attn, a kernel in C++",
    "blockwise": "jax.jit of jax_ref.dot_product_attention, blockwise: returns no attn",
    "sdpa": "torch scaled_dot_product_attention: softmax in place of tanh, returns no attn",
}
NO_ATTN = ("blockwise", "sdpa")  # yardsticks that compute something else: no peers
COMPILED = (256, 1024, 4096)  # n = m at which torch.compile is asked: it takes seconds for each


@dataclass(frozen=True)
class Case:
    """n queries, m keys, d features of q, k and of v; on so many threads."""

    n: int
    m: int
    d: int = 64
    dtype: str = "float32"
    what: What = "forward"
    threads: int = 1

    def __str__(self) -> str:
        on = f", T = {self.threads}" if self.threads > 1 else ""
        return f"{self.n} x {self.m}, d {self.d}, {self.dtype}, {WHATS[self.what]}{on}"

    @property
    def matrix_bytes(self) -> int:
        """The bytes of one n x m matrix."""
        return self.n * self.m * ml_dtypes.finfo(self.dtype).bits // 8

    @property
    def flops(self) -> int:
        """Floating-point operations: (1) and (3), and for the backward (8), (10), (11), (12) of derivation/attn.md."""
        return 2 * self.n * self.m * self.d * (2 if self.what == "forward" else 6)

    @property
    def reads(self) -> int:
        """The n x m matrices that a backward must read: attn, and attn's cotangent if there is one."""
        return {"forward": 0, "output": 1, "both": 2}[self.what]

    def refusal(self, version: str) -> str | None:
        """Why a version is not asked for this case; None if it is."""
        if version in NO_ATTN and self.what == "both":
            return "it returns no attn, so that attn has no cotangent"
        plain = self.n == self.m and self.n in COMPILED and self.d == 64
        if version == "compile" and not (plain and self.dtype == "float32" and self.threads == 1):
            return "compiling takes seconds for each shape: only n = m = " + ", ".join(map(str, COMPILED))
        return None

    def arrays(self) -> tuple[np.ndarray, ...]:
        """q, k, v, output_bar, attn_bar, the same for every framework. Scores are of the order of 1, as in a model."""
        rng = np.random.default_rng(0)
        shapes = (self.n, self.d), (self.m, self.d), (self.m, self.d), (self.n, self.d), (self.n, self.m)
        scales = self.d**-0.25, self.d**-0.25, 1.0, 1.0, 1.0
        return tuple(s * rng.standard_normal(x, np.dtype(self.dtype).type) for x, s in zip(shapes, scales, strict=True))


def grid(sizes: tuple[int, ...], threads: tuple[int, ...], quick: bool) -> list[Case]:
    """The cases of a run: square ones of every direction, then other d, n unlike m, float64, more threads."""
    cases = [Case(n, n, what=what) for n in sizes for what in WHATS] if 1 in threads else []
    middle = [n for n in sizes if n in (256, 1024)] if quick else [n for n in sizes if n <= 4096 and n != 64]
    if 1 in threads:
        directions: tuple[What, ...] = ("forward", "both")
        if not quick and 1024 in sizes:
            cases += [Case(1024, 1024, d, what=what) for d in (32, 128) for what in directions]
        if not quick and {256, 4096} <= {*sizes}:
            cases += [Case(n, m, what=what) for n, m in ((256, 4096), (4096, 256)) for what in directions]
        cases += [Case(n, n, dtype="float64", what=what) for n in middle for what in directions]
    for count in threads:
        if count > 1:
            large = [n for n in sizes if 1024 <= n <= 4096]
            cases += [Case(n, n, what=what, threads=count) for n in large for what in ("forward", "both")]
    return cases


def as_data(case: Case) -> dict:
    """The fields of a case, for JSON."""
    return dataclasses.asdict(case)
