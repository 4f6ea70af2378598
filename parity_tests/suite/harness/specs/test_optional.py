"""Optional inputs: samples without them, what both sides get there, and mistakes that nothing else shows."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import ArrayCandidate, JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle, OracleError
from parity_tests.harness.specs.domains import integer
from parity_tests.harness.specs.samples import few_samples, samples
from parity_tests.suite.harness._ops import judged, normal, rows
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("certified_once")


def _affine(x, w, b):
    y = x * x * w
    return y if b is None else y + jnp.sin(b)


SIGNATURE = "(n,m),(m),(m)->(n,m)"
AFFINE = OpSpec("affine", _affine, SIGNATURE, optional=["b"])


def affine(x, w, b):
    y = x * x * w
    return y if b is None else y + torch.sin(b)


class Affine(torch.autograd.Function):
    """The right gradients; a mistake changes one thing."""

    @staticmethod
    def forward(x, w, b):
        return affine(x, w, b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @classmethod
    def backward(cls, ctx, *cotangents):
        x, w, b = ctx.saved_tensors
        b_bar = None if b is None else (cotangents[0] * torch.cos(b)).sum(0)
        return 2 * x * w * cotangents[0], cls.of_w(x, b, cotangents[0]), b_bar

    @staticmethod
    def of_w(x, b, y_bar):
        return (x * x * y_bar).sum(0)


class NeverAssigned(Affine):
    """w_bar is assigned only where b is there, as dk in flash-linear-attention's issue 862."""

    @staticmethod
    def of_w(x, b, y_bar):
        return None if b is None else (x * x * y_bar).sum(0)


def test_each_is_absent_once_and_then_all_together():
    spec = OpSpec("op", lambda x, y, z: x, "(n),(n),(n)->(n)", optional=["z", "y"])
    absent = {s.name: (s.absent, len(s.shapes)) for s in samples(spec, 0) if s.absent}
    assert absent == {"without_z": ({2}, 2), "without_y": ({1}, 2), "without_z_y": ({1, 2}, 1)}
    assert {s.name for s in few_samples(spec, 0)} == {"all_axes_differ", *absent, "zero_n", "one_n", "long_axes"}
    assert not any(s.generic for s in samples(spec, 0) if s.absent)


@fast("*-float64")
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("check", ["forward", "vjp", "vjp_of_vjp", "jvp", "layouts", "vmap", "input_subsets"])
def test_right_code_passes(check, dtype):
    called = []

    def noted(x, w, b):
        called.append(b is None)
        return affine(x, w, b)

    assert judged(noted, AFFINE, check, dtype).verdict is Verdict.PASS
    assert set(called) == {True, False}


def test_a_gradient_that_is_never_assigned_is_caught():
    assert judged(Affine.apply, AFFINE, "vjp").verdict is Verdict.PASS
    row = judged(NeverAssigned.apply, AFFINE, "vjp")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert (row.failure.sample, [wrong.label for wrong in row.failure.wrong]) == ("without_b", ["w_bar"])
    assert judged(NeverAssigned.apply, OpSpec("affine", _affine, SIGNATURE), "vjp").verdict is Verdict.PASS


@pytest.mark.usefixtures("shrinking")
def test_the_smallest_input_and_the_reproducer_say_what_is_absent():
    report = crosscheck(NeverAssigned.apply, AFFINE, checks=["vjp"], dtypes=["float64"])
    (failure,) = report.failures
    assert failure.smallest is not None
    assert failure.smallest.entries["b"] == "None", failure.smallest
    assert failure.unexplained == ()


@pytest.mark.slow
def test_candidates_of_other_frameworks():
    def vjp(x, w, b, y_bar):
        b_bar = None if b is None else np.sum(y_bar * np.cos(b), 0)
        return 2 * x * w * y_bar, np.sum(x * x * y_bar, 0), b_bar

    def jvp(x, w, b, x_dot, w_dot, b_dot):
        return 2 * x * w * x_dot + x * x * w_dot + (0 if b is None else np.cos(b) * b_dot)

    def forward(x, w, b):
        return x * x * w + (0 if b is None else np.sin(b))

    def wrong_vjp(x, w, b, y_bar):
        return tuple(None if b is None or g is None else g for g in vjp(x, w, b, y_bar))

    candidates = {
        "jax": JaxCandidate(_affine),
        "arrays": ArrayCandidate(forward, vjp, jvp),
        "wrong": ArrayCandidate(forward, wrong_vjp),
    }
    report = crosscheck(candidates, AFFINE, checks=["vjp", "jvp"], dtypes=["float64"])
    verdicts = {(row.candidate, row.check): row.verdict for row in rows(report)}
    assert verdicts.pop(("wrong", "vjp")) is Verdict.MISMATCH, str(report)
    assert verdicts.pop(("wrong", "jvp")) is Verdict.UNSUPPORTED, str(report)
    assert set(verdicts.values()) == {Verdict.PASS}, str(report)


def test_inputs_that_are_given():
    spec = OpSpec("affine", _affine, inputs=(normal(3, 2), normal(2), normal(2)), optional=["b"])
    report = crosscheck({"right": affine, "wrong": NeverAssigned.apply}, spec, checks=["vjp"], dtypes=["float32"])
    assert [row.verdict for row in rows(report)] == [Verdict.PASS, Verdict.MISMATCH], str(report)


def test_an_absent_mask():
    """Integers are not differentiated; they may be absent, too."""

    def primal(x, mask):
        return x * x if mask is None else jnp.where(mask > 0, x * x, 0.0)

    def right(x, mask):
        return x * x if mask is None else torch.where(mask > 0, x * x, 0.0)

    spec = OpSpec("masked", primal, "(n),(n)->(n)", domains={"mask": integer(0, 2)}, optional=["mask"])
    assert judged(right, spec, "vjp").verdict is Verdict.PASS
    wrong = judged(lambda x, mask: right(x, torch.ones_like(x) if mask is None else mask) + 0 * x, spec, "vjp")
    assert wrong.verdict is Verdict.PASS  # ones are what an absent mask means
    assert judged(lambda x, mask: right(x, mask) * (2 if mask is None else 1), spec, "vjp").verdict is Verdict.MISMATCH


# Formulas of the spec.


def _vjp(x, w, b, y_bar):
    b_bar = None if b is None else jnp.sum(y_bar * jnp.cos(b), 0)
    return 2 * x * w * y_bar, jnp.sum(x * x * y_bar, 0), b_bar


def _jvp(x, w, b, x_dot, w_dot, b_dot):
    y_dot = 2 * x * w * x_dot + x * x * w_dot
    assert (b is None) == (b_dot is None)
    return y_dot if b is None else y_dot + jnp.cos(b) * b_dot


def _wrong_vjp(x, w, b, y_bar):
    x_bar, w_bar, b_bar = _vjp(x, w, b, y_bar)
    return x_bar * (2 if b is None else 1), w_bar, b_bar


@pytest.mark.parametrize(
    ("vjp", "verdict"),
    [pytest.param(_vjp, Verdict.PASS, id="right"), pytest.param(_wrong_vjp, Verdict.MISMATCH, id="wrong")],
)
def test_a_formula_of_the_spec_is_certified_where_an_input_is_absent(vjp, verdict):
    spec = OpSpec("affine", _affine, SIGNATURE, optional=["b"], vjp=vjp, jvp=_jvp)
    report = crosscheck(affine, spec, checks=["vjp", "jvp"], dtypes=["float64"])
    certificates = {row.check: row.verdict for row in report.rows if row.candidate == "oracle"}
    assert certificates["vjp"] is verdict, str(report)
    assert certificates["jvp"] is Verdict.PASS, str(report)


# What is refused.


def test_a_primal_that_does_not_take_none():
    spec = OpSpec("affine", lambda x, w, b: x * w + b, SIGNATURE, optional=["b"])
    sample = next(s for s in samples(spec, 0) if s.absent)
    with (
        pinned(),
        pytest.raises(OracleError, match=r"primal fails on inputs of shapes \(4, 3\), \(3,\) and None for b"),
    ):
        Oracle(spec, sample)


@pytest.mark.parametrize(
    ("optional", "text"),
    [
        (["c"], "OpSpec affine: optional names 'c'; the inputs are x, w, b"),
        (
            ["x", "w", "b"],
            "OpSpec affine: without x, w, b no input is differentiated; leave one of them out of optional",
        ),
    ],
)
def test_a_field_that_cannot_be_used(optional, text):
    with pytest.raises(ValueError, match=text):
        OpSpec("affine", _affine, SIGNATURE, optional=optional)
