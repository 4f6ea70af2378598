"""Candidates in NVIDIA Warp: a right kernel passes, and wrong ones are caught; skipped where Warp is not installed."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from gradparity import OpSpec, Verdict, crosscheck

pytest.importorskip("warp", reason="needs Warp: pip install 'gradparity[warp]'")

from gradparity import WarpCandidate  # which imports Warp
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.suite.harness.candidates import _warp_kernels as kernels
from parity_tests.suite.rotation import rotating

pytestmark = pytest.mark.slow  # Warp compiles each kernel for each format

SPEC = OpSpec("scores", primal=lambda q, k: jnp.tanh(q @ k.T), signature="(n,d),(m,d)->(n,m)")


@rotating(4, turn=1)
def test_a_right_kernel_passes() -> None:
    report = crosscheck(WarpCandidate(kernels.scores), SPEC, dtypes=["float64", "float32"])
    assert report.passed, str(report)
    rows = {(row.check, row.dtype): row.verdict for row in report.rows if row.candidate == "scores"}
    for check in ("forward", "vjp", "linearity", "determinism", "points", "purity"):
        assert {rows[check, dtype] for dtype in ("float64", "float32")} == {Verdict.PASS}, check
    assert rows["retain_graph", "float64"] is Verdict.PASS
    assert rows["jvp", "float64"] is Verdict.UNSUPPORTED
    assert rows["vmap", "float64"] is Verdict.UNSUPPORTED


@pytest.mark.parametrize(
    ("wrong", "check", "said"),
    [
        (kernels.scores_without_the_last_feature, "forward", "output"),
        (kernels.scores_in_one_kernel, "vjp", "looks like  q_bar lacks the term"),
        (kernels.scores_off_the_tape, "vjp", "requires_grad=True"),
        (kernels.scores_as_a_list, "forward", "returned list where a wp.array"),
        (kernels.scores_that_clear_q, "purity", "was written to"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_wrong_kernel_is_caught(wrong, check: str, said: str) -> None:
    report = crosscheck(WarpCandidate(wrong), SPEC, checks=[check], dtypes=["float32"])
    (row,) = [row for row in report.rows if row.candidate != "oracle"]
    assert row.verdict is Verdict.MISMATCH, str(report)
    assert said in str(report)


def test_a_sum_that_is_rounded_to_sixteen_bits_at_every_step_is_caught() -> None:
    report = crosscheck(WarpCandidate(kernels.scores), SPEC, checks=["forward"], dtypes=["bfloat16"])
    assert report.rows[-1].verdict is Verdict.MISMATCH
    assert "many_d" in str(report)


def test_a_scalar_is_refused() -> None:
    spec = OpSpec("double", primal=lambda x: 2 * x, signature="()->()")
    report = crosscheck(WarpCandidate(kernels.scores), spec, checks=["forward"], dtypes=["float32"])
    assert [row.reason for row in report.rows] == ["a wp.array has from 1 to 4 axes, and an input has 0"]


def test_a_device_on_which_warp_does_not_run_is_refused() -> None:
    with pytest.raises(Refused, match=r"^Warp does not run on meta$"):
        WarpCandidate(kernels.scores).forward([torch.ones(3, 2, device="meta"), torch.ones(4, 2, device="meta")])


def test_a_kernel_is_no_function_of_arrays() -> None:
    with pytest.raises(TypeError, match="a function that launches kernels and returns arrays, got Kernel"):
        WarpCandidate(kernels.tanh_kernel)
