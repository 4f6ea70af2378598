"""What code in PyTorch says that its values alone do not: formats, and what is detached."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import jax
import numpy as np
import pytest
import torch
from torch import Tensor

from parity_tests import AxisSize, OpSpec
from parity_tests.harness.numbers.numerics import pinned_jax
from parity_tests.harness.specs.from_torch import TorchReference
from parity_tests.suite.harness.specs.torch_references import rms_norm

X = np.array([0.3, -1.25, 2.6])


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, *bars):
        return bars[0] * 1000  # which has no part in the oracle


def _unrecorded(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = 3 * x
    return x * y


def _recorded_again(x: Tensor) -> Tensor:
    with torch.no_grad():
        x.sum()
    return 3 * x * x


def _inference(x: Tensor) -> Tensor:
    with torch.inference_mode():
        y = 3 * x
    return x * y


def _in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:] *= 2
    y.add_(x)
    return y


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reference", "values", "gradient"),
    [
        (lambda x: x * (3 * x).detach(), 3 * X * X, 3 * X),
        (lambda x: x * (3 * x).data, 3 * X * X, 3 * X),
        (lambda x: x * x.sum().item(), X * X.sum(), np.full(3, X.sum())),
        (_unrecorded, 3 * X * X, 3 * X),
        (_inference, 3 * X * X, 3 * X),
        (_recorded_again, 3 * X * X, 6 * X),
        (_in_place, X * [2, 3, 3], np.array([2.0, 3.0, 3.0])),
        (lambda x: _Doubled.apply(x), 2 * X, np.full(3, 2.0)),
        (lambda x: x.half().to(torch.bfloat16).float() / 3, X / 3, np.full(3, 1 / 3)),
        (lambda x: x * x.long(), X * [0, -1, 2], np.array([0.0, -1.0, 2.0])),
        (lambda x: x * torch.arange(3) / torch.tensor([3, 3, 3]), X * [0, 1 / 3, 2 / 3], np.array([0, 1 / 3, 2 / 3])),
        (lambda x: x * torch.tensor(0.1, dtype=torch.float32), X * 0.1, np.full(3, 0.1)),
        (lambda x: torch.zeros(3, dtype=torch.float32) @ x + x, X, np.ones(3)),
    ],
    ids=[
        "detach",
        "data",
        "item",
        "no_grad",
        "inference",
        "after_no_grad",
        "in_place",
        "Function",
        "casts",
        "to_int",
        "of_int",
        "constant",
        "mixed",
    ],
)
def test_values_and_gradient(reference: Callable, values: np.ndarray, gradient: np.ndarray) -> None:
    primal = TorchReference(reference)
    with pinned_jax():
        np.testing.assert_allclose(primal(X), values, rtol=1e-15)
        np.testing.assert_allclose(jax.grad(lambda x: primal(x).sum())(X), gradient, rtol=1e-15)


@pytest.mark.slow
def test_autocast_does_nothing() -> None:
    def reference(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    with pinned_jax():
        np.testing.assert_allclose(TorchReference(reference)(X), X @ X, rtol=1e-15)


@pytest.mark.slow
def test_a_reference_that_rounds_is_not_judged_in_float64() -> None:
    assert OpSpec.from_torch(rms_norm, "(n,d),(d)->(n,d)").formats == ("float32", "bfloat16", "float16")
    assert OpSpec.from_torch(rms_norm, "(n,d),(d)->(n,d)", dtypes=["float64"]).formats == ("float64",)
    assert "float64" in OpSpec.from_torch(lambda x: x.to(x.dtype).double(), "(n)->(n)", name="op").formats


@pytest.mark.slow
def test_only_a_gradient_that_is_no_derivative_is_a_surrogate() -> None:
    def stable(x: Tensor) -> Tensor:
        shifted = x - x.amax().detach()
        return shifted - shifted.exp().sum().log()

    assert OpSpec.from_torch(stable, "(n)->(n)", sizes="n >= 1").surrogate is None
    assert OpSpec.from_torch(_unrecorded, "(n)->(n)").surrogate is not None


@pytest.mark.slow
def test_keyword_parameters_and_axis_sizes() -> None:
    def scaled(x: Tensor, *, factor: float, count: int) -> Tensor:
        return x * factor + count

    spec = OpSpec.from_torch(scaled, "(n)->(n)", params={"factor": 0.5, "count": AxisSize("n")})
    with pinned_jax():
        np.testing.assert_allclose(spec.primal(X, **spec.params_at({"n": 3})), X / 2 + 3)
        np.testing.assert_allclose(spec.primal(X, **spec.params_at({"n": 4})), X / 2 + 4)


@pytest.mark.slow
def test_an_optional_input_and_arrays_of_another_format() -> None:
    def linear(x: Tensor, bias: Tensor | None = None) -> Tensor:
        return 2 * x if bias is None else 2 * x + bias

    primal = TorchReference(linear)
    with pinned_jax():
        np.testing.assert_array_equal(primal(X, None), 2 * X)
        np.testing.assert_array_equal(primal(X, X), 3 * X)
        assert primal(X.astype(np.float32), None).dtype == np.float32
        assert primal(X + 1j, None).dtype == np.complex128


@pytest.mark.slow
def test_it_is_sent_to_another_process() -> None:
    sent = pickle.loads(pickle.dumps(OpSpec.from_torch(rms_norm, "(n,d),(d)->(n,d)")))
    with pinned_jax():
        np.testing.assert_allclose(sent.primal(X[None], X), rms_norm(*map(torch.tensor, (X[None], X))), rtol=1e-6)
