"""What `crosscheck` takes for a function of tensors, and what for one of JAX's arrays."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor

from parity_tests import OracleError, crosscheck
from parity_tests.harness.judging.references import is_of_tensors, spec_of
from parity_tests.harness.specs.from_torch import TorchReference

X = np.linspace(-1, 1, 6).reshape(2, 3)


def _polymorphic(x):
    return x * x


def _branching(x: Tensor) -> Tensor:
    return torch.sin(x) if x.sum() > 0 else torch.cos(x)


def _failing_in_pytorch(x: Tensor) -> Tensor:
    return torch.matmul(x, x)


def _failing_in_jax(x):
    return jnp.matmul(x, x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.tanh, True),
        (torch.nn.Tanh(), True),
        (lambda x: x.softmax(-1), True),
        (lambda x: torch.sin(x), True),
        (_branching, True),
        (_failing_in_pytorch, True),
        (_failing_in_jax, False),
        (_polymorphic, False),
        (jnp.tanh, False),
        (jax.jit(lambda x: x), False),
        (lambda x: jnp.sin(x), False),
    ],
    ids=["operator", "module", "method", "lambda", "branching", "failing", "failing jax", "both", "jnp", "jit", "jax"],
)
def test_which_it_is(function: Callable, expected: bool) -> None:
    assert is_of_tensors(function, (X,)) is expected
    assert is_of_tensors(lambda tree: function(tree["x"]), ({"x": X},)) is expected or "failing" in str(function)


def test_a_torch_function_at_given_inputs() -> None:
    spec = spec_of(lambda x, w: torch.tanh(x) @ w, (X, torch.ones(3)), "op")
    assert isinstance(spec.primal, TorchReference)
    report = crosscheck(lambda x, w: torch.tanh(x) @ w, spec, checks=["forward", "vjp", "jvp"], quick=True)
    assert report.passed, report


@pytest.mark.slow
def test_a_module_at_given_inputs_has_its_parameters_for_inputs() -> None:
    torch.manual_seed(0)
    reference, kernel = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    spec = spec_of(reference, (X,), "linear")
    assert spec.names == ("input", "weight", "bias")
    options = {"checks": ["forward", "vjp"], "dtypes": ["float64"], "progress": False}
    report = crosscheck(kernel, reference, inputs=(X,), **options)
    assert report.passed, report

    class Wrong(torch.nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.T.detach() + self.bias

    wrong = crosscheck(Wrong(3, 2), reference, inputs=(X,), **options)
    assert {row.check: str(row.verdict) for row in wrong.rows if row.candidate == "Wrong"} == {
        "forward": "PASS",
        "vjp": "MISMATCH",
    }


def test_errors_are_those_of_the_side_that_the_function_is_written_for() -> None:
    with pytest.raises(OracleError, match="primal fails on inputs"):
        crosscheck(torch.square, _failing_in_jax, inputs=(X,))
    with pytest.raises(ValueError, match=r"in _failing_in_pytorch: torch.export cannot read the function"):
        crosscheck(torch.square, _failing_in_pytorch, inputs=(X,))
    with pytest.raises(ValueError, match=r"in _branching: .* torch.where"):
        crosscheck(torch.square, _branching, inputs=(X,))
