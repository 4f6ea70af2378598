"""An operator that exists in 16 bits only is judged in them, and called with nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.report.results import Row
from parity_tests.suite.harness._ops import judged, rows

pytestmark = pytest.mark.usefixtures("certified_once")

NARROW = ("bfloat16", "float16")
SPEC = OpSpec("gate", lambda x, w: jnp.tanh(x) * w, "(n,d),(d)->(n,d)", dtypes=NARROW)


def _only_narrow(x: torch.Tensor) -> None:
    if x.dtype not in (torch.bfloat16, torch.float16):
        raise RuntimeError(f"the kernel takes bfloat16 and float16, not {x.dtype}")


class Gate(torch.autograd.Function):
    """Computes in float32 inside, as kernels do."""

    factor = 1.0
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        _only_narrow(x)
        return (torch.tanh(x.float()) * w.float()).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @classmethod
    def backward(cls, ctx, *cotangents):
        x, w = ctx.saved_tensors
        _only_narrow(cotangents[0])
        g, t = cotangents[0].float(), torch.tanh(x.float())
        return (cls.factor * (1 - t * t) * w.float() * g).to(x.dtype), (t * g).sum(0).to(x.dtype)


class Twice(Gate):
    factor = 2.0


def _verdicts(report) -> dict[str, set[Verdict]]:
    return {
        dtype: {row.verdict for row in rows(report) if row.dtype == dtype} for dtype in ("float64", "float32", *NARROW)
    }


CHECKS = ("forward", "vjp", "points", "exact", "digits", "layouts", "linearity", "purity", "autocast", "leaks", "vmap")


@pytest.mark.slow
def test_right_code_passes_every_check_without_a_limit():
    """What a Function without a jvp cannot do is its own limit. Nothing is an error, or is called in float32."""
    report = crosscheck(Gate.apply, SPEC)
    assert report.exit_code == 0, str(report)
    assert not any(row.verdict is Verdict.ERROR for row in report.rows)
    assert "the kernel takes" not in str(report)


@pytest.mark.slow
def test_right_code_passes():
    report = crosscheck(Gate.apply, SPEC, checks=CHECKS)
    found = {row.check: row.verdict for row in rows(report) if row.dtype == "bfloat16"}
    assert found.pop("autocast") is Verdict.SKIPPED
    assert set(found.values()) == {Verdict.PASS}, str(report)
    assert "float32, which OpSpec.dtypes leaves out" in str(report)


@pytest.mark.slow
def test_formats_that_are_asked_for_are_unsupported_as_declared():
    report = crosscheck(Gate.apply, SPEC, checks=["vjp", "leaks"], dtypes=["float64", "float32", *NARROW])
    assert report.exit_code == 0, str(report)
    verdicts = _verdicts(report)
    assert verdicts["float64"] == verdicts["float32"] == {Verdict.UNSUPPORTED}
    assert verdicts["bfloat16"] == {Verdict.PASS}
    assert "UNSUPPORTED, a known limit: OpSpec.dtypes is bfloat16, float16" in str(report)
    (leaks,) = (row for row in rows(report) if row.check == "leaks")  # which is judged in one format
    assert (leaks.dtype, leaks.verdict) == ("bfloat16", Verdict.PASS)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_wrong_backward_is_caught_and_explained_without_float64(dtype):
    row: Row = judged(Twice.apply, SPEC, "vjp", dtype)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.wrong[0].label == "x_bar"
    assert row.failure.unexplained == ()
    assert row.failure.judge == "no Taylor rate, since OpSpec.dtypes leaves float64 out"


def test_a_reference_that_casts_is_why_there_is_no_float64():
    spec = OpSpec.from_torch(lambda x: x.float().square().to(x.dtype), inputs="x: (n)")
    row: Row = judged(lambda x: 3 * x.square(), spec, "vjp", "float32")
    assert row.failure is not None
    why = "the reference casts to a narrower dtype, and float64 is not among the dtypes"
    assert row.failure.judge == f"no Taylor rate, since {why}"


def test_what_rounds_more_is_not_looked_for_in_float64():
    """A result that is off by a few roundings is compared with that of float64, if there is one."""

    def rounds_more(x, w):
        _only_narrow(x)
        return (torch.tanh(x) + 8) * w - 8 * w

    row = judged(rounds_more, SPEC, "forward", "bfloat16")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.unexplained == ()


ATTENTION = OpSpec(
    "attention", lambda q, k, v: jax.nn.softmax(q @ k.T, -1) @ v, "(n,d),(m,d),(m,d)->(n,d)", sizes="m >= 1"
)


@pytest.mark.slow
def test_an_adjoint_that_tells_nothing_in_sixteen_bits_is_skipped_there():
    """Scores that nobody divides by sqrt(d) round by so much that the sum of all products may be 0."""
    report = crosscheck(
        lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v,
        ATTENTION,
        checks=["vjp", "jvp", "adjoint"],
        dtypes=["float64", "bfloat16"],
    )
    verdicts = {(row.check, row.dtype): row.verdict for row in rows(report)}
    assert verdicts.pop(("adjoint", "bfloat16")) is Verdict.SKIPPED
    assert set(verdicts.values()) == {Verdict.PASS}
