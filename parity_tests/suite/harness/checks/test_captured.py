"""Which tensors a candidate captures, and what is said of their gradients."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.candidates.captured_tensors import captured_tensors
from parity_tests.suite.harness._ops import judged, normal
from parity_tests.suite.marks import fast

ONE = torch.ones(3, dtype=torch.float64, requires_grad=True)
PLAIN = torch.ones(3, dtype=torch.float64)
SPEC = OpSpec("scaled", primal=lambda x: jnp.asarray([1.0, 1.0, 1.0], x.dtype) * x, inputs=(normal(3),))


def _of_a_global(x):
    return helper(x)


def helper(x):
    return ONE * PLAIN * x


class Holder:
    def __init__(self) -> None:
        self.weights = {"first": [torch.ones(3, requires_grad=True)]}

    def call(self, x):
        return self.weights["first"][0] * x


def _recursive(x):
    return _recursive(x) if x is None else ONE * x


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (_of_a_global, ["ONE"]),
        (_recursive, ["ONE"]),
        (Holder().call, ["weights.first[0]"]),
        (functools.partial(torch.mul, ONE), [""]),
        (functools.partial(torch.nn.functional.linear, weight=ONE), ["weight"]),
        (torch.nn.Linear(2, 2), ["weight", "bias"]),
        (lambda x, weight=ONE: weight * x, ["a default"]),
        (lambda x: (lambda y: ONE * y)(x), ["ONE"]),
        (torch.tanh, []),
        (lambda x: PLAIN * x, []),
    ],
)
def test_what_a_callable_captures(call, names):
    assert [*captured_tensors(call)] == names


def test_what_is_not_dense_is_left_out():
    sparse = torch.eye(3).to_sparse().requires_grad_()
    assert captured_tensors(lambda x: sparse @ x) == {}


class Halved(torch.autograd.Function):
    """The identity with half of its gradient."""

    @staticmethod
    def forward(ctx, z):
        return z.clone()

    @staticmethod
    def backward(ctx, *cotangents):
        return cotangents[0] / 2


def test_a_complex_tensor_has_its_gradient_too():
    phase = torch.tensor(normal(3) + 1j * normal(3, seed=1), requires_grad=True)
    own = phase.detach().numpy().copy()
    spec = OpSpec("turned", primal=lambda x: jnp.abs(jnp.asarray(own) * x) ** 2, inputs=(normal(3),))

    def turned(x):
        return (phase * x).abs() ** 2

    assert judged(turned, spec, "captured").verdict is Verdict.PASS
    wrong = judged(lambda x: (Halved.apply(phase) * x).abs() ** 2, spec, "captured")
    assert wrong.verdict is Verdict.MISMATCH


def test_two_tensors_of_one_name_are_told_apart():
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    assert [*captured_tensors(functools.partial(print, x, y))] == ["", " (2)"]


def test_the_tensor_is_as_it_was():
    weight = torch.tensor(normal(3), requires_grad=True)
    before, version = weight.detach().clone(), weight._version
    spec = OpSpec("scaled", primal=lambda x: jnp.asarray(before.numpy()) * x, inputs=(normal(3),))
    assert judged(lambda x: weight * x, spec, "captured").verdict is Verdict.PASS
    assert torch.equal(weight.detach(), before)
    assert (weight._version, weight.grad) == (version, None)


def test_what_is_detached_on_purpose_is_a_convention():
    def under_no_grad(x):
        with torch.no_grad():
            scale = 1 * ONE
        return scale * x

    for call in (lambda x: ONE.detach() * x, under_no_grad):
        row = judged(call, SPEC, "captured")
        assert row.verdict is Verdict.PASS, row
        assert "is 0 along a random direction, and " in " ".join(map(str, row.conventions))


class Lost(torch.autograd.Function):
    """ONE * x, without a gradient for ONE."""

    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():  # as a Function may that differentiates in its forward
            pass
        return ONE.detach() * x

    @staticmethod
    def backward(ctx, *cotangents):
        return ONE.detach() * cotangents[0]


def _beside_a_detached_input(x):
    return Lost.apply(x) + 0 * x.detach().abs().amax()


def _beside_no_grad(x):
    with torch.no_grad():
        scale = x.abs().sum()
        scale[...] = 1.0
    return Lost.apply(x) * scale


def _beside_another_part(x):
    return Lost.apply(x) + ONE.detach() - ONE.data


@pytest.mark.parametrize("call", [Lost.apply, _beside_a_detached_input, _beside_no_grad, _beside_another_part])
def test_a_lost_gradient_is_found_beside_something_detached(call):
    assert judged(call, SPEC, "captured").verdict is Verdict.MISMATCH


def _by_its_own_largest(x):
    return x * ONE * 3 / ONE.detach().square().sum()


def _written_under_no_grad(x):
    scale = torch.zeros_like(x)
    with torch.no_grad():
        scale[:] = ONE
        scale.mul_(ONE)
    return scale * ONE * x


def _detached_after_a_function(x):
    return x * ONE * torch.ones_like(ONE) / _Kept.apply(ONE).detach()  # of which autograd knows that it is ONE


def _detached_of_a_lost_one(x):
    return x * Lost.apply(x.new_ones(3)).detach() * ONE


class _Kept(Halved):
    """The identity with all of its gradient."""

    @staticmethod
    def backward(ctx, *cotangents):
        return cotangents[0]


@pytest.mark.parametrize(
    "call", [_by_its_own_largest, _written_under_no_grad, _detached_after_a_function, _detached_of_a_lost_one]
)
def test_the_gradient_of_what_is_not_detached_is_a_convention(call):
    row = judged(call, SPEC, "captured")
    assert row.verdict is Verdict.PASS, row
    assert "with all that the candidate detaches" in " ".join(map(str, row.conventions))


def test_half_of_the_gradient_of_the_rest_is_a_mismatch():
    row = judged(lambda x: x * Halved.apply(ONE) * 3 / ONE.detach().square().sum(), SPEC, "captured")
    assert row.verdict is Verdict.MISMATCH


def test_a_kink_at_the_tensor_itself_takes_either_side():
    """As of an adapter that starts at 0."""
    zero = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    spec = OpSpec("adapted", primal=lambda x: x + jax.nn.relu(0 * x), inputs=(normal(3),))
    assert judged(lambda x: x + torch.relu(zero * x), spec, "captured").verdict is Verdict.PASS


def test_a_tensor_that_nothing_depends_on_needs_no_gradient():
    assert judged(lambda x: x + 0 * ONE.numel(), OpSpec("x", lambda x: 1 * x, inputs=(normal(3),)), "captured").passed


def test_what_captures_nothing_is_skipped():
    row = judged(torch.sin, OpSpec("sine", jnp.sin, inputs=(normal(3),)), "captured")
    assert (row.verdict, row.reason) == (
        Verdict.SKIPPED,
        "the candidate captures no tensor that requires a gradient",
    )


@fast("0-*")
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("seed", range(5))
def test_a_right_gradient_passes_in_every_format(dtype, seed):
    values = normal(4, 4, seed=seed).astype(np.float16).astype(np.float64)  # exact in each but bfloat16
    weight = torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=True)
    own = weight.detach().double().numpy()
    spec = OpSpec("layer", primal=lambda x: jnp.tanh(x @ jnp.asarray(own, x.dtype)), signature="(n,4)->(n,4)")
    assert judged(lambda x: torch.tanh(x @ weight), spec, "captured", dtype, seed=seed).verdict is Verdict.PASS
