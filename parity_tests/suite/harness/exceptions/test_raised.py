"""An exception out of the candidate is a disagreement, and told as one; those of the oracle and the harness are not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import torch
from torch.nn import functional

from parity_tests import JaxCandidate, OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import Check
from parity_tests.harness.crosscheck import select_precisions
from parity_tests.harness.exceptions.errors import circumstance_of, place_of, under
from parity_tests.harness.findings import Fact
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.oracle import kinks
from parity_tests.harness.report.results import Row
from parity_tests.suite.harness._ops import (
    MADE_PAIR,
    PAIR,
    SQUARE,
    pair_backward,
    pair_function,
    pair_jvp,
    rows,
    unary_function,
)
from parity_tests.suite.marks import fast

SMALL_PAIR = OpSpec("pair", MADE_PAIR.primal, "(3),(3)->(3),(3)", output_names=("first", "second"))
MATRIX = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)")


def only_row(call, spec: OpSpec, check: str, **options) -> Row:
    (row,) = rows(crosscheck(call, spec, checks=[check], dtypes=["float64"], **options))
    return row


def the_failure(call, spec: OpSpec, check: str, **options):
    report = crosscheck(call, spec, checks=[check], dtypes=["float64"], **options)
    assert report.exit_code == 1, str(report)
    (failure,) = report.failures
    return failure, str(report)


# What is told: the map, the circumstance, the exception, and the candidate's own line.


def _takes_no_none(x, y, g, h):
    if g is None or h is None:
        raise ValueError("both cotangents are needed")
    return pair_backward(x, y, g, h)


def _uses_none(x, y, g, h):
    return functional.relu(g), functional.relu(h)  # which raises in PyTorch's file, not here


def keeping_none(backward):
    made = pair_function()

    class KeepsNone(made):
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, *cotangents):
            return backward(*ctx.saved_tensors, *cotangents)

    return KeepsNone.apply


def test_a_backward_that_takes_no_absent_cotangent():
    failure, text = the_failure(keeping_none(_takes_no_none), PAIR, "vjp_partial")
    (wrong,) = failure.wrong
    assert (wrong.label, wrong.circumstance) == ("vjp", "only the cotangent of first is defined")
    assert wrong.pattern.startswith("raises ValueError: both cotangents are needed (at test_raised.py:")
    assert wrong.pattern.endswith(", in _takes_no_none)")
    assert f"  vjp  ({wrong.circumstance})  {wrong.pattern}\n" in text


def test_the_line_is_the_candidates_own():
    """PyTorch's relu raises; the line that calls it is the one to look at."""
    failure, _ = the_failure(keeping_none(_uses_none), PAIR, "vjp_partial")
    assert ", in _uses_none)" in failure.wrong[0].pattern
    assert "(at test_raised.py:" in failure.wrong[0].pattern


def test_an_operator_of_pytorchs_alone_has_no_line_of_its_own():
    spec = OpSpec("same", primal=lambda x: x, signature="(n)->(n)")
    failure, _ = the_failure(torch.cholesky_inverse, spec, "forward")
    assert failure.wrong[0].pattern.startswith("raises RuntimeError: ")
    assert "(at torch_candidate.py:" in failure.wrong[0].pattern


@pytest.mark.parametrize(
    ("call", "check", "label", "circumstance"),
    [
        pytest.param(lambda x: 1 / 0, "forward", "forward", "", id="forward"),
        pytest.param(unary_function(torch.square, lambda x, g: 1 / 0), "vjp", "vjp", "", id="vjp"),
        pytest.param(
            unary_function(torch.square, lambda x, g: 2 * x * g if g.is_contiguous() else 1 / 0),
            "layouts",
            "vjp",
            "cotangents transposed",
            id="a layout",
        ),
        pytest.param(
            unary_function(torch.square, lambda x, g: 2 * x * g if x.any() else 1 / 0),
            "points",
            "vjp",
            "x is 0",
            id="a point",
        ),
        pytest.param(
            unary_function(torch.square, lambda x, g: 2 * x * g if g.abs().max() < 16 else 1 / 0),
            "linearity",
            "vjp",
            "the cotangents times -2^10, against the gradient times -2^10",
            id="a scale",
        ),
    ],
)
def test_the_map_and_the_circumstance(call, check, label, circumstance):
    failure, _ = the_failure(call, MATRIX, check)
    assert [(wrong.label, wrong.circumstance) for wrong in failure.wrong] == [(label, circumstance)]
    assert "raises ZeroDivisionError: division by zero (at test_raised.py:" in failure.wrong[0].pattern


def test_a_jvp_that_takes_no_absent_tangent():
    def jvp(x, y, x_dot, y_dot):
        if x_dot is None or not y_dot.any():
            raise KeyError("y_dot")
        return pair_jvp(x, y, x_dot, y_dot)

    failure, _ = the_failure(pair_function(jvp=jvp).apply, PAIR, "jvp")
    assert failure.wrong[0].label == "jvp"
    assert failure.wrong[0].circumstance == "only the tangent of x is defined"
    assert failure.wrong[0].pattern.startswith("raises KeyError: 'y_dot' (at test_raised.py:")


class WrongRule(torch.autograd.Function):
    """Its vmap rule raises where the input is batched along the last axis."""

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        return 2 * ctx.saved_tensors[0] * cotangents[0]

    @staticmethod
    def vmap(info, in_dims, x):
        if in_dims[0] != 0:
            raise AssertionError("the batch must come first")
        return WrongRule.apply(x), 0


def test_a_vmap_rule():
    failure, _ = the_failure(WrongRule.apply, SQUARE, "vmap")
    (wrong,) = failure.wrong
    assert (wrong.label, wrong.circumstance) == ("vmap", "in_dims (-1,)")
    assert wrong.pattern.startswith("raises AssertionError: the batch must come first (at test_raised.py:")


def test_a_candidate_in_jax():
    @jax.custom_vjp
    def square(x):
        return x * x

    def backward(x, g):
        raise ArithmeticError("no gradient today")

    square.defvjp(lambda x: (x * x, x), backward)
    failure, _ = the_failure(JaxCandidate(square), SQUARE, "vjp")
    (wrong,) = failure.wrong
    assert wrong.label == "vjp"
    assert wrong.pattern.startswith("raises ArithmeticError: no gradient today (at test_raised.py:")
    assert wrong.pattern.endswith(", in backward)")


def test_a_backward_of_a_graph_that_a_check_has_recorded():
    failure, _ = the_failure(unary_function(torch.square, lambda x, g: 1 / 0), SQUARE, "purity")
    assert failure.wrong[0].label == "vjp"
    assert failure.wrong[0].pattern.startswith("raises ZeroDivisionError")


def test_what_was_found_before_it_raised_is_told_too():
    def backward(x, y, g, h):
        if g is None or h is None:
            raise ValueError("both cotangents are needed")
        x_bar, y_bar = pair_backward(x, y, g, h)
        return x_bar, 2 * y_bar

    class Doubled(pair_function()):
        @staticmethod
        def backward(ctx, g, h):
            if not h.any():
                raise ValueError("no h")
            return backward(*ctx.saved_tensors, g, h)

    failure, _ = the_failure(Doubled.apply, PAIR, "linearity")
    labels = {wrong.label for wrong in failure.wrong}
    assert "y_bar" in labels


# Later samples still run: where it does not raise, it may be silently wrong.


def test_raises_at_most_sizes_and_is_silently_wrong_at_one():
    def backward(x, g):
        if x.shape[1] != 1:
            raise RuntimeError("m must be 1")
        return x * g

    failure, text = the_failure(unary_function(torch.square, backward), MATRIX, "vjp")
    assert failure.sample == "one_m"
    number, exception = failure.wrong
    assert (number.label, number.looks_like) == ("x_bar", "x_bar = 0.5 * oracle")
    assert (exception.label, exception.circumstance) == ("vjp", "at all_axes_differ (n=4, m=3)")
    assert exception.pattern.startswith("raises RuntimeError: m must be 1 (at ")
    assert "  vjp  (at all_axes_differ (n=4, m=3))  raises RuntimeError: m must be 1" in text


def test_raises_everywhere_else_and_is_right_at_one():
    def backward(x, g):
        if x.shape[1] != 1:
            raise RuntimeError("m must be 1")
        return 2 * x * g

    failure, _ = the_failure(unary_function(torch.square, backward), MATRIX, "vjp")
    assert failure.sample == "all_axes_differ"
    assert [wrong.label for wrong in failure.wrong] == ["vjp"]


def test_a_limit_excuses_an_exception_as_any_disagreement():
    row = only_row(unary_function(torch.square, lambda x, g: 1 / 0), SQUARE, "vjp", limits={"vjp": "not yet"})
    assert (row.verdict, row.listed, row.reason) == (Verdict.UNSUPPORTED, True, "not yet (found: MISMATCH)")


# An empty axis may be refused, in a derivative as in the forward.


def _reshapes(x, g):
    d = x.shape[-1]
    return (2 * x * g).reshape(-1, d).reshape(x.shape)  # PyTorch: "ambiguous" where d = 0


@pytest.mark.parametrize("check", ["vjp", "linearity", "retain_graph", "vjp_of_vjp"])
def test_a_backward_may_refuse_an_empty_axis(check):
    report = crosscheck(unary_function(torch.square, _reshapes), MATRIX, checks=["vjp", check], dtypes=["float64"])
    assert report.passed, str(report)
    (line,) = report.skipped
    assert line.startswith("square, sample zero_m: Unary refuses an empty axis in vjp: cannot reshape tensor of 0")


def _asserts(x, g):
    assert x.numel() > 0, "no entries"
    return 2 * x * g


def _divides(x, g):
    return 2 * x * g * (x.numel() // x.shape[1] // x.shape[0])


@pytest.mark.parametrize(("backward", "words"), [(_asserts, "no entries"), (_divides, "division")])
@pytest.mark.parametrize("forward", [torch.square, None], ids=["in the backward", "in the forward"])
def test_an_assertion_or_a_division_refuses_an_empty_axis(forward, backward, words):
    call = unary_function(forward or (lambda x: backward(x, x) / 2), backward)
    report = crosscheck(call, MATRIX, checks=["vjp"], dtypes=["float64"])
    assert report.passed, str(report)
    assert {line.partition(":")[0] for line in report.skipped} == {"square, sample zero_m", "square, sample zero_n"}
    assert all(words in line for line in report.skipped)


@pytest.mark.parametrize("backward", [_asserts, _divides])
def test_where_no_axis_is_empty_they_refuse_nothing(backward):
    call = unary_function(torch.square, lambda x, g: backward(x[:, :0] if len(x) > 40 else x, g))
    assert not crosscheck(call, MATRIX, checks=["vjp"], dtypes=["float64"]).passed


@pytest.mark.slow
def test_the_same_refusal_is_told_once():
    report = crosscheck(unary_function(torch.square, _reshapes), MATRIX, checks=["vjp", "vjp_of_vjp", "purity"])
    assert report.passed, str(report)
    assert len(report.skipped) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda x, g: 2 * x * g if x.numel() else {}["g"], id="another exception"),
        pytest.param(lambda x, g: 2 * x * g if x.numel() else torch.ones(1, 1, 1), id="a shape"),
    ],
)
def test_what_is_wrong_at_an_empty_axis_is_no_refusal(wrong):
    failure, _ = the_failure(unary_function(torch.square, wrong), MATRIX, "vjp")
    assert failure.sample.startswith("zero_")


def test_a_number_that_is_wrong_at_an_empty_axis():
    """The gradient with respect to what is not empty is zero there; a candidate has it wrong."""
    spec = OpSpec("scaled sum", primal=lambda x, y: (x * y).sum(), signature="(n),()->()")

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return (x * y).sum()

        @staticmethod
        def backward(ctx, *cotangents):
            x, y = ctx.saved_tensors
            g = cotangents[0]
            return y * g * torch.ones_like(x), g * (x.sum() if len(x) else torch.ones_like(y))

    failure, _ = the_failure(Scaled.apply, spec, "vjp")
    assert failure.sample == "zero_n"
    assert failure.wrong[0].label == "y_bar"


def test_one_refusal_elsewhere_is_a_failure():
    def backward(x, g):
        if 1 in x.shape:
            raise ValueError("an axis of size 1")
        return 2 * x * g

    failure, _ = the_failure(unary_function(torch.square, backward), MATRIX, "vjp")
    assert failure.sample == "one_n"


# What the oracle, the spec or the harness raises is not held against the candidate.


def judged_by(run) -> Report:
    plan = Plan(
        MATRIX,
        [Candidate(torch.square, "square")],
        [Check("made_up", "nothing", (), run)],
        select_precisions(["float64"]),
        "cpu",
        0,
        lambda row: "",
    )
    report = Report({})
    for _ in report.collect(judge(plan)):
        pass
    return report


def _harness_fails(trial):
    yield Fact("x", True, "")
    raise IndexError("a defect of the check")


def _harness_fails_on_a_result(trial):
    trial.evaluate("forward", trial.primals)
    torch.add(torch.zeros(2), torch.zeros(3))  # raised by PyTorch, called by the check
    yield


@pytest.mark.parametrize("run", [_harness_fails, _harness_fails_on_a_result])
def test_a_defect_of_the_harness_is_an_error(run):
    report = judged_by(run)
    (row,) = report.rows
    assert (row.verdict, row.failure, report.exit_code) == (Verdict.ERROR, None, 2)
    assert "[all_axes_differ (n=4, m=3)]" in row.reason


def test_a_disagreement_at_another_sample_counts_more_than_an_error():
    def run(trial):
        if trial.sample.generic:
            raise IndexError("a defect of the check")
        yield Fact("x", False, "is wrong")

    report = judged_by(run)
    assert report.rows[0].verdict is Verdict.MISMATCH
    assert report.exit_code == 1


def test_a_formula_of_the_spec_that_takes_no_none():
    def vjp(x, y, g, h):
        t = jnp.tanh(x)
        return (1 - t * t) * y * g + y * y * h, t * g + 2 * x * y * h

    spec = OpSpec("pair", MADE_PAIR.primal, "(n),(n)->(n),(n)", vjp=vjp, output_names=("first", "second"))
    report = crosscheck(pair_function().apply, spec, checks=["vjp", "vjp_partial"], dtypes=["float64"])
    right, partial = rows(report)
    assert right.verdict is Verdict.PASS
    assert (partial.verdict, report.exit_code) == (Verdict.UNRESOLVED, 2)
    assert partial.reason.startswith("pair: the oracle's formula vjp (OpSpec(vjp=...)) raises TypeError: ")
    assert "(at test_raised.py:" in partial.reason
    assert partial.reason.endswith("where second_bar is None; let it take None for what is exactly zero")


def test_an_oracle_that_raises_at_an_empty_axis_only_is_not_asked_there():
    def jvp(x, x_dot):
        if 0 in x.shape:
            raise ZeroDivisionError("no such thing")
        return 2 * x * x_dot

    spec = OpSpec("square", MATRIX.primal, "(n,m)->(n,m)", jvp=jvp)
    report = crosscheck(torch.square, spec, checks=["forward", "vjp", "jvp"], dtypes=["float64"])
    assert report.passed, str(report)
    assert any("sample zero_n" in line and "ZeroDivisionError: no such thing" in line for line in report.skipped)


@pytest.mark.parametrize(("entries", "verdict"), [(0, Verdict.PASS), (12, Verdict.ERROR)])
def test_an_error_in_any_part_of_the_oracle(monkeypatch, entries, verdict):
    """At an empty axis the oracle has no derivative then, and a note says so. At other sizes it is an error."""
    in_question = kinks._in_question

    def fails(point, comparison):
        if comparison.oracle.size == entries:
            raise ZeroDivisionError("no such thing")
        return in_question(point, comparison)

    monkeypatch.setattr(kinks, "_in_question", fails)
    report = crosscheck(torch.square, MATRIX, checks=["vjp"], dtypes=["float64"])
    assert [row.verdict for row in rows(report)] == [verdict], str(report)
    noted = any("the oracle has no derivative there: ZeroDivisionError" in line for line in report.skipped)
    assert noted == (entries == 0), str(report)


@fast("too few-*")
@pytest.mark.parametrize("check", ["exact", "purity", "fake", "autocast", "linearity", "saved_tensors", "vjp_of_jvp"])
@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda x, y: torch.tanh(x) * y, id="too few"),
        pytest.param(lambda x, y: (torch.tanh(x) * y, x * y * y, x), id="too many"),
    ],
)
def test_a_wrong_number_of_outputs_is_no_error_of_the_harness(call, check):
    failure, _ = the_failure(call, SMALL_PAIR, check)
    assert failure.wrong[-1].pattern.endswith(" outputs, expected 2")


def test_integers_for_outputs_are_no_error_of_the_harness():
    """The check fills outputs with NaN, which integers have not."""
    failure, _ = the_failure(lambda x, y: (torch.tanh(x) * y, (x * y * y).int()), SMALL_PAIR, "saved_tensors")
    assert {wrong.label for wrong in failure.wrong} == {"x_bar", "y_bar"}


# The parts.


def test_the_innermost_circumstance_is_kept():
    with pytest.raises(KeyError) as caught, under("outer"), under("inner"):
        raise KeyError
    assert circumstance_of(caught.value) == "inner"
    assert circumstance_of(ValueError()) == ""


def test_an_exception_that_was_never_raised_has_no_place():
    assert place_of(ValueError("here")) == ""
