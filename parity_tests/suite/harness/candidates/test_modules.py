"""nn.Modules as candidates: their parameters are inputs."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates.torch_modules import with_parameters
from parity_tests.suite.harness._ops import Square, judged, normal, rows
from parity_tests.suite.marks import fast

LINEAR = OpSpec("linear", primal=lambda x, w, b: x @ w.T + b, signature="(n,3),(2,3),(2)->(n,2)")
QUICK = {"dtypes": ["float64", "bfloat16"], "limits": {}}


class DetachedBias(torch.nn.Linear):
    def forward(self, x):
        return x @ self.weight.T + self.bias.detach()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.gain = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return torch.tanh(self.inner(x)) * self.gain


@pytest.mark.slow
def test_a_right_module():
    module = torch.nn.Linear(3, 2)
    before = [p.clone() for p in module.parameters()]
    crosscheck(module, LINEAR, **QUICK).raise_if_failed()
    assert all(torch.equal(p, q) and p.grad is None for p, q in zip(module.parameters(), before, strict=True))


def test_a_wrong_module():
    report = crosscheck(DetachedBias(3, 2), LINEAR, checks=["forward", "vjp"], dtypes=["float64"])
    assert [row.verdict for row in rows(report)] == [Verdict.PASS, Verdict.MISMATCH]
    assert "b_bar = 0" in str(report)


@pytest.mark.slow
def test_nested_parameters_in_the_order_of_named_parameters():
    assert [name for name, _ in Block().named_parameters()] == ["gain", "inner.weight", "inner.bias"]
    spec = OpSpec(
        "block", primal=lambda x, gain, w, b: jnp.tanh(x @ w.T + b) * gain, signature="(n,3),(2),(2,3),(2)->(n,2)"
    )
    crosscheck(Block(), spec, **QUICK).raise_if_failed()


@pytest.mark.slow
def test_a_spec_of_the_inputs_only():
    module = torch.nn.Linear(3, 2).double()
    w, b = (p.detach().numpy() for p in module.parameters())
    spec = OpSpec("linear", primal=lambda x: x @ w.T + b, signature="(n,3)->(n,2)")
    report = crosscheck(module, spec, dtypes=["float64"])
    report.raise_if_failed()
    refused = {row.check for row in report.rows if row.verdict is Verdict.UNSUPPORTED}
    assert refused == {"fake", "autocast"}  # of a parameter that no cast and no device reaches


# Buffers: each call starts from those that the module has, in the format of its inputs.

MEAN, VARIANCE = torch.tensor([0.3, -1.1, 0.7]), torch.tensor([0.6, 1.9, 1.2])


def _batch_norm(x, w, b):
    centred = x - x.mean(0)
    return centred / jnp.sqrt((centred * centred).mean(0) + 1e-5) * w + b


def _running_norm(x, w, b):
    return (x - MEAN.double().numpy()) / jnp.sqrt(VARIANCE.double().numpy() + 1e-5) * w + b


ARRAYS = (normal(4, 3), normal(3, seed=1), normal(3, seed=2))
TRAINING = OpSpec("batch_norm", _batch_norm, inputs=ARRAYS)
EVALUATION = OpSpec("running_norm", _running_norm, inputs=ARRAYS)


def batch_norm(training: bool) -> torch.nn.BatchNorm1d:
    module = torch.nn.BatchNorm1d(3).train(training)
    module.running_mean.copy_(MEAN)  # type: ignore[union-attr]
    module.running_var.copy_(VARIANCE)  # type: ignore[union-attr]
    return module


class DetachedVariance(torch.nn.BatchNorm1d):
    """Its backward takes the variance of the batch for a constant, as a running one is."""

    def forward(self, input):
        centred = input - input.mean(0)
        return centred / torch.sqrt((centred.detach() ** 2).mean(0) + self.eps) * self.weight + self.bias


class LaggingVariance(torch.nn.BatchNorm1d):
    """Normalizes by running statistics after they were updated with the batch."""

    def forward(self, input):
        self.running_var.lerp_(input.detach().var(0), 0.1)  # type: ignore[union-attr]
        return super().forward(input)


@fast("*-float64")
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize(("training", "spec"), [(True, TRAINING), (False, EVALUATION)], ids=["training", "evaluation"])
def test_floating_buffers_have_the_format_of_the_inputs(training, spec, dtype):
    module = batch_norm(training)
    report = crosscheck(module, spec, checks=["forward", "vjp", "jvp", "vjp_of_vjp", "purity"], dtypes=[dtype])
    report.raise_if_failed()
    assert [row.verdict for row in rows(report)] == [Verdict.PASS] * 5
    assert torch.equal(module.running_mean, MEAN)  # type: ignore[arg-type]
    assert torch.equal(module.running_var, VARIANCE)  # type: ignore[arg-type]
    assert module.num_batches_tracked == 0


@pytest.mark.slow
def test_a_module_with_buffers_under_every_check():
    report = crosscheck(batch_norm(training=True), TRAINING, dtypes=["float64"])
    failed = {row.check for row in rows(report) if not row.passed}
    # PyTorch's formula of the JVP takes the saved statistics for constants: by differences, its derivative is wrong.
    # With a gain that is a part of another tensor its backward reads what lies in memory behind: docs/found.md 39. Of
    # `aliases` that is another input, of `layouts` whatever was there before.
    assert failed - {"layouts"} == {"vjp_of_jvp", "jvp_of_jvp", "functorch", "aliases"}, str(report)


@fast("updated before they are used")
@pytest.mark.parametrize(
    ("module", "spec", "check"),
    [
        pytest.param(DetachedVariance(3), TRAINING, "vjp", id="the batch's variance is detached"),
        pytest.param(LaggingVariance(3), EVALUATION, "forward", id="updated before they are used"),
    ],
)
def test_a_wrong_module_with_buffers(module, spec, check):
    module.running_mean.copy_(MEAN)
    module.running_var.copy_(VARIANCE)
    assert judged(module, spec, check).verdict is Verdict.MISMATCH


def test_vmap_of_what_writes_a_batch_to_its_buffers_is_refused_by_pytorch():
    row = judged(batch_norm(training=True), TRAINING, "vmap")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert "running_mean or running_var, which will be updated in place, were not batched" in row.reason


class Tally(torch.nn.Module):
    """Squares; counts its calls, and adds up what it has seen."""

    def __init__(self, adds_up: bool = False) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("phase", torch.ones(3, dtype=torch.complex64))
        self.adds_up = adds_up

    def forward(self, x):
        self.calls += 1
        if self.adds_up:
            self.total += x.detach().sum(0)
        assert self.calls == 1 or torch.compiler.is_compiling()
        assert self.total.dtype == x.dtype
        assert self.phase.is_complex()
        return x * x


TALLIED = OpSpec("square", lambda x: x * x, inputs=(normal(4, 3),))


@pytest.mark.slow
def test_a_module_that_counts_its_calls():
    module = Tally()
    report = crosscheck(module, TALLIED, checks=["forward", "vjp", "vmap", "determinism"], dtypes=["float32"])
    assert {row.verdict for row in rows(report)} == {Verdict.PASS}, str(report)
    assert module.calls == 0
    row = judged(Tally(adds_up=True), TALLIED, "vmap")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason.startswith("vmap: adds a batch to a tensor without one, in place"), row.reason


class AddsInItsVmapRule(Square):
    """Its own vmap rule adds up in place in a tensor of the wrong size, and raises the error that add_ has."""

    @staticmethod
    def vmap(info, in_dims, x):
        x = x.movedim(in_dims[0], 0)
        return torch.zeros_like(x[0]).add_(x * x), 0


def test_an_error_of_the_authors_vmap_rule_is_no_refusal_of_pytorchs():
    row = judged(AddsInItsVmapRule.apply, TALLIED, "vmap")
    assert row.verdict is Verdict.MISMATCH
    assert "doesn't match the broadcast shape" in str(row)


def test_the_parameters_may_come_in_another_order():
    layer = torch.nn.Linear(2, 3)
    x, weight, bias = torch.ones(1, 2), torch.zeros(3, 2), torch.arange(3.0)
    assert torch.equal(with_parameters(layer)(x, weight, bias), bias[None])
    assert torch.equal(with_parameters(layer, ["bias", "weight"])(x, bias, weight), bias[None])
    assert torch.equal(with_parameters(layer, ["bias"])(x, bias), torch.nn.functional.linear(x, layer.weight, bias))
