"""What a candidate refuses: listed by its author, lacking in PyTorch, or a failure."""

from __future__ import annotations

import functools
import gc

import jax.numpy as jnp
import pytest
import torch
from torch._C import _autograd
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_refusals import NESTED_FORWARD, Refused
from parity_tests.suite.harness._ops import SQUARE, Square, judged, normal, rows, unary_function
from parity_tests.suite.marks import fast


class Once(Square):
    @staticmethod
    @once_differentiable
    def backward(ctx, *cotangents):
        (x,) = ctx.saved_tensors
        return 2 * x * cotangents[0]


OldStyle = unary_function(torch.square, lambda x, g: 2 * x * g)  # right, but without setup_context

DECLARED = [
    pytest.param(
        Square.apply,
        "jvp",
        "defines no jvp staticmethod, and AOTAutograd generates none",
        id="no jvp",
    ),
    pytest.param(Once.apply, "vjp_of_vjp", "its backward is marked once_differentiable", id="once_differentiable"),
    pytest.param(
        OldStyle, "vmap", "has no setup_context staticmethod, so torch.func cannot use it", id="no setup_context"
    ),
    pytest.param(
        Square.apply, "vmap", "has no vmap rule (generate_vmap_rule or a vmap staticmethod)", id="no vmap rule"
    ),
    pytest.param(Once.apply, "third_order", "its backward is marked once_differentiable", id="once, third order"),
]


@pytest.mark.parametrize(("call", "check", "reason"), DECLARED)
def test_what_the_author_declared_is_a_listed_limit(call, check, reason):
    report = crosscheck(call, SQUARE, checks=["vjp", check], dtypes=["float64"])
    row = rows(report)[-1]
    assert (row.verdict, row.listed, row.declared, row.reason) == (Verdict.UNSUPPORTED, True, True, reason)
    assert "UNSUPPORTED, a known limit: " in str(report)
    assert report.passed


def test_what_pytorch_cannot_do_is_told_as_its_limit():
    report = crosscheck(Square.apply, SQUARE, checks=["vjp", "jvp_of_jvp"], dtypes=["float64"])
    row = rows(report)[-1]
    assert (row.verdict, row.listed, row.declared, row.limit_of) == (Verdict.UNSUPPORTED, True, False, "PyTorch")
    assert row.reason == NESTED_FORWARD
    assert "UNSUPPORTED, a limit of PyTorch: " in str(report)
    assert str(report).count(", 1 limit of PyTorch") == 1
    assert report.passed


@pytest.mark.parametrize(("call", "check", "reason"), DECLARED)
def test_without_limits_it_is_a_failure(call, check, reason):
    report = crosscheck(call, SQUARE, checks=["vjp", check], dtypes=["float64"], limits={})
    row = rows(report)[-1]
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, False)
    assert row.reason == f'{reason}; it is not listed; if it is meant, add it: limits = {{"<check>": "why"}}'
    assert not report.passed
    assert report.exit_code == 1


def _refuses(x):
    raise NotImplementedError("no kernel for this")


@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_checkpoint_that_an_error_comes_out_of_is_left(depth):
    """In PyTorch 2.11 its hooks would be on as long as anybody has the error, and then take off those of others."""
    call = _refuses
    for _ in range(depth):
        call = functools.partial(checkpoint, call, use_reentrant=False)
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(Refused) as refused:
        Candidate(call, "it").forward([x])
    assert _autograd._top_saved_tensors_default_hooks(True) is None
    with saved_tensors_hooks(lambda y: y, lambda y: 2 * y):
        del refused
        gc.collect()
        y = x.sin()
    assert torch.equal(y.grad_fn._saved_self, 2 * x)


def test_a_candidate_that_refuses_is_unsupported_but_not_excused():
    row = judged(_refuses, SQUARE, "forward")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, False)
    assert row.reason.startswith("NotImplementedError: no kernel for this; it must run: ")
    assert not row.passed


def test_a_refusal_that_is_listed():
    row = judged(_refuses, SQUARE, "forward", limits={"forward": "no kernel yet"})
    assert (row.verdict, row.listed, row.declared, row.reason) == (Verdict.UNSUPPORTED, True, False, "no kernel yet")


def test_nothing_but_refusals_is_not_agreement():
    report = crosscheck(_refuses, SQUARE, checks=["forward"], limits={"forward": "no kernel yet"})
    assert not report.passed
    assert report.exit_code == 2


def test_a_limit_that_was_lifted_is_an_error():
    row = judged(torch.square, SQUARE, "vjp", limits={"vjp": "not yet"})
    assert row.verdict is Verdict.MISMATCH
    assert row.reason == "listed as a limit (not yet), but it passes: unlist it"


def test_a_listed_mismatch_says_what_was_found():
    row = judged(unary_function(torch.square, lambda x, g: x * g), SQUARE, "vjp", limits={"vjp": "factor"})
    assert (row.verdict, row.listed, row.failure) == (Verdict.UNSUPPORTED, True, None)
    assert row.reason == "factor (found: MISMATCH)"


def test_limits_replace_what_is_declared():
    """`limits` is the whole list: a missing jvp that it does not name is a failure."""
    report = crosscheck(
        Square.apply, SQUARE, checks=["vjp", "jvp", "vmap"], limits={"vmap": "no rule"}, dtypes=["float64"]
    )
    assert {row.check: row.passed for row in rows(report)} == {"vjp": True, "jvp": False, "vmap": True}


# What PyTorch lacks.

HUBER = OpSpec(
    "huber",
    primal=lambda x, y: jnp.where(jnp.abs(x - y) < 1, 0.5 * (x - y) ** 2, jnp.abs(x - y) - 0.5),
    inputs=(normal(4), normal(4, seed=1)),
)
INVERSE = OpSpec("inverse", primal=jnp.linalg.inv, inputs=(normal(3, 3),))
QUANTILE = OpSpec("quantile", primal=lambda x: jnp.quantile(x, 0.3, axis=-1), inputs=(normal(3, 5),))


def _quantile(x):
    return torch.quantile(x, 0.3, dim=-1)


LACKING = [
    pytest.param(
        lambda x, y: functional.huber_loss(x, y, reduction="none"),
        HUBER,
        "jvp_of_vjp",
        "float64",
        "Trying to use forward AD with huber_loss_backward that does not support it",
        id="forward mode of a gradient",
    ),
    pytest.param(torch.linalg.inv, INVERSE, "vjp", "bfloat16", "Low precision dtypes not supported", id="a format"),
    *(
        pytest.param(_quantile, QUANTILE, "vjp", dtype, "quantile() input tensor must be", id=f"a quantile in {dtype}")
        for dtype in ("bfloat16", "float16")
    ),
]


@fast("a quantile in float16")
@pytest.mark.parametrize(("call", "spec", "check", "dtype", "reason"), LACKING)
def test_what_pytorch_lacks_is_not_held_against_a_candidate(call, spec, check, dtype, reason):
    row = judged(call, spec, check, dtype)
    assert (row.verdict, row.listed, row.declared, row.limit_of) == (Verdict.UNSUPPORTED, True, False, "PyTorch")
    assert reason in row.reason
    assert crosscheck(call, spec, checks=["vjp", check], dtypes=["float64", dtype]).passed
    assert not crosscheck(call, spec, checks=["vjp", check], dtypes=["float64", dtype], limits={}).passed


@pytest.mark.parametrize("check", ["forward", "vjp"])
def test_a_format_that_is_refused_hides_no_mistake_in_another(check):
    report = crosscheck(lambda x: _quantile(x) + x[:, 0] / 1024, QUANTILE, checks=[check])
    verdicts = {row.dtype: row.verdict for row in rows(report)}
    assert verdicts["float64"] is verdicts["float32"] is Verdict.MISMATCH, report
    assert verdicts["bfloat16"] is verdicts["float16"] is Verdict.UNSUPPORTED, report


def test_an_operator_without_any_derivative_is_no_limit_of_pytorchs():
    row = judged(torch.ops.gradparity_tests.underived, SQUARE, "vjp")
    assert not row.passed
    assert row.verdict in (Verdict.UNSUPPORTED, Verdict.MISMATCH)


@torch.library.custom_op("gradparity_tests::underived", mutates_args=())
def _underived(x: torch.Tensor) -> torch.Tensor:
    return x * x


@pytest.mark.slow
def test_the_checkpoint_of_pytorchs_that_is_not_reentrant_is_right():
    report = crosscheck(lambda x: checkpoint(torch.square, x, use_reentrant=False), SQUARE, dtypes=["float64"])
    assert report.passed
    (row,) = [row for row in rows(report) if row.check == "vjp_of_jvp"]
    assert row.reason.startswith("goes through torch.utils.checkpoint, which runs the forward again without tangents")


def test_an_error_of_pytorchs_is_no_refusal_of_grad():
    call = unary_function(torch.square, lambda x, g: g.view(7))
    assert judged(call, SQUARE, "vjp").verdict is Verdict.MISMATCH
