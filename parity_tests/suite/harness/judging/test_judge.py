"""Verdicts: what passes, what does not, what does not apply; and what a failure is said to look like."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Candidate, Refused
from parity_tests.harness.checks import Check
from parity_tests.harness.crosscheck import select_precisions
from parity_tests.harness.findings import Fact, NotApplicable
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Row
from parity_tests.harness.specs.domains import integer
from parity_tests.suite.harness._ops import (
    PAIR,
    SQUARE,
    judged,
    normal,
    pair,
    pair_backward,
    pair_function,
    rows,
    unary_function,
)

pytestmark = pytest.mark.usefixtures("certified_once")


def wrong_square(backward: Callable) -> Callable:
    return unary_function(lambda x: x * x, backward)


def test_pass():
    row = judged(torch.square, SQUARE, "vjp", "float32")
    assert (row.verdict, row.comparisons, row.reason, row.failure) == (Verdict.PASS, 9, "", None)
    assert 0 <= row.error_over_bound <= 1
    assert row.seconds > 0


def test_mismatch_says_what_and_where():
    def backward(x, g):
        spoilt = 2 * x * g
        spoilt[1, 2] += 3
        return spoilt

    row = judged(wrong_square(backward), SQUARE, "vjp")
    assert row.verdict is Verdict.MISMATCH
    assert row.error_over_bound > 1e10
    assert row.failure is not None
    (wrong,) = row.failure.wrong
    assert (row.failure.op, row.failure.candidate, row.failure.check) == ("square", "Unary", "vjp")
    assert (row.failure.dtype, row.failure.device, row.failure.sample, row.failure.seed) == (
        "float64",
        "cpu",
        "given",
        0,
    )
    assert (wrong.label, wrong.index) == ("x_bar", (1, 2))
    assert wrong.pattern == "1/9 entries wrong, all in rows 1 of 3"
    assert wrong.candidate is not None
    assert wrong.oracle is not None
    assert wrong.candidate - wrong.oracle == pytest.approx(3)
    assert wrong.error == pytest.approx(3)
    assert wrong.allowed is not None
    assert 0 < wrong.allowed < 1e-13
    assert row.failure.judge == "Taylor rate in float64: oracle 2.00, candidate 1.00 -> the oracle is right"
    assert row.failure.replay is not None


def test_the_results_that_agree_are_named():
    wrong = pair_function(backward=lambda x, y, g, h: (pair_backward(x, y, g, h)[0], 2 * x * y * h))
    failure = judged(wrong.apply, PAIR, "vjp").failure
    assert failure is not None
    assert [result.label for result in failure.wrong] == ["y_bar"]
    (agrees,) = failure.agrees
    assert agrees.startswith("x_bar (")
    assert agrees.endswith(" of its bound)")


def test_the_equation_of_a_result_is_cited():
    spec = OpSpec("square", primal=lambda x: x * x, inputs=SQUARE.inputs, equations={"x_bar": "equation (7)"})
    failure = judged(wrong_square(lambda x, g: x * g), spec, "vjp").failure
    assert failure is not None
    assert failure.wrong[0].equation == "equation (7)"


# What it looks like.

SCALED = OpSpec("scaled", primal=lambda x, y: (x * y, jnp.sin(x) * y), inputs=(normal(3, 3), normal(3, 3, seed=1)))


class _Scaled(torch.autograd.Function):
    change: Callable

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, torch.sin(x) * y

    @classmethod
    def made(cls, change: Callable) -> Callable:
        def backward(ctx, *cotangents):
            g, h = cotangents
            x, y = ctx.saved_tensors
            x_bar, y_bar = y * g + torch.cos(x) * y * h, x * g + torch.sin(x) * h
            return change(x, y, g, h, x_bar, y_bar)

        return type("Scaled", (cls,), {"backward": staticmethod(backward)}).apply


def looks(change: Callable) -> dict[str, str | None]:
    failure = judged(_Scaled.made(change), SCALED, "vjp").failure
    assert failure is not None
    return {wrong.label: wrong.looks_like for wrong in failure.wrong}


def _bump(x: torch.Tensor, by: float = 1e-3) -> torch.Tensor:
    x = x.clone()
    x[0, 1] += by
    return x


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(lambda x, y, g, h, a, b: (a / 2, b), "x_bar = 0.5 * oracle", id="factor"),
        pytest.param(lambda x, y, g, h, a, b: (-3 * a, b), "x_bar = -3 * oracle", id="negative factor"),
        pytest.param(lambda x, y, g, h, a, b: (-a, b), "x_bar = -oracle (the sign)", id="sign"),
        pytest.param(lambda x, y, g, h, a, b: (0 * a, b), "x_bar = 0", id="zero"),
        pytest.param(
            lambda x, y, g, h, a, b: (None, b),
            "x_bar = 0: the candidate returns None for it; an input that has no gradient is declared constant: "
            'constants=["x"] of OpSpec',
            id="none",
        ),
        pytest.param(lambda x, y, g, h, a, b: (a.T, b), "x_bar = the oracle's, transposed", id="transposed"),
        pytest.param(lambda x, y, g, h, a, b: (b, b), "x_bar = the oracle's y_bar", id="another input's"),
        pytest.param(
            lambda x, y, g, h, a, b: (y * g, b), "x_bar ignores the cotangent of output1", id="second cotangent"
        ),
        pytest.param(
            lambda x, y, g, h, a, b: (torch.cos(x) * y * h, b),
            "x_bar ignores the cotangent of output0",
            id="first cotangent",
        ),
        pytest.param(
            lambda x, y, g, h, a, b: (_bump(a, float("nan")), b), "1 entries of x_bar are not finite", id="nan"
        ),
    ],
)
def test_a_failure_looks_like(change, text):
    assert looks(change) == {"x_bar": text}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda x, y, g, h, a, b: (_bump(a / 2), b), id="factor"),
        pytest.param(lambda x, y, g, h, a, b: (_bump(-a), b), id="sign"),
        pytest.param(lambda x, y, g, h, a, b: (_bump(0 * a), b), id="zero"),
        pytest.param(lambda x, y, g, h, a, b: (_bump(a.T), b), id="transposed"),
        pytest.param(lambda x, y, g, h, a, b: (_bump(b), b), id="another input's"),
        pytest.param(lambda x, y, g, h, a, b: (_bump(y * g), b), id="second cotangent"),
        pytest.param(lambda x, y, g, h, a, b: (a + 1, b), id="something added"),
    ],
)
def test_what_nearly_fits_is_not_said(change):
    assert looks(change) == {"x_bar": None}


def test_swapped_gradients_are_each_others():
    assert looks(lambda x, y, g, h, a, b: (b, a)) == {
        "x_bar": "x_bar = the oracle's y_bar",
        "y_bar": "y_bar = the oracle's x_bar",
    }


# What does not apply.


def judged_by(run, limits=None) -> Row:
    """The one row of a check that is made for the purpose."""
    plan = Plan(
        SQUARE,
        [Candidate(torch.square, "square", limits)],
        [Check("made_up", "nothing", (), run)],
        select_precisions(["float64"]),
        "cpu",
        0,
        lambda row: "",
    )
    (row,) = Report({}).collect(judge(plan))
    return row


def _does_not_apply(trial):
    raise NotApplicable("not an operator")
    yield


def test_a_check_that_does_not_apply_is_skipped_with_its_reason():
    row = judged_by(_does_not_apply)
    assert (row.verdict, row.reason, row.comparisons, row.passed) == (Verdict.SKIPPED, "not an operator", 0, True)
    assert judged_by(_does_not_apply, {"made_up": "a limit"}).verdict is Verdict.SKIPPED


def test_a_check_that_ran_is_not_skipped():
    """A check that applies and compares nothing is no more excused than it was."""
    assert judged_by(lambda trial: iter(())).verdict is Verdict.UNRESOLVED


def test_what_is_wrong_is_not_excused_by_a_later_refusal():
    def run(trial):
        yield Fact("x", False, "is wrong")
        raise Refused("no more", Reason.NO_JVP)

    assert judged_by(run).verdict is Verdict.MISMATCH


# Samples at which the operator is not defined.


def test_an_operator_without_a_value_on_an_empty_axis():
    spec = OpSpec("peak", primal=lambda x: x.max(0), signature="(n,m)->(m)")
    report = crosscheck(lambda x: x.amax(0), spec, checks=["forward", "vjp"], dtypes=["float64"])
    assert report.passed, str(report)
    (line,) = report.skipped
    assert line.startswith("peak, sample zero_n: peak: primal fails on inputs of shapes (0, 3): ")


def test_an_operator_with_constants_without_a_value_on_an_empty_axis():
    domains = {"i": integer(0, 3)}
    spec = OpSpec("first", primal=lambda x, i: x[:, 0] * i, signature="(n,d),(n)->(n)", domains=domains)
    report = crosscheck(lambda x, i: x[:, 0] * i, spec, checks=["forward", "vjp"], dtypes=["float64"])
    assert report.passed, str(report)
    (line,) = report.skipped
    assert line.startswith("first, sample zero_d: first: primal fails on inputs of shapes (4, 0): IndexError")


def test_an_operator_whose_value_on_an_empty_axis_is_not_finite():
    spec = OpSpec("mean", primal=lambda x: x.mean(), signature="(n)->()")
    report = crosscheck(lambda x: x.mean(), spec, checks=["forward"], dtypes=["float64"])
    assert report.passed, str(report)
    assert report.skipped == ["mean, sample zero_n: the oracle's value there is not finite"]


def test_an_operator_that_is_defined_there_is_judged_there():
    spec = OpSpec("total", primal=lambda x: x.sum(0), signature="(n,m)->(m)")

    def total(x):
        return x.sum(0) if len(x) else x.sum(0) + 1

    report = crosscheck(total, spec, checks=["forward"], dtypes=["float64"])
    assert report.skipped == []
    (failure,) = report.failures
    assert failure.sample == "zero_n"


@pytest.mark.slow
def test_the_right_pair_passes_everything_but_nested_forward_mode():
    report = crosscheck(pair_function().apply, PAIR)
    assert report.passed, str(report)
    limits = {row.check for row in rows(report) if row.verdict is Verdict.UNSUPPORTED}
    assert limits == {"jvp_of_jvp"}
    assert crosscheck(pair, PAIR, limits={}, dtypes=["float32"]).passed


def test_a_sample_with_a_huge_intermediate_is_left_out_with_its_reason():
    spec = OpSpec("squares", lambda x, y: (x[:, None] * x[None, :]) @ y, "(n),(n)->(n)")
    report = crosscheck(lambda x, y: torch.outer(x, x) @ y, spec, checks=["vjp"], dtypes=["float64"])
    assert report.passed
    assert report.skipped == ["squares, sample many_n: an intermediate of the oracle has more than 2^20 entries"]


@torch.library.custom_op("gradparity_tests::scaled", mutates_args=())
def _scaled(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return 2 * w * x


@torch.library.custom_op("gradparity_tests::squared", mutates_args=())
def _squared(x: torch.Tensor) -> torch.Tensor:
    return x * x


_squared.register_autograd(
    lambda ctx, w: _scaled(w, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


def test_a_backward_by_an_operator_without_a_derivative_is_its_authors_limit_at_second_order_only():
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")
    for check in ("vjp_of_vjp", "exact"):
        (row,) = rows(crosscheck(_squared, spec, checks=[check], dtypes=["float64"]))
        assert row.passed, row.reason
    (row,) = rows(crosscheck(_squared, spec, checks=["vjp_of_vjp"], dtypes=["float64"]))
    assert row.reason == "its backward goes through an operator that has no derivative itself (register_autograd)"

    spec = OpSpec("scaled", primal=lambda w, x: 2 * w * x, signature="(n),(n)->(n)")
    (row,) = rows(crosscheck(_scaled, spec, checks=["vjp"], dtypes=["float64"]))
    assert row.verdict is Verdict.UNSUPPORTED
    assert not row.passed
    assert "no autograd formula was registered" in row.reason
