"""Derivatives are compared in the directions of the domain, and in no others."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.specs.domains import DOMAINS
from parity_tests.suite.harness._ops import judged, unary_function

pytestmark = pytest.mark.usefixtures("certified_once")


def _logdet(x):
    return 2 * jnp.log(x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0])


LOGDET = {"primal": _logdet, "inputs": (np.array([[2.0, 0.5], [0.5, 1.0]]),)}


def _adjugate(x):
    return torch.stack([torch.stack([x[1, 1], -x[1, 0]]), torch.stack([-x[0, 1], x[0, 0]])])


def _logdet_torch(gradient):
    def forward(x):
        return 2 * torch.log(x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0])

    def backward(x, output_bar):
        return output_bar * 2 * gradient(_adjugate(x) / (x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]))

    return unary_function(forward, backward)


def _lower_twice(g):
    """The same symmetric part, all of it below the diagonal."""
    return torch.tril(g + g.mT) - torch.diag(torch.diagonal(g))


@pytest.mark.parametrize(("domain", "verdict"), [("symmetric", Verdict.PASS), ("real", Verdict.MISMATCH)])
def test_gradients_with_the_same_symmetric_part_are_the_same_to_a_symmetric_input(domain, verdict):
    spec = OpSpec("logdet", **LOGDET, domains={"x": domain})
    assert judged(_logdet_torch(lambda g: g), spec, "vjp").verdict is Verdict.PASS
    assert judged(_logdet_torch(_lower_twice), spec, "vjp").verdict is verdict


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        ("symmetric", lambda g: torch.tril(g)),  # what is missing is no antisymmetric part
        ("definite", lambda g: g / 2),
        ("lower", lambda g: torch.triu(g)),
        ("positive", lambda g: -g),
        ("unit", lambda g: 2 * g),
    ],
)
def test_a_gradient_that_is_wrong_inside_the_domain_is_caught(name, gradient):
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,n)->(n,n)", domains={"x": name})
    assert judged(unary_function(lambda x: x * x, lambda x, w: 2 * x * w), spec, "vjp").verdict is Verdict.PASS
    wrong = unary_function(lambda x: x * x, lambda x, w: gradient(2 * x * w))
    assert judged(wrong, spec, "vjp").verdict is Verdict.MISMATCH


class _Inverse(torch.autograd.Function):
    """The inverse of a definite matrix by its lower triangle; its gradient counts the diagonal `times` over."""

    times = 1.0

    @staticmethod
    def forward(a):
        return torch.cholesky_inverse(torch.linalg.cholesky(a))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @classmethod
    def backward(cls, ctx, *output_bars):
        (y,) = ctx.saved_tensors
        g = -y @ output_bars[0] @ y
        return (g + g.mT).tril(-1) + cls.times * g.diagonal().diag()

    @staticmethod
    def jvp(ctx, *a_dots):
        (y,) = ctx.saved_tensors
        a_dot = a_dots[0].tril() + a_dots[0].tril(-1).mT
        return -y @ a_dot @ y


class _DiagonalTwice(_Inverse):
    times = 2.0


@pytest.mark.slow
@pytest.mark.parametrize(("candidate", "verdict"), [(_Inverse, Verdict.PASS), (_DiagonalTwice, Verdict.MISMATCH)])
@pytest.mark.parametrize("check", ["vjp", "adjoint"])
def test_a_candidate_may_read_half_of_a_definite_matrix(check, candidate, verdict):
    spec = OpSpec("inverse", primal=lambda a: jnp.linalg.inv(a), signature="(n,n)->(n,n)", domains={"a": "definite"})
    assert judged(candidate.apply, spec, check).verdict is verdict


def test_the_strict_upper_triangle_is_no_direction_of_a_lower_one():
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,n)->(n,n)", domains={"x": "lower"})
    with_more = unary_function(lambda x: x * x, lambda x, w: 2 * x * w + torch.triu(w, 1))
    assert judged(with_more, spec, "vjp").verdict is Verdict.PASS


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, Verdict.PASS), (1.0, Verdict.PASS), ("x", Verdict.MISMATCH)])
def test_gradients_of_probabilities_may_differ_by_a_constant(shift, verdict):
    """What no change of probabilities can tell is not compared; everything else is."""
    spec = OpSpec(
        "entropy",
        primal=lambda x: jnp.sum(x * jnp.log(x), -1),
        signature="(n,m)->(n)",
        domains={"x": "probabilities"},
    )
    candidate = unary_function(
        lambda x: torch.sum(x * torch.log(x), -1),
        lambda x, w: w[:, None] * (torch.log(x) + (x if shift == "x" else shift)),
    )
    assert judged(candidate, spec, "vjp").verdict is verdict


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.PASS), (2.0, Verdict.MISMATCH)])
def test_an_operator_of_general_square_matrices(factor, verdict):
    spec = OpSpec("inverse", jnp.linalg.inv, "(n,n)->(n,n)", input_names=("a",), domains={"a": "well-conditioned"})
    candidate = unary_function(torch.linalg.inv, lambda a, w: -factor * a.inverse().mT @ w @ a.inverse().mT)
    for dtype in ("float64", "float32"):
        assert judged(candidate, spec, "vjp", dtype).verdict is verdict


@pytest.mark.parametrize(("domain", "verdict"), [("positive", Verdict.PASS), ("real", Verdict.MISMATCH)])
def test_outside_its_domain_a_candidate_is_not_judged(domain, verdict):
    spec = OpSpec("x |x|", primal=lambda x: x * jnp.abs(x), signature="(n)->(n)", domains={"x": domain})
    assert judged(lambda x: x * x, spec, "forward").verdict is verdict


@pytest.mark.slow
@pytest.mark.parametrize("check", ["layouts", "vmap", "jvp", "vjp_of_vjp"])
def test_right_code_passes_in_every_domain(check):
    for name in DOMAINS:
        spec = OpSpec("square", primal=lambda x: x * x, signature="(n,n)->(n,n)", domains={"x": name})
        assert judged(lambda x: x * x, spec, check).verdict is Verdict.PASS, name
