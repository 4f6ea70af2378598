"""Mistakes in Triton's kernels, each of which a check or a test of with_triton.py must notice.

Not collected: test_triton.py runs it in a process, with with_triton.py.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false, reportIndexIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from derivation import attn_kernels
from parity_tests.suite.gpu_kernels import failing, judged
from parity_tests.suite.sources import module_with
from parity_tests.suite.torch_impl import with_triton
from parity_tests.suite.torch_impl.with_triton import ONE_BLOCK, SIZES, TritonKernels
from torch_impl.gpu import _launch


def kernels_with(old: str, new: str, folder: Path) -> ModuleType:
    """The module of the kernels with one piece of its source replaced."""
    return module_with(attn_kernels, old, new, folder)


def _spec_in(*names: str, sizes: Sequence[int] = SIZES) -> Callable[[], set[str]]:
    return lambda: failing(judged(TritonKernels(), "attn", sizes, checks=names, dtypes=["float32"]))


def _test(name: str, test: Callable[..., object], *args: object) -> Callable[[], set[str]]:
    def caught() -> set[str]:
        try:
            test(*args)
        except AssertionError:
            return {name}
        return set()

    return caught


FIRST = _spec_in("forward", "vjp")
ABSENT = _spec_in("vjp", "vjp_partial")
# What is replaced in the kernels, by what, who looks, and who notices
WRONG_KERNELS: dict[str, tuple[str, str, Callable[[], set[str]], set[str]]] = {
    "1 + a² for 1 - a²": ("D = 4.0 * (t * r) * r", "D = 2.0 - 4.0 * (t * r) * r", FIRST, {"vjp"}),
    "a slope twice as large": ("D = 4.0 * (t * r) * r", "D = 8.0 * (t * r) * r", FIRST, {"vjp"}),
    "the sign of tanh": ("tl.where(s < 0, -far, far)", "far", FIRST, {"forward", "vjp"}),
    "the last block of rows is left out": (
        "range(0, n, BLOCK_N)", "range(0, n - BLOCK_N + 1, BLOCK_N)", FIRST, {"vjp"},
    ),
    "only the last block of keys counts": (
        "K, q_bar_rows, INTERPRETED)", "K, tl.zeros([BLOCK_N, BLOCK_D], tl.float32), INTERPRETED)",
        FIRST, {"vjp"},
    ),
    "an accumulator that starts at 1": (
        "v_bar_rows = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)",
        "v_bar_rows = tl.full([BLOCK_M, BLOCK_E], 1.0, tl.float32)",
        FIRST, {"vjp"},
    ),
    "the strides of q_bar are swapped": (
        "ds, q_bar_n, q_bar_d, n, d)", "ds, q_bar_d, q_bar_n, n, d)", FIRST, {"vjp"},
    ),
    "attn's cotangent is forgotten": (
        "G = tile(attn_bar + example * attn_bar_B, rows, columns, attn_bar_n, attn_bar_m, n, m).to(tl.float32)",
        "G = G * 1.0",
        ABSENT, {"vjp", "vjp_partial"},
    ),
    "the output's cotangent is forgotten": (
        "G = product(O_bar, tl.trans(V), G, INTERPRETED)", "G = G * 1.0", ABSENT, {"vjp", "vjp_partial"},
    ),
    "one example's values for all": (
        "        V = tile(v + example * v_B, columns, es, v_m, v_e, m, e)\n        output_rows",
        "        V = tile(v, columns, es, v_m, v_e, m, e)\n        output_rows",
        _spec_in("forward", "vmap", sizes=ONE_BLOCK), {"vmap"},
    ),
    "k's strides for q": (
        "        Q = tile(q + example * q_B, rows, ds, q_n, q_d, n, d)",
        "        Q = tile(q + example * q_B, rows, ds, k_m, k_d, n, d)",
        _test("layouts", with_triton.same_in, with_triton.transposed, [1]), {"layouts"},
    ),
    "no mask at the edge": (
        "inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]\n    return",
        "inside = (rows < 1 << 30)[:, None] & (columns < column_count)[None, :]\n    return",
        _test("beside", with_triton.test_nothing_beside_a_matrix_is_read), {"beside"},
    ),
    "zeros for a mask in a sum": (
        "P = tl.where(inside, D * G, 0.0)", "P = D * G",
        _test("infinities", with_triton.test_infinities_stay_where_they_are, TritonKernels()), {"infinities"},
    ),
    "the slope from a rounded attn": (
        "D, _ = slope_and_tanh(S)",
        "_, D = slope_and_tanh(S)\n"
        "        D = rounded(D, dtype, INTERPRETED).to(tl.float32)\n"
        "        D = (1.0 - D) * (1.0 + D)",
        _test("saturation", with_triton.test_slopes_near_saturation, TritonKernels(), "bfloat16"), {"saturation"},
    ),
    "a tanh that cancels near 0": (
        "tl.where(x <= SMALL, near, ", "tl.where(x <= 0.0, near, ",
        _test("tanh", with_triton.test_tanh_and_its_slope_are_exact_to_some_ulp), {"tanh"},
    ),
    "scores in 16 bits": (
        "_, A = slope_and_tanh(S)", "_, A = slope_and_tanh(S.to(tl.bfloat16).to(tl.float32))",
        _test("rounded once", with_triton.test_the_matrix_is_rounded_once, TritonKernels()), {"rounded once"},
    ),
    "a polynomial too short": (
        "C2 + z * (C3 + z * C4)", "C2 + z * C3",
        _test("tanh", with_triton.test_tanh_and_its_slope_are_exact_to_some_ulp), {"tanh"},
    ),
    "float32 sums in 16 bits": (
        "    return tl.dot(x, y, total, input_precision=\"ieee\")",
        "    return tl.dot(x, y, total, input_precision=\"ieee\").to(tl.float16).to(tl.float32)",
        FIRST, {"forward", "vjp"},
    ),
}  # fmt: skip
QUICK = ("1 + a² for 1 - a²", "attn's cotangent is forgotten", "no mask at the edge")


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[] if what in QUICK else pytest.mark.slow) for what in WRONG_KERNELS]
)
def test_a_wrong_kernel_is_noticed(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, look, expected = WRONG_KERNELS[what]
    wrong = kernels_with(old, new, tmp_path)
    monkeypatch.setattr(_launch, "attn_kernels", wrong)
    monkeypatch.setattr(attn_kernels, "slope_and_tanh", wrong.slope_and_tanh)
    assert look() == expected


@pytest.mark.parametrize(
    "looks",
    [
        pytest.param({FIRST}, marks=pytest.mark.slow, id="first order"),
        pytest.param({look for *_, look, _ in WRONG_KERNELS.values()}, marks=pytest.mark.soak, id="all"),
    ],
)
def test_a_kernel_made_anew_raises_no_alarm(
    looks: set[Callable[[], set[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = kernels_with("D = 4.0 * (t * r) * r", "D = 4.0 * (r * t) * r", tmp_path)
    monkeypatch.setattr(_launch, "attn_kernels", right)
    monkeypatch.setattr(attn_kernels, "slope_and_tanh", right.slope_and_tanh)
    for look in looks:
        assert look() == set()
