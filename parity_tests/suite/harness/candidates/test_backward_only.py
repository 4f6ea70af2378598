"""Candidates that refuse `torch.autograd.grad` for `.backward()`, by which all of first order is judged then."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.suite.harness._ops import judged, rows

TANH_TIMES = OpSpec("tanh_times", primal=lambda x, w: jnp.tanh(x) * w, signature="(n,d),(n,d)->(n,d)")


class BackwardOnly(torch.autograd.Function):
    """As PyTorch's reentrant checkpoint, of which `grad` is refused and `.backward()` is not."""

    @classmethod
    def forward(cls, ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x) * w

    @classmethod
    def backward(cls, ctx, *cotangents):
        if not torch.autograd._is_checkpoint_valid():
            raise RuntimeError("this Function is not compatible with .grad(), please use .backward() instead")
        return cls.gradients(ctx, *ctx.saved_tensors, *cotangents)

    @classmethod
    def gradients(cls, ctx, x, w, cotangent):
        y = torch.tanh(x)
        return cotangent * w * (1 - y * y), cotangent * y


class Wrong(BackwardOnly):
    @classmethod
    def gradients(cls, ctx, x, w, cotangent):
        return tuple(1.01 * g for g in BackwardOnly.gradients(ctx, x, w, cotangent))


class RefusesBoth(BackwardOnly):
    @classmethod
    def backward(cls, ctx, *cotangents):
        raise RuntimeError("this Function is not compatible with .grad(), please use .backward() instead")


class WritesCotangent(BackwardOnly):
    @classmethod
    def gradients(cls, ctx, x, w, cotangent):
        gradients = BackwardOnly.gradients(ctx, x, w, cotangent)
        cotangent.data.mul_(0.5)
        return gradients


class GrowsWhenRetained(BackwardOnly):
    @classmethod
    def gradients(cls, ctx, x, w, cotangent):
        ctx.calls = getattr(ctx, "calls", 0) + 1
        gradient, other = BackwardOnly.gradients(ctx, x, w, cotangent)
        return ctx.calls * gradient, other


class OfTheLastCall(BackwardOnly):
    last: tuple[torch.Tensor, ...]

    @classmethod
    def forward(cls, ctx, x, w):
        cls.last = x.detach().clone(), w.detach().clone()
        return BackwardOnly.forward(ctx, x, w)

    @classmethod
    def gradients(cls, ctx, x, w, cotangent):
        return BackwardOnly.gradients(ctx, *cls.last, cotangent)


class WrongInAutocast(BackwardOnly):
    @classmethod
    def gradients(cls, ctx, x, w, cotangent):
        gradient, other = BackwardOnly.gradients(ctx, x, w, cotangent)
        return 2 * gradient if torch.is_autocast_enabled("cpu") else gradient, other


class TakesZeroForUndefined(BackwardOnly):
    @classmethod
    def forward(cls, ctx, x, w):
        ctx.set_materialize_grads(False)
        return BackwardOnly.forward(ctx, x, w)

    @classmethod
    def gradients(cls, ctx, x, w, cotangent):
        return torch.ones_like(x) if cotangent is None else cotangent * w * (1 - torch.tanh(x) ** 2), None


def _one_of_the_same(x, w):
    return BackwardOnly.apply(x, w.detach() if x is w else w)


_WEIGHT = torch.ones((), dtype=torch.float64, requires_grad=True)


class _Lost(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y * _WEIGHT

    @staticmethod
    def backward(ctx, *cotangents):
        return cotangents[0]


@pytest.mark.slow
def test_all_of_first_order_is_judged_by_backward():
    report = crosscheck(BackwardOnly.apply, TANH_TIMES, dtypes=["float64"], progress=False)
    verdicts = {row.check: row.verdict for row in rows(report)}
    refused = {check for check, verdict in verdicts.items() if verdict is Verdict.UNSUPPORTED}
    assert refused <= Reason.BACKWARD_ONLY.checks
    assert report.passed
    assert set(verdicts.values()) == {Verdict.PASS, Verdict.SKIPPED, Verdict.UNSUPPORTED}
    by_it = {"vjp", "vjp_partial", "purity", "retain_graph", "interleaved", "aliases", "accumulation", "autocast"}
    assert {verdicts[check] for check in by_it | {"checkpoint", "saved_tensors", "modes"}} == {Verdict.PASS}


MISTAKES = [
    ("vjp", Wrong.apply),
    ("vjp", RefusesBoth.apply),
    ("purity", RefusesBoth.apply),
    ("purity", WritesCotangent.apply),
    ("retain_graph", GrowsWhenRetained.apply),
    ("interleaved", OfTheLastCall.apply),
    ("autocast", WrongInAutocast.apply),
    ("vjp_partial", TakesZeroForUndefined.apply),
    ("aliases", _one_of_the_same),
    ("captured", lambda x, w: _Lost.apply(BackwardOnly.apply(x, w))),
]


@pytest.mark.parametrize(("check", "wrong"), MISTAKES, ids=[f"{i}-{check}" for i, (check, _) in enumerate(MISTAKES)])
def test_what_is_wrong_under_backward_is_found_by_its_check(check, wrong):
    assert judged(wrong, TANH_TIMES, check).verdict is Verdict.MISMATCH


def test_gradients_of_captured_tensors_are_left_alone():
    _WEIGHT.grad = torch.full_like(_WEIGHT, 7.0)
    try:
        row = judged(lambda x, w: BackwardOnly.apply(x, w) * _WEIGHT, TANH_TIMES, "captured")
        assert (row.verdict, row.comparisons > 0) == (Verdict.PASS, True)
        assert _WEIGHT.grad == 7
    finally:
        _WEIGHT.grad = None
