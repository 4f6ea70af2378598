"""A refusal excuses the checks that it is about, and no words of a candidate's own are PyTorch's."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates.reasons import (
    EVERY,
    FORWARD_MODE,
    REQUIRED,
    SECOND_ORDER,
    TORCH_FUNC,
    TRACED,
    Reason,
)
from parity_tests.harness.candidates.torch_refusals import Refused, refusal_of
from parity_tests.suite.harness._ops import SQUARE, Square, judged, normal, rows, unary_function
from parity_tests.suite.marks import fast, slow_after

WORDS = [
    "trying to differentiate twice a function that was marked with @once_differentiable",
    "derivative for aten::foo is not implemented",
    "the derivative for 'foo: self' is not implemented",
    "TODO: does not have vmap support yet",
    "You must implement the jvp function for custom autograd.Function to use it with forward mode AD.",
    "override the setup_context staticmethod",
    "\"foo\" not implemented for 'Half'",
    "\"foo\" not implemented for 'BFloat16'",
    "Low precision dtypes not supported",
    "Trying to use forward AD with foo that does not support it",
    "aot_autograd does not currently support double backward",
    "compiled with non-empty donated buffers",
    "no fake impl registered",
    "torch.func transforms don't yet support saved tensor hooks",
    "Cannot access data pointer of Tensor that doesn't have storage",
    "Batching rule not implemented for aten::foo",
    "could not find kernel for HigherOrderOperator foo",
    "InternalTorchDynamoError: no",
    "derivative for mine::foo is not implemented",
]


def _raise(words, kind=RuntimeError):
    raise kind(words)


def _through_torch_check(words):
    torch._check(False, lambda: words)


def _through_torch_check_type(words):
    torch._check_type(False, lambda: words)


def _through_another(words):
    try:
        _raise("hidden")
    except RuntimeError as error:
        raise TypeError(words) from error


def _through_text(words):
    exec("raise RuntimeError(words)")


def _thrown(words):
    def paused():
        yield

    running = paused()
    next(running)
    running.throw(RuntimeError(words))


WAYS = {
    "raise": _raise,
    "TypeError": lambda words: _raise(words, TypeError),
    "torch._check": _through_torch_check,
    "torch._check_type": _through_torch_check_type,
    "from another": _through_another,
    "exec": _through_text,
    "thrown": _thrown,
}


def _refusing(words, way=_raise):
    return unary_function(torch.square, lambda x, g: way(words))


@pytest.mark.parametrize("words", slow_after(6, WORDS))
def test_a_backward_that_only_raises_does_not_pass(words):
    report = crosscheck(_refusing(words), SQUARE, checks=["forward", "vjp", "vjp_partial", "purity", "vjp_of_vjp"])
    verdicts = {(row.check, row.verdict) for row in rows(report) if row.check != "forward"}
    assert {check for check, _ in verdicts} == {"vjp", "vjp_partial", "purity", "vjp_of_vjp"}
    assert {verdict for _, verdict in verdicts} == {Verdict.MISMATCH}, str(report)
    assert (report.passed, report.exit_code) == (False, 1)
    assert words in str(report)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("words", [WORDS[1], WORDS[3]], ids=["derivative", "vmap"])
def test_words_of_ones_own_are_not_pytorchs_however_they_are_raised(words, way):
    assert judged(_refusing(words, way), SQUARE, "vjp").verdict is Verdict.MISMATCH
    with pytest.raises((RuntimeError, TypeError)) as caught:
        way(words)
    assert refusal_of(caught.value) is None


class OwnRules(Square):
    """Its rules raise in PyTorch's words, in place of the rules that are missing."""

    generate_vmap_rule = False

    @staticmethod
    def jvp(ctx, *tangents):
        _raise("You must implement the jvp function for custom autograd.Function")

    @staticmethod
    def vmap(info, in_dims, x):
        _raise("does not have vmap support")


@pytest.mark.parametrize("check", ["jvp", "vmap"])
def test_a_rule_that_is_there_and_raises_was_not_left_out(check):
    assert judged(OwnRules.apply, SQUARE, check).verdict is Verdict.MISMATCH


class ByPyTorch(torch.autograd.Function):
    """A backward that goes through what PyTorch refuses, in its own words: of second order, of vmap, of a format."""

    @staticmethod
    def forward(ctx, x, refused):
        ctx.refused = refused
        return x * x

    @staticmethod
    def backward(ctx, *cotangents):
        ctx.refused()
        return 2 * cotangents[0], None


def _vmap_of_a_function():
    torch.func.vmap(Square.apply)(torch.ones(2, 2))


def _twice_of_a_derivative():
    x = torch.ones(3, 4, requires_grad=True)
    with torch.enable_grad():
        y = torch.ops.aten.glu_jvp(torch.ones(3, 2), x, torch.ones(3, 4), 1)
        torch.autograd.grad(y.sum(), x)


def _inverse_in_half():
    torch.linalg.inv(torch.eye(2, dtype=torch.float16))


@pytest.mark.parametrize("refused", [_vmap_of_a_function, _twice_of_a_derivative, _inverse_in_half])
def test_a_reason_excuses_no_check_that_it_is_not_about(refused):
    report = crosscheck(lambda x: ByPyTorch.apply(x, refused), SQUARE, checks=["forward", "vjp"], dtypes=["float64"])
    row = rows(report)[-1]
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, False)
    assert "no refusal excuses a first derivative: give it one" in row.reason
    assert (report.passed, report.exit_code) == (False, 1)


@pytest.mark.slow
def test_an_operator_of_pytorchs_without_a_derivative_does_not_pass():
    spec = OpSpec("relu", lambda b, x, w: jnp.maximum(x @ w + b, 0), inputs=(normal(2), normal(3, 4), normal(4, 2)))
    report = crosscheck(torch.ops.aten._addmm_activation, spec, dtypes=["float64", "float32"])
    assert (report.passed, report.exit_code) == (False, 1)
    assert {row.passed for row in rows(report) if row.check in ("vjp", "vjp_partial", "retain_graph")} == {False}
    assert next(row for row in rows(report) if row.check == "forward").verdict is Verdict.PASS
    assert "derivative for aten::_addmm_activation is not implemented" in str(report)


class NotInHalf(torch.autograd.Function):
    """The forward runs in every format, the backward in no format of 16 bits."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, *cotangents):
        (x,) = ctx.saved_tensors
        torch.linalg.inv(torch.eye(2, dtype=x.dtype))
        return 2 * x * cotangents[0]


def test_a_format_in_which_only_the_derivative_is_lacking_is_not_excused():
    report = crosscheck(NotInHalf.apply, SQUARE, checks=["forward", "vjp"])
    found = {(row.check, row.dtype): row.passed for row in rows(report)}
    assert {dtype for (check, dtype), passed in found.items() if not passed} == {"bfloat16", "float16"}
    assert {check for (check, _), passed in found.items() if not passed} == {"vjp"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_cast_to_a_format_that_pytorch_lacks_is_no_limit_elsewhere(dtype):
    """In these formats the operator exists; where it is cast to half precision is the candidate's choice."""
    row = judged(lambda x: torch.linalg.inv(x.half()).to(x.dtype) * 0 + x * x, SQUARE, "vjp", dtype)
    assert not row.passed, row


def test_an_author_who_refuses_is_told_what_to_do():
    def backward(x, g):
        raise NotImplementedError("only the forward is there")

    row = judged(unary_function(torch.square, backward), SQUARE, "vjp")
    assert (row.verdict, row.passed) == (Verdict.UNSUPPORTED, False)
    assert "no refusal excuses a first derivative" in row.reason

    class NoJvpYet(Square):
        @staticmethod
        def jvp(ctx, *tangents):
            raise NotImplementedError("not yet")

    row = judged(NoJvpYet.apply, SQUARE, "jvp")
    assert (row.verdict, row.passed) == (Verdict.UNSUPPORTED, False)
    assert row.reason == 'NotImplementedError: not yet; if it is meant, list it: limits = {"<check>": "why"}'


# A backward that PyTorch refuses to differentiate again.

RECORDED = {
    "writes in place to what its own derivative needs": (lambda x, g: (t := x * 2, t * g, t.zero_())[1]),
    "calls a function with out=": lambda x, g: torch.mul(2 * x, g, out=torch.empty_like(x)),
    "hands a tensor to NumPy": lambda x, g: torch.from_numpy(2 * x.detach().numpy() * g.numpy()),
}
AGAIN = ["vjp_of_vjp", "third_order"]


@pytest.mark.parametrize("what", RECORDED)
def test_a_backward_that_pytorch_refuses_to_differentiate_is_of_first_order(what):
    call = unary_function(torch.square, RECORDED[what])
    report = crosscheck(call, SQUARE, checks=["forward", "vjp", *AGAIN], dtypes=["float64"])
    verdicts = {row.check: (row.verdict, row.passed) for row in rows(report)}
    refused = Verdict.UNSUPPORTED, True
    assert verdicts == {"forward": (Verdict.PASS, True), "vjp": (Verdict.PASS, True)} | dict.fromkeys(AGAIN, refused)
    reason = f"its backward {what}, so that PyTorch refuses to differentiate it again; to declare that, mark it @once_"
    assert all(row.reason.startswith(reason) and row.limit_of == "the candidate" for row in rows(report)[2:])
    assert report.passed


def test_a_wrong_backward_is_not_excused_by_its_write():
    report = crosscheck(
        unary_function(torch.square, lambda x, g: (t := x * 1, t * g, t.zero_())[1]), SQUARE, checks=["vjp", *AGAIN]
    )
    assert {row.verdict for row in rows(report) if row.check == "vjp"} == {Verdict.MISMATCH}
    assert report.exit_code == 1


def test_a_write_that_is_refused_to_first_order_is_a_mistake():
    def written(x):
        y = torch.exp(x)
        z = y * y
        y.add_(1)
        return z * torch.exp(-2 * x) * x * x

    for check in ("vjp", *AGAIN):
        row = judged(written, SQUARE, check)
        assert row.verdict is Verdict.MISMATCH, check
        assert row.failure is not None
        assert "modified by an inplace operation" in row.failure.wrong[0].pattern


@pytest.mark.parametrize(
    "words", ["x has been modified by an inplace operation", "Can't call numpy() on Tensor that requires grad"]
)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@fast("raise-x has*", "from another-Can't*")
def test_words_of_ones_own_are_no_refusal_of_second_order(words, way):
    def backward(x, g):
        if torch.is_grad_enabled():
            way(words)
        return 2 * x * g

    call = unary_function(torch.square, backward)
    assert judged(call, SQUARE, "vjp").verdict is Verdict.PASS
    for check in AGAIN:
        row = judged(call, SQUARE, check)
        assert (row.verdict, row.passed) == (Verdict.MISMATCH, False), check


class WritesInPlace(Square):
    """Right to first order, in torch.func, too."""

    generate_vmap_rule = True

    @staticmethod
    def backward(ctx, *cotangents):
        (x,) = ctx.saved_tensors
        t = 2 * x
        x_bar = t * cotangents[0]
        t.zero_()
        return x_bar


class WritesWrongly(WritesInPlace):
    @staticmethod
    def backward(ctx, *cotangents):
        return WritesInPlace.backward(ctx, *cotangents) / 2


@pytest.mark.slow
def test_torch_func_refuses_what_autograd_does():
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")
    checks = ["functorch", "points_second_order"]
    report = crosscheck(WritesInPlace.apply, spec, checks=["vjp", *checks], dtypes=["float64"])
    assert report.passed, str(report)
    row = judged(WritesWrongly.apply, spec, "functorch")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.wrong[0].circumstance.startswith("vjp")


# The table.


def test_no_reason_excuses_values_or_gradients():
    excusing = {Reason.FORMAT, Reason.OUT_OF_REACH, Reason.BACKWARD_ONLY}  # see `reasons`
    about = {  # a reason that is about this very check
        Reason.DONATED_BUFFERS: {"retain_graph", "purity"},
        Reason.SAVED_TENSOR_HOOKS: {"saved_tensors", "checkpoint"},
        Reason.SHARED_LEVEL: {"determinism"},
        Reason.NO_INFERENCE_MODE: {"modes"},
        Reason.NOT_INTERPRETED: {"race"},
    }
    for reason in set(Reason) - excusing:
        assert REQUIRED & reason.checks == about.get(reason, set()), reason
    assert not {"forward", "vjp"} & Reason.BACKWARD_ONLY.checks


def test_every_check_has_its_place_in_the_table():
    parts = FORWARD_MODE | SECOND_ORDER | TORCH_FUNC | TRACED | {"autocast"}
    assert parts | REQUIRED == EVERY
    assert not parts & REQUIRED
    named = {"forward", "vjp", "vjp_partial", "purity", "retain_graph", "interleaved", "determinism", "input_subsets"}
    assert named | {"layouts", "shortcuts", "points", "exact", "low_precision", "linearity", "in_place"} <= REQUIRED


@pytest.mark.parametrize(
    ("check", "dtype", "excused"),
    [
        ("vjp", "float16", True),
        ("vjp", "bfloat16", False),
        ("vjp", "float64", False),
        ("autocast", "float64", False),
        ("jvp", "float32", False),
    ],
)
def test_a_format_excuses_its_own_rows(check, dtype, excused):
    refusal = refusal_of(RuntimeError("\"foo\" not implemented for 'Half'"))
    assert isinstance(refusal, Refused)
    assert refusal.excuses(check, dtype) is excused


def test_autocast_is_about_bfloat16():
    refusal = refusal_of(RuntimeError("\"foo\" not implemented for 'BFloat16'"))
    assert refusal is not None
    assert refusal.excuses("autocast", "float64")


# A run without a judged derivative.


@pytest.mark.parametrize("limits", [{"vjp": "later"}, {"vjp": "later", "jvp": "later"}], ids=["vjp", "vjp and jvp"])
def test_limits_alone_are_no_judgement(limits):
    report = crosscheck(_refusing("later"), SQUARE, checks=["forward", *limits], dtypes=["float64"], limits=limits)
    if "jvp" not in limits:
        assert [row.listed for row in rows(report)] == [False, True], str(report)
    assert (report.passed, report.exit_code) == (False, 2)
    assert "All agree" not in str(report)
    assert "o derivative of " in str(report)
    assert "--only forward" in str(report)
    (record,) = report.as_dict()["summary"]
    assert record["verdict"] == "UNSUPPORTED"
    assert "was judged: it refuses vjp" in record["reason"]


def test_every_candidate_must_be_judged():
    calls = {"right": torch.square, "refuses": _refusing("later")}
    spec = OpSpec("square", primal=lambda x: x * x, inputs=(normal(3, 3),))
    one = crosscheck({"right": calls["right"]}, spec, checks=["forward", "vjp"], dtypes=["float64"])
    other = crosscheck(
        {"refuses": calls["refuses"]}, spec, checks=["forward", "vjp"], dtypes=["float64"], limits={"vjp": "later"}
    )
    both = type(one).merged([one, other])
    assert (one.passed, other.passed, both.passed) == (True, False, False)
    assert [record["verdict"] for record in both.as_dict()["summary"]] == ["PASS", "UNSUPPORTED"]
    assert "No derivative of refuses was judged" in str(both)


def test_one_judged_derivative_is_enough():
    limits = {"jvp": "no forward mode yet"}
    report = crosscheck(Square.apply, SQUARE, checks=["vjp", "jvp"], dtypes=["float64"], limits=limits)
    assert report.passed
    assert "values only" not in str(report)


@pytest.mark.parametrize("check", ["forward", "purity"])
def test_values_alone_may_be_asked_for(check):
    report = crosscheck(Square.apply, SQUARE, checks=[check], dtypes=["float64"])
    assert (report.passed, report.exit_code) == (True, 0)
    assert str(report).count("; values only: no derivative was asked for") == 1
