"""A report says first that values and first derivatives are right, where they are, whatever is wrong beyond."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import pytest
import torch
from torch.autograd.function import once_differentiable

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.checks import CHECKS as CHECKS_THEMSELVES
from parity_tests.harness.checks.explanations import to_do
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.names import MAPS
from parity_tests.harness.report.first_order import HIGHER_ORDER, right_to_first_order
from parity_tests.harness.report.results import ORACLE, Failure, Row, WrongResult
from parity_tests.suite.harness._ops import normal, rows, unary_function

SPEC = OpSpec("tanh_squared", primal=lambda x: jnp.tanh(x) ** 2, inputs=(normal(3, 4),))
RIGHT = "tanh_squared: mine is right to first order: forward"
CHECKS = ["forward", "vjp", "retain_graph", "vjp_of_vjp"]


class Saved(torch.autograd.Function):
    """Right to first order: it saves an intermediate, as kernels of norms do."""

    @staticmethod
    def forward(ctx, x):
        t = torch.tanh(x)
        ctx.save_for_backward(t)
        return t * t

    @staticmethod
    def backward(ctx, *cotangents):
        (t,) = ctx.saved_tensors
        return 2 * t * (1 - t * t) * cotangents[0]


class Wrong(Saved):
    @staticmethod
    def backward(ctx, *cotangents):
        (t,) = ctx.saved_tensors
        return 2 * t * (1 - t) * cotangents[0]


class WrongAtZero(Saved):
    @staticmethod
    def backward(ctx, *cotangents):
        return Saved.backward(ctx, *cotangents) + cotangents[0]


class Once(Saved):
    backward = staticmethod(once_differentiable(Saved.backward))


def _report(call, checks=CHECKS, **options) -> Report:
    return crosscheck(call, SPEC, checks=checks, dtypes=["float64"], name="mine", **options)


def test_first_order_is_told_before_what_is_wrong_beyond():
    report = _report(Saved.apply)
    lines = str(report).splitlines()
    (start,) = [i for i, line in enumerate(lines) if line.startswith(RIGHT)]
    assert lines[start] == f"{RIGHT}, vjp and 1 other checks agree"
    assert lines[start + 1].startswith("tanh_squared: mine is silently wrong in second order   [vjp_of_vjp, ")
    assert "  Saved  saves an intermediate of shape (3, 4), which is a constant to autograd in second order" in lines
    (step,) = [line for line in lines if line.startswith("  to do   ")]
    assert "@once_differentiable (of torch.autograd.function)" in step
    assert step.endswith("; gradparity explain vjp_of_vjp")
    assert "First order agrees, second order does not: 1 of " in str(report)
    assert (report.passed, report.exit_code) == (False, 1)
    (record,) = report.as_dict()["summary"]
    assert (record["verdict"], record["right_to_first_order"]) == ("MISMATCH", True)


def test_the_remedy_passes():
    report = _report(Once.apply)
    assert report.passed
    assert "right to first order" not in str(report)  # nothing is wrong beyond
    (record,) = report.as_dict()["summary"]
    assert (record["verdict"], record["right_to_first_order"]) == ("PASS", True)


def test_what_is_wrong_to_first_order_is_not_called_right():
    report = _report(Wrong.apply)
    assert "right to first order" not in str(report)
    assert "First order agrees" not in str(report)
    assert "mine disagrees with the oracle   [vjp, " in str(report)
    (record,) = report.as_dict()["summary"]
    assert (record["verdict"], record["right_to_first_order"]) == ("MISMATCH", False)


def test_a_gradient_must_have_been_judged():
    assert "right to first order" not in str(_report(Saved.apply, ["forward", "vjp_of_vjp"]))
    assert "right to first order" not in str(_report(Saved.apply, ["vjp", "vjp_of_vjp"]))


def test_an_exception_of_second_order_is_not_silent():
    def backward(x, g):
        if torch.is_grad_enabled():
            raise ValueError("not now")
        t = torch.tanh(x)
        return 2 * t * (1 - t * t) * g

    text = str(_report(unary_function(lambda x: torch.tanh(x) ** 2, backward)))
    assert RIGHT in text
    assert "tanh_squared: mine fails in second order   [vjp_of_vjp, " in text
    assert "silently" not in text
    assert "  to do   fix what raises; " in text
    assert 'limits = {"vjp_of_vjp": "why"}; gradparity explain vjp_of_vjp' in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "is_right"), [(Saved.apply, True), (WrongAtZero.apply, False)], ids=["saved", "wrong"]
)
def test_checks_of_both_orders_say_which_is_wrong(call, is_right):
    """`exact` compares double backwards at small integers, too: 2 is right at 0, where a saved tanh gives 0."""
    spec = dataclasses.replace(SPEC, inputs=None, signature="(n)->(n)")
    report = crosscheck(call, spec, checks=["forward", "vjp", "exact"], dtypes=["float64"], name="mine")
    (row,) = [row for row in rows(report) if row.check == "exact"]
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.beyond_first_order is is_right
    assert (RIGHT in str(report)) is is_right


def test_the_oracle_itself_is_told_what_to_do_about_its_derivatives():
    spec = dataclasses.replace(SPEC, vjp=lambda x, g: (x * g,))
    text = str(crosscheck(lambda x: torch.tanh(x) ** 2, spec, checks=["vjp"], dtypes=["float64"]))
    assert "oracle disagrees with its own certificate" in text
    assert "  to do   fix OpSpec(vjp=, jvp=) if they are given; " in text
    assert "gradparity explain" not in text


@pytest.mark.parametrize("check", CHECKS_THEMSELVES.values(), ids=lambda check: check.name)
def test_each_check_has_a_remedy_of_one_line(check):
    text = to_do(check, "torch", is_wrong=True)
    assert 15 <= len(text) <= 240, text
    assert not set("\n`") & set(text)
    assert not text.endswith(".")


def test_a_candidate_in_jax_has_the_remedies_that_are_not_about_pytorch():
    assert to_do(CHECKS_THEMSELVES["vjp"], "jax", is_wrong=True).startswith("Correct the factor or the term")
    assert to_do(CHECKS_THEMSELVES["jvp_of_vjp"], "jax", is_wrong=True) == ""


# Of rows that are made up.

WRONG = (WrongResult("x_bar", "1/1 entries wrong", (), (0,), 1.0, 2.0, 1.0, 1e-9),)


def _row(check: str, verdict: Verdict = Verdict.PASS, candidate: str = "mine", beyond: bool = False) -> Row:
    failure = None
    if verdict is Verdict.MISMATCH:
        failure = Failure("op", candidate, check, "float64", "cpu", "s", "", {}, 0, WRONG, beyond_first_order=beyond)
    return Row("op", candidate, check, "float64", "cpu", verdict, 0.0, 3, failure=failure)


AGREE = [_row("forward"), _row("vjp"), _row("vjp_of_vjp", Verdict.MISMATCH, beyond=True)]


@pytest.mark.parametrize(
    ("more", "is_right"),
    [
        ([], True),
        ([_row("functorch", Verdict.MISMATCH, beyond=True)], True),
        ([_row("functorch", Verdict.MISMATCH)], False),
        ([_row("layouts", Verdict.MISMATCH)], False),
        ([_row("vjp", Verdict.SUSPECT)], False),
        ([_row("points", Verdict.UNRESOLVED)], False),
        ([_row("purity", Verdict.ERROR)], False),
        ([_row("jvp", Verdict.UNSUPPORTED)], False),
        ([_row("jvp_of_vjp", Verdict.UNRESOLVED)], True),
        ([_row("jvp", Verdict.SKIPPED)], True),
    ],
)
def test_whatever_fails_must_be_of_a_higher_order(more, is_right):
    report = Report({}, [*AGREE, *more])
    assert bool(right_to_first_order(report)) is is_right
    assert ("First order agrees, second order does not: " in str(report)) is is_right


def test_a_run_that_ended_early_says_nothing():
    assert not right_to_first_order(Report({}, list(AGREE), error="interrupted"))


@pytest.mark.parametrize("other", [_row("vjp", Verdict.MISMATCH, "other"), _row("vjp", Verdict.UNRESOLVED, ORACLE)])
def test_the_last_line_is_about_every_candidate(other):
    text = str(Report({}, [*AGREE, other]))
    assert "op: mine is right to first order: forward and vjp agree" in text
    assert "First order agrees" not in text


def test_the_checks_of_a_higher_order_are_those_of_its_maps():
    alone = {check for check, maps in MAPS.items() if maps and all(len(ORDERS[name]) > 1 for name in maps)}
    assert alone | {"points_second_order"} == HIGHER_ORDER  # which differentiates the VJP, and does not judge it
