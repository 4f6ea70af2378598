"""The third witness: what it says of a failure, and what it must never say."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.diagnosis.third_witness import arbitrate
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import samples
from parity_tests.harness.trial.trial import Trial
from parity_tests.suite.harness._ops import unary_function

TANH = OpSpec("tanh", primal=lambda x: jnp.exp(x) * jnp.tanh(x), signature="(n,m)->(n,m)")


def forward(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x) * torch.tanh(x)


def backward(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    t = torch.tanh(x)
    return torch.exp(x) * (t + (1 - t) * (1 + t)) * g


def said(call: Callable, spec: OpSpec = TANH, dtype: str = "float64", seed: int = 0, check: str = "vjp") -> str:
    sample = next(iter(samples(spec, seed)))
    with pinned():
        candidate = Candidate(call, "mine").bound({}, {})
        found = arbitrate(check, Trial(candidate, Oracle(spec, sample), sample, PRECISIONS[dtype], "cpu"))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("off", [1.0, 1e-4, 1e-6, 1e-8])
def test_a_wrong_backward_of_a_right_forward_is_blamed(off, seed):
    text = said(unary_function(forward, lambda x, g: (1 + off) * backward(x, g)), seed=seed)
    assert text.endswith("-> the oracle is right"), text
    assert "candidate 1.0" in text or f"off by {off:.0e} of its size" in text, text


@pytest.mark.parametrize("off", [1e-4, 1e-6])
def test_one_wrong_entry_is_blamed(off):
    """The others do not hide it: the functions are compared in the direction of the difference."""

    def spoilt(x, g):
        x_bar = backward(x, g)
        x_bar[2, 1] *= 1 + off
        return x_bar

    assert said(unary_function(forward, spoilt)).endswith("-> the oracle is right")


def test_a_small_error_is_said_in_numbers():
    text = said(unary_function(forward, lambda x, g: (1 + 1e-8) * backward(x, g)))
    assert "(its derivative is off by 1e-08 of its size) -> the oracle is right" in text


def test_another_function_is_compared_first():
    other = unary_function(lambda x: 2 * forward(x), lambda x, g: 2 * backward(x, g))
    assert said(other).endswith(
        "-> each is the derivative of its own function: compare the functions first (see forward)"
    )


def test_what_is_right_in_float64_only():
    def narrow(x, g):
        return backward(x, g) if x.dtype == torch.float64 else 2 * backward(x, g)

    text = said(unary_function(forward, narrow), dtype="float16")
    assert text.endswith("-> both formulas are right in float64; the candidate's float16 is not")


def test_an_error_that_values_cannot_tell():
    """1e-13 of a gradient: 100 times its rounding, and less than differences of the function show."""
    text = said(unary_function(forward, lambda x, g: (1 + 1e-13) * backward(x, g)))
    assert text.endswith("-> the two derivatives differ by less than values in float64 can tell; forward agrees")
    assert "compare the functions" not in text


def test_a_failure_that_is_not_there_when_it_is_called_once_more():
    text = said(unary_function(forward, backward))
    assert text.endswith("-> called once more, the candidate agrees with the oracle")


def test_a_wrong_oracle():
    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), 2 * jnp.cos(*primals) * tangents[0]))
    spec = OpSpec("sine", primal=lambda x: sine(x), signature="(n)->(n)")
    assert said(torch.sin, spec).endswith("-> the oracle is wrong")


def test_a_gradient_that_is_not_finite():
    text = said(unary_function(forward, lambda x, g: backward(x, g) / 0))
    assert text == "in float64 the candidate has a result that is not finite where the oracle's is"
