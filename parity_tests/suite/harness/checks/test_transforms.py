"""Compiled, traced, cast, without values, nested: what PyTorch cannot do is told in its own words, and no mistake.

The mistakes that these checks are there for are in `planted`.
"""

from __future__ import annotations

import logging
import resource
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch._dynamo
import torch._functorch.config
from torch._dynamo.testing import CompileCounterWithBackend

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.crosscheck import select_checks
from parity_tests.suite.harness._ops import (
    PAIR,
    RIGHT_OPERATOR,
    SQUARE,
    judged,
    normal,
    pair,
    pair_backward,
    pair_function,
    rows,
)
from parity_tests.suite.marks import fast

SINE = OpSpec("sine", primal=jnp.sin, inputs=(normal(3, 4),))
TANH_LINEAR = OpSpec("tanh_linear", primal=lambda x, w: jnp.tanh(x @ w), signature="(n,d),(d,e)->(n,e)")
ONE_PRODUCT = OpSpec("tanh_linear", primal=lambda x, w: jnp.tanh(x @ w), inputs=(normal(4, 3), normal(3, 2)))
NOT_COMPILED = {"vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "make_fx"}


def tanh_linear(x, w):
    return torch.tanh(x @ w)


class Numpy(torch.autograd.Function):
    """A Function around code that PyTorch does not see."""

    @staticmethod
    def forward(x):
        return torch.from_numpy(np.sin(x.detach().numpy())).clone()  # a copy, for PyTorch 2.11: see `InPlace`

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, *cotangents):
        return cotangents[0] * torch.from_numpy(np.cos(ctx.saved_tensors[0].detach().numpy()))


class InPlace(torch.autograd.Function):
    """Returns what an operation has returned of its own argument, of which PyTorch 2.11 compiles a gradient of zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.empty_like(x).copy_(x.sin())

    @staticmethod
    def backward(ctx, *cotangents):
        return cotangents[0] * torch.cos(ctx.saved_tensors[0])


class InPlaceAndViewed(InPlace):
    """The same, as `gradparity explain compile` has it."""

    @staticmethod
    def forward(ctx, x):
        y = InPlace.forward(ctx, x)
        return y.view_as(y)


class TwoDtypes(torch.autograd.Function):
    """What autocast makes of it: a forward in bfloat16, and a backward that multiplies it with float32."""

    @staticmethod
    def forward(ctx, x, w):
        y = torch.tanh(x @ w)
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx, *cotangents):
        x, w, y = ctx.saved_tensors
        p = cotangents[0] * (1 - y * y)
        return p @ w.mT, x.mT @ p


def _branch(x):
    return x * x if x.sum() > 0 else x**2


def _autocast_of_its_device(x):
    return x.float() ** 2 if torch.is_autocast_enabled(x.device.type) else x**2


OUTSIDE = torch.ones(3, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "spec", "check", "reason"),
    [
        pytest.param(Numpy.apply, SINE, "fake", ".numpy() is not supported for tensor subclasses", id="fake-numpy"),
        pytest.param(Numpy.apply, SINE, "make_fx", ".numpy() is not supported", id="make_fx-numpy"),
        pytest.param(_branch, SQUARE, "fake", "DataDependentOutputException", id="fake-branch"),
        pytest.param(_branch, SQUARE, "make_fx", "Could not guard on data-dependent expression", id="make_fx-branch"),
        pytest.param(_branch, SQUARE, "vmap", "data-dependent control flow", id="vmap-branch"),
        pytest.param(
            lambda x: x * x * OUTSIDE,
            SQUARE,
            "fake",
            "it uses a tensor from outside of it, wherever its inputs are",
            id="fake-a tensor from outside",
        ),
        pytest.param(
            lambda x: torch.ones(3, 3, dtype=x.dtype) * x * x,
            SQUARE,
            "fake",
            "runs on the CPU only: torch.ones makes a tensor on the CPU, wherever its inputs are",
            id="fake-a tensor of its own",
        ),
        pytest.param(_autocast_of_its_device, SQUARE, "fake", "unknown device type for autocast", id="fake-autocast"),
        pytest.param(TwoDtypes.apply, ONE_PRODUCT, "autocast", "torch.amp.custom_fwd?", id="autocast-two dtypes"),
    ],
)
def test_a_refusal_is_told_in_pytorchs_words(call, spec, check, reason):
    row = judged(call, spec, check)
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert reason in row.reason


@fast("*-autocast", "*-functorch")
@pytest.mark.parametrize("check", ["compile", "autocast", "functorch"])
@pytest.mark.parametrize(("call", "spec"), [(Numpy.apply, SINE), (_branch, SQUARE)], ids=["numpy", "branch"])
def test_what_cannot_be_traced_may_still_be_right(call, spec, check):
    assert judged(call, spec, check).verdict is Verdict.PASS


@pytest.mark.parametrize("function", [InPlace, InPlaceAndViewed])
def test_a_gradient_that_pytorch_compiles_to_zero_is_told(function):
    """It is right where nothing is compiled, and wrong for whoever compiles it with such a PyTorch."""
    torch._dynamo.reset()
    x = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch.compile(lambda x: function.apply(x), backend="eager")(x).sum(), x)
    torch._dynamo.reset()
    lost = not gradient.any()
    assert not (lost and function is InPlaceAndViewed)
    assert judged(function.apply, SINE, "compile").verdict is (Verdict.MISMATCH if lost else Verdict.PASS)
    assert judged(function.apply, SINE, "vjp").verdict is Verdict.PASS


@pytest.mark.slow
def test_integers_and_parameters_go_along():
    spec = OpSpec(
        "scaled_rows",
        primal=lambda x, i, scale: scale * x[i] ** 2,
        inputs=(normal(4, 3), np.array([0, 2, 2])),
        params={"scale": 3.0},
    )
    names = ["fake", "make_fx", "compile", "autocast"]
    report = crosscheck(lambda x, i, scale: scale * x[i] ** 2, spec, checks=names, dtypes=["float64"], limits={})
    assert report.passed, str(report)


@torch.library.custom_op("gradparity_tests::without_fake", mutates_args=())
def without_fake(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An operator whose author wrote no fake kernel, and, as PyTorch has none for these, no jvp."""
    return pair(x, y)


without_fake.register_autograd(
    lambda ctx, g, h: pair_backward(*ctx.saved_tensors, g, h),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@pytest.mark.parametrize("check", ["fake", "make_fx", "compile", "opcheck", "jvp"])
def test_what_an_operator_has_no_rule_for(check):
    row = judged(without_fake, PAIR, check)
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason.startswith("defines no jvp" if check == "jvp" else "has no fake kernel")


@pytest.mark.slow
def test_opcheck_is_for_operators():
    for call, reason in ((torch.square, "not an operator of torch.ops"), (torch.ops.aten.square.default, "")):
        row = judged(call, SQUARE, "opcheck")
        assert row.verdict is (Verdict.SKIPPED if reason else Verdict.PASS)
        assert reason in row.reason
    row = judged(torch.ops.aten.square, SQUARE, "opcheck")
    assert row.verdict is Verdict.SKIPPED
    assert (
        row.reason == "aten.square has overloads; torch.library.opcheck takes one of them, such as aten.square.default"
    )
    assert judged(RIGHT_OPERATOR, PAIR, "opcheck").comparisons == 8


def test_third_order_is_run_on_request():
    assert "third_order" not in [check.name for check in select_checks(None)]
    report = crosscheck(torch.sin, SINE, checks=["third_order"], dtypes=["float64"])
    assert [row.check for row in report.rows] == ["vjp_of_vjp_of_vjp", "third_order"]
    assert report.passed


def test_int32_offsets_is_run_on_request_and_needs_two_entries():
    assert "int32_offsets" not in [check.name for check in select_checks(None)]
    row = judged(torch.sin, OpSpec("sine", jnp.sin, "()->()"), "int32_offsets")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED,
        "no input and no cotangent has an axis of two entries or more",
    )


def test_int32_offsets_takes_no_memory():
    """64 GiB of address space, of which a page for each entry is there."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = judged(pair_function().apply, PAIR, "int32_offsets")
    assert (row.verdict, row.comparisons > 0) == (Verdict.PASS, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_dynamo_is_left_as_it_was(monkeypatch):
    """No word of the broken graph, either."""
    kept = _Kept()
    monkeypatch.setattr(logging.getLogger(), "handlers", [kept])
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    log, limit = logging.getLogger("torch"), torch._dynamo.config.recompile_limit
    level, merges = log.level, torch._functorch.config.cse
    assert judged(Numpy.apply, SINE, "compile").verdict is Verdict.PASS
    assert (log.level, torch._dynamo.config.recompile_limit) == (level, limit)
    assert torch._functorch.config.cse is merges
    assert not kept.records
    assert compiled(torch.ones(2)).sum() == 4


@pytest.mark.slow
def test_compile_does_not_import_the_code_generator():
    """It takes as long to import as all other checks of an elementwise operator take together."""
    program = """
import sys, jax.numpy as jnp, numpy as np, torch
from parity_tests import OpSpec, crosscheck
spec = OpSpec("sine", primal=jnp.sin, inputs=(np.ones(3),))
assert crosscheck(torch.sin, spec, checks=["compile"], dtypes=["float64"]).passed
assert "torch._functorch.partitioners" in sys.modules
assert "torch._inductor.lowering" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# A candidate that is compiled.


@pytest.mark.slow
def test_a_compiled_candidate():
    call = torch.compile(pair, backend="aot_eager")
    checks = ["vjp", "vmap", "functorch", "fake", "compile", "autocast", "purity", "retain_graph", *NOT_COMPILED]
    report = crosscheck(call, PAIR, checks=checks, dtypes=["float64"])
    assert report.passed, str(report)
    assert {row.check for row in rows(report) if row.verdict is Verdict.UNSUPPORTED} == NOT_COMPILED


@pytest.mark.parametrize(
    "dtypes",
    [pytest.param(["float64"], marks=pytest.mark.slow), pytest.param(None, marks=pytest.mark.soak)],
    ids=["float64", "every_format"],
)
def test_a_compiled_candidate_under_every_check(dtypes):
    """It is compiled anew for every kind of sample: past Dynamo's own limit, what is judged would not be compiled."""
    counter = CompileCounterWithBackend("aot_eager")
    limit = torch._dynamo.config.recompile_limit
    report = crosscheck(torch.compile(tanh_linear, backend=counter), TANH_LINEAR, dtypes=dtypes)
    assert report.passed, str(report)
    assert {row.check for row in rows(report) if row.verdict is Verdict.UNSUPPORTED} == NOT_COMPILED
    assert [row.verdict for row in rows(report) if row.check == "in_place"] == [Verdict.PASS]
    assert counter.frame_count > limit


def test_a_candidate_that_was_compiled_before():
    call = torch.compile(pair, backend="aot_eager")
    leaves = [torch.tensor(x, requires_grad=True) for x in PAIR.inputs or ()]
    torch.autograd.grad([y.sum() for y in call(*leaves)], leaves)  # once, without create_graph or retain_graph
    row = judged(call, PAIR, "retain_graph")
    assert (row.verdict, row.listed) in ((Verdict.UNSUPPORTED, True), (Verdict.PASS, False)), row


def test_a_compiled_backward_may_refuse_what_was_written_to():
    """Autograd says so when the backward reads what it saved, in a frame of AOTAutograd's, and is right to."""
    call = torch.compile(pair, backend="aot_eager")
    assert judged(call, PAIR, "in_place").verdict is Verdict.PASS


def test_a_candidate_that_writes_to_what_its_compiled_part_has_saved():
    """tanh saves its result: the same error comes from the same frame, and is the candidate's."""
    compiled = torch.compile(torch.tanh, backend="aot_eager")
    spec = OpSpec("tanh_plus_one", primal=lambda x: jnp.tanh(x) + 1, inputs=(normal(3, 4),))
    assert judged(lambda x: compiled(x) + 1, spec, "vjp").verdict is Verdict.PASS
    row = judged(lambda x: compiled(x).add_(1), spec, "vjp")
    assert row.verdict is Verdict.MISMATCH, row.reason
    assert row.failure is not None
    assert "has been modified by an inplace operation" in str(row.failure)


@pytest.mark.slow
def test_a_compiled_candidate_that_is_wrong():
    wrong = torch.compile(lambda x, y: pair(x, 2 * y), backend="aot_eager")
    assert judged(wrong, PAIR, "vjp").verdict is Verdict.MISMATCH
