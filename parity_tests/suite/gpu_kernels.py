"""What is asked of attn's GPU kernels, in whatever framework: the tests that those of Pallas and of Triton share.

A test file of one framework has a fixture `kernels` and imports the tests from here. The kernels run on a GPU where
there is one, and in their framework's interpreter otherwise. What only one framework has (how kernels are launched,
what its compiler makes of them) is tested in its own file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pytest

from parity_tests import OpSpec, crosscheck
from parity_tests.catalog.attn import SPEC, SPEC_OUTPUT
from parity_tests.harness.findings import Verdict
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.report.report import Report
from parity_tests.suite.rotation import rotating

DTYPES = ("float32", "bfloat16", "float16")
FIRST_ORDER = ("forward", "vjp", "vjp_partial")
SPECS = {"attn": SPEC, "attn_output": SPEC_OUTPUT}
faces = pytest.mark.parametrize("face", SPECS)


class Kernels(Protocol):
    """One framework's kernels.

    Attributes:
        largest: the most features, d or e, that they take.
        tails: n, d, m, e, of which n and m are more than one block, and a part of one; no two are equal.
        device: of the harness's tensors.
    """

    largest: int
    tails: tuple[int, int, int, int]
    device: str

    def candidate(self, face: str) -> Any:
        """`attn` or `attn_output`, as `crosscheck` takes it: it computes on the device where the kernels run."""
        ...

    def run(self, face: str, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        """The outputs and the gradients of q, k, v, in float64, of primals and cotangents rounded to a format."""
        ...

    def reference(self, arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
        """The same of the framework's attn without kernels."""
        ...


def judged(
    kernels: Kernels, face: str, sizes: Sequence[int], *, scale: float = 0.5, checks: Sequence[str], **options: Any
) -> Report:
    """The report on a face at sizes n, d, m, e; q kᵀ has entries of about this scale."""
    spec = spec_at(face, sizes, scale)
    return crosscheck(kernels.candidate(face), spec, name=face, checks=checks, device=kernels.device, **options)


def spec_at(face: str, sizes: Sequence[int], scale: float = 0.5) -> OpSpec:
    """The spec of a face at sizes n, d, m, e; q kᵀ has entries of about this scale."""
    n, d, m, e = sizes
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal(shape) for shape in ((n, d), (m, d), (m, e)))
    factor = scale**0.5 / d**0.25
    return dataclasses.replace(SPECS[face], signature=None, inputs=(factor * q, factor * k, v))


def all_pass(report: Report, *, but: Sequence[str] = ()) -> None:
    """Every check has passed, but for those of which the candidate declares that it has not got them."""
    report.raise_if_failed()
    assert {row.check for row in report.rows if row.verdict is not Verdict.PASS} == {*but}


def failing(report: Report) -> set[str]:
    """The checks that convict a wrong kernel."""
    assert {row.verdict for row in report.rows} <= {Verdict.PASS, Verdict.MISMATCH}
    return {row.check for row in report.rows if not row.passed}


@faces
def test_first_order(kernels: Kernels, face: str) -> None:
    """Each entry is within what rounding explains, in every format; also where cotangents are absent."""
    all_pass(judged(kernels, face, kernels.tails, checks=FIRST_ORDER, dtypes=DTYPES))


# n, d, m, e. The blocks of Triton's interpreter have 16 queries and 32 keys; those of Pallas and of a GPU up to 128.
SIZES = {
    "one": (1, 1, 1, 1),
    "one_block": (4, 3, 5, 2),
    "whole_blocks": (64, 16, 128, 32),
    "next_to_whole": (65, 100, 63, 17),
    "few_queries": (3, 128, 200, 4),
    "few_keys": (200, 4, 3, 100),
}
# Each size, face, scale and format at least once; all combinations are soak tests.
AT_SIZES = [
    ("one", "attn_output", 0.5, "float32"),
    ("one_block", "attn_output", 6.0, "float16"),
    ("whole_blocks", "attn", 0.5, "bfloat16"),
    ("next_to_whole", "attn", 6.0, "float32"),
    ("few_queries", "attn_output", 0.5, "bfloat16"),
    ("few_keys", "attn", 6.0, "float16"),
]


@rotating(3)
@pytest.mark.parametrize(
    ("name", "face", "scale", "dtypes"),
    [
        *(
            pytest.param(name, face, scale, [dtype], id=f"{name}-{face}-{scale}-{dtype}", marks=pytest.mark.slow)
            for name, face, scale, dtype in AT_SIZES
        ),
        *(
            pytest.param(name, face, scale, DTYPES, id=f"{name}-{face}-{scale}", marks=pytest.mark.soak)
            for name in SIZES
            for face in SPECS
            for scale in (0.5, 6.0)
        ),
    ],
)
def test_first_order_at_every_size(kernels: Kernels, name: str, face: str, scale: float, dtypes: Sequence[str]) -> None:
    all_pass(judged(kernels, face, SIZES[name], scale=scale, checks=FIRST_ORDER, dtypes=dtypes))


@pytest.mark.slow
@faces
def test_second_order(kernels: Kernels, face: str) -> None:
    checks = ("vjp_of_vjp", "jvp_of_vjp")
    all_pass(judged(kernels, face, SIZES["one_block"], checks=checks, dtypes=["float32"]))


def arrays(sizes: Sequence[int]) -> list[np.ndarray]:
    """q, k, v, output_bar and attn_bar, in float64."""
    n, d, m, e = sizes
    rng = np.random.default_rng(0)
    return [0.7 * rng.standard_normal(shape) for shape in ((n, d), (m, d), (m, e), (n, e), (n, m))]


# Entries below 2: sums of at most 4 products of a tanh, or of its slope, which are wrong by up to 25 u on a GPU.
SHORT_SUMS = 2 * (25 + 4) * PRECISIONS["float32"].u


@pytest.mark.parametrize("axis", range(4), ids=["n", "d", "m", "e"])
def test_an_empty_axis(kernels: Kernels, axis: int) -> None:
    """The results are as they are without kernels, most of them zeros, or empty."""
    sizes = [3, 2, 4, 5]
    sizes[axis] = 0
    given = arrays(sizes)
    expected = kernels.reference(given, "float32")
    for x, y in zip(kernels.run("attn", given, "float32"), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=SHORT_SUMS)
    given[4] = np.zeros_like(given[4])
    output, _, *gradients = kernels.reference(given, "float32")
    for x, y in zip(kernels.run("attn_output", given[:4], "float32"), [output, *gradients], strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=SHORT_SUMS)


def infinities(kernels: Kernels) -> list[str]:
    """Where NaN is not as without kernels: for a query, then for a key, with an infinite feature."""
    found = []
    for i, primal in enumerate("qk"):
        given = arrays(kernels.tails)
        given[i][3, 2] = np.inf
        results = kernels.run("attn", given, "float32"), kernels.reference(given, "float32")
        for name, x, y in zip(("output", "attn", "q_bar", "k_bar", "v_bar"), *results, strict=True):
            if not np.array_equal(np.isnan(x), np.isnan(y)):
                found.append(f"{name} for {primal}")
    return found


def test_infinities_stay_where_they_are(kernels: Kernels) -> None:
    """0 times ∞ is NaN: what was loaded as zeros outside of a matrix must not reach the rows that are inside."""
    assert infinities(kernels) == []


def slopes_near_saturation(run: Callable[[str, Sequence[np.ndarray], str], list[np.ndarray]], dtype: str) -> float:
    """The largest relative error of q_bar and k_bar at n = d = m = e = 1, q = 6, k = v = 1, output_bar = 1."""
    given = [np.full((1, 1), x) for x in (6.0, 1.0, 1.0, 1.0)]
    _, q_bar, k_bar, _ = (x.item() for x in run("attn_output", given, dtype))
    slope = np.cosh(6.0) ** -2
    return max(abs(q_bar / slope - 1), abs(k_bar / (6 * slope) - 1))


def units_of_saturation(dtype: str) -> float:
    """The product D G is rounded to the format, and the sum is: two roundings, and as much for D's own."""
    return 4 * PRECISIONS[dtype].u


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_slopes_near_saturation(kernels: Kernels, dtype: str) -> None:
    """tanh(6) is 1 in 16 bits, where 1 - attn² is 0. The slope, 2.5e-5, reaches q_bar and k_bar all the same."""
    assert slopes_near_saturation(kernels.run, dtype) <= units_of_saturation(dtype)


def error_of_attn(kernels: Kernels) -> float:
    """The largest error of the matrix in bfloat16, in units of its last place, at scores between 1/8 and 4."""
    scores = np.float32(np.geomspace(0.125, 4, 100)).reshape(-1, 1)
    q = scores.view(np.uint32) & np.uint32(0xFFFF0000)  # which bfloat16 has
    q, k = q.view(np.float32).astype(np.float64), np.array([[1.0], [1 + 2.0**-7]])
    zeros = [np.zeros(shape) for shape in ((2, 1), (100, 1), (100, 2))]
    _, attn, *_ = kernels.run("attn", [q, k, *zeros], "bfloat16")
    exact = np.tanh(q @ k.T)
    place = 2.0 ** (np.floor(np.log2(exact)) - 7)
    return float((np.abs(attn - exact) / place).max())


# Half a unit by rounding; a few float32 errors in the score and in tanh are less than 2^-8 of one.
ROUNDED_ONCE = 0.5 + 2.0**-8


def test_the_matrix_is_rounded_once(kernels: Kernels) -> None:
    """The scores are kept in float32: rounded to bfloat16 they would cost most entries another half unit or more."""
    assert error_of_attn(kernels) <= ROUNDED_ONCE
