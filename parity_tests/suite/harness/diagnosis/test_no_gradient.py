"""A gradient that is zero because there is none: the failure says so, and how an input that has none is declared."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.report.results import Failure


def _scaled(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return x * x * t


class Scaled(torch.autograd.Function):
    """x * x * t, where t has no gradient."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, t)
        return _scaled(x, t)

    @staticmethod
    def backward(ctx, y_bar: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        x, t = ctx.saved_tensors
        return 2 * x * t * y_bar, None


class OfZeros(Scaled):
    """The same with zeros in place of None."""

    @staticmethod
    def backward(ctx, y_bar: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        x, t = ctx.saved_tensors
        return 2 * x * t * y_bar, torch.zeros_like(t)


class Half(Scaled):
    """The same with a factor that is wrong, too."""

    @staticmethod
    def backward(ctx, y_bar: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        x, t = ctx.saved_tensors
        return x * t * y_bar, None


@functools.cache
def _by_inputs() -> OpSpec:
    return OpSpec.from_torch(_scaled, inputs="x: (n,d), t: (n,d)")


BY_ARRAYS = OpSpec("scaled", lambda x, t: x * x * t, inputs=(np.ones(3), np.ones(3)), input_names=["x", "t"])
NONE = "t_bar = 0: the candidate returns None for it; an input that has no gradient is declared constant: "
CORRECT = "Correct the factor or the term that the failure names; "


def _failure(call: type[torch.autograd.Function], spec: OpSpec, check: str = "vjp") -> Failure:
    (failure,) = crosscheck(call.apply, spec, checks=[check], dtypes=["float64"]).failures
    assert failure.unexplained == ()
    return failure


@pytest.mark.parametrize(
    ("of", "declared"),
    [
        pytest.param(
            _by_inputs,
            '"t: (n,d) constant" among the inputs, or constants=["t"] of OpSpec',
            marks=pytest.mark.slow,
        ),
        (lambda: BY_ARRAYS, 'constants=["t"] of OpSpec'),
    ],
    ids=["inputs", "arrays"],
)
def test_none_in_place_of_a_gradient(of: Callable[[], OpSpec], declared: str) -> None:
    spec = of()
    failure = _failure(Scaled, spec)
    assert failure.wrong[0].looks_like == f"{NONE}{declared}"
    assert failure.to_do == "Return the gradient of t, or declare t constant if it is to have none"
    assert _failure(Scaled, spec, "linearity").wrong[0].looks_like == f"{NONE}{declared}"


@pytest.mark.slow
def test_what_the_failure_says_mends_it() -> None:
    spec = OpSpec.from_torch(_scaled, inputs="x: (n,d), t: (n,d) constant")
    assert crosscheck(Scaled.apply, spec, checks=["forward", "vjp"], dtypes=["float64"]).passed
    spec = OpSpec(
        "scaled", lambda x, t: jnp.square(x) * t, inputs=BY_ARRAYS.inputs, input_names=["x", "t"], constants=["t"]
    )
    assert crosscheck(Scaled.apply, spec, checks=["forward", "vjp"], dtypes=["float64"]).passed


@pytest.mark.slow
def test_the_only_input_is_not_to_be_declared_constant() -> None:
    spec = OpSpec.from_torch(_scaled, inputs="x: (n,d) constant, t: (n,d)")
    failure = _failure(Scaled, spec)
    assert failure.wrong[0].looks_like == "t_bar = 0: the candidate returns None for it"
    assert failure.to_do == "Return the gradient of t"


def test_zeros_are_not_taken_for_none() -> None:
    failure = _failure(OfZeros, BY_ARRAYS)
    assert failure.wrong[0].looks_like == "t_bar = 0"
    assert failure.to_do.startswith(CORRECT)


def test_beside_another_wrong_gradient_the_page_of_the_check_says_what_to_do() -> None:
    failure = _failure(Half, BY_ARRAYS)
    assert failure.wrong[0].looks_like == "x_bar = 0.5 * oracle"
    assert (failure.wrong[1].looks_like or "").startswith(NONE)
    assert failure.to_do.startswith(CORRECT)
