"""Certificates: a right conversion passes within derived bounds, and a wrong operator is named."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from torch import Tensor, nn

from gradparity import certify, to_jax
from jax_ref.aten import OPERATORS
from parity_tests.suite.conversion.compared import double, numbers


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(self.linear(x))
        return y.abs() * torch.tanh(y), y.argmax(-1)


def test_a_right_conversion_passes() -> None:
    f, _ = to_jax(Network(), numbers(5, 3).float())  # it is certified in float64
    certificate = certify(f, numbers(5, 3))
    certificate.raise_if_failed()
    names = [row.name for row in certificate.rows]
    assert {"output 0", "output 1", "new norm.running_mean", "gradient of linear.weight"} <= {*names}
    assert "gradient of argument 0" in names
    assert certificate.operators["aten::tanh"] == "pointwise"
    assert any(row.error for row in certificate.rows)
    assert not certificate.culprits
    assert "aten::abs" in certificate.conventions


def _factor(f: Callable) -> Callable:
    @functools.wraps(f)  # its signature is read
    def wrong(*args: Any, **kwargs: Any) -> jax.Array:
        return f(*args, **kwargs) * (1 + 1e-9)

    return wrong


def _no_gradient(f: Callable) -> Callable:
    @functools.wraps(f)
    def wrong(*args: Any, **kwargs: Any) -> jax.Array:
        return jax.lax.stop_gradient(f(*args, **kwargs))

    return wrong


def _half_gradient(f: Callable) -> Callable:
    @functools.wraps(f)
    def wrong(*args: Any, **kwargs: Any) -> jax.Array:
        y = f(*args, **kwargs)
        return jax.lax.stop_gradient(y / 2) + y / 2

    return wrong


@pytest.mark.parametrize("mistake", [_factor, _no_gradient, _half_gradient])
@pytest.mark.parametrize("name", ["aten::tanh", "aten::linear"])
def test_a_wrong_operator_is_named(mistake: Callable, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS._functions, name, mistake(OPERATORS[name]))
    certificate = certify(to_jax(Network(), numbers(5, 3).float())[0], numbers(5, 3))
    assert not certificate.passed
    assert {row.name.split(": ")[-1].split(",")[0].split(".")[0] for row in certificate.culprits} == {name}
    place = f'File "{__file__}"' if name == "aten::tanh" else "in forward: aten::linear, "
    assert all(place in str(row) for row in certificate.culprits)
    with pytest.raises(AssertionError, match="arrays agree; largest error"):
        certificate.raise_if_failed()


class Counts(nn.Module):
    """Changes from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = [0]

    def forward(self, x: Tensor) -> Tensor:
        self.calls[0] += 1
        return x * self.calls[0]


class LooksAtTypes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight if isinstance(self.weight, nn.Parameter) else x


class Views(nn.Module):
    """One buffer is a part of another, also in another dtype."""

    whole: Tensor
    part: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.zeros(3))
        self.register_buffer("part", self.whole[:2])

    def forward(self, x: Tensor) -> Tensor:
        self.part += 1
        return x * self.whole


@pytest.mark.parametrize("module", [Counts(), LooksAtTypes(), Views()], ids=lambda x: type(x).__name__)
def test_a_program_that_is_not_the_module_s_is_noticed(module: nn.Module) -> None:
    own = [*module.parameters(), *module.buffers()]
    numbers_before = [x.clone() for x in own]
    certificate = certify(to_jax(module, numbers(3))[0], numbers(3))
    assert not certificate.passed
    assert not certificate.culprits
    assert "each operator by itself agrees" in str(certificate)
    assert all(x is y for x, y in zip(own, [*module.parameters(), *module.buffers()], strict=True))
    assert all(torch.equal(x, y) for x, y in zip(own, numbers_before, strict=True))


def test_statistics_that_the_program_does_not_have_are_noticed() -> None:
    norm = nn.InstanceNorm1d(2, track_running_stats=True)
    certificate = certify(to_jax(norm, numbers(3, 2, 4))[0], numbers(3, 2, 4))
    rows = {row.name: row.reason for row in certificate.rows if not row.agrees}
    assert rows == dict.fromkeys(
        ("new running_mean", "new running_var"), "PyTorch writes to it, and the program does not"
    )


def test_another_number_of_results_is_noticed() -> None:
    class Grows(Counts):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            self.calls[0] += 1
            return (x,) * self.calls[0]

    certificate = certify(to_jax(Grows(), numbers(3))[0], numbers(3))
    assert not certificate.passed
    assert "JAX's shapes are [(3,), (3,)], PyTorch's [(3,), (3,), (3,)]" in str(certificate)


def test_a_function_of_masks_and_integers() -> None:
    def selected(x: Tensor, mask: Tensor) -> Tensor:
        return torch.sin(x[mask]) * mask.sum()

    mask = torch.tensor([True, False, True])
    certificate = certify(to_jax(selected, numbers(3), mask)[0], numbers(3), mask)
    certificate.raise_if_failed()
    assert certificate.read == ("argument 1",)
    assert "gradient of argument 0" in [row.name for row in certificate.rows]


def test_random_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"certify: the function draws random numbers, .* call the module's eval\(\)"):
        certify(to_jax(double(nn.Dropout()), jnp.ones(3))[0], numbers(3))


def test_complex_gradients_are_not_passed_over():
    f, _ = to_jax(lambda x: torch.complex(x, 2 * x), torch.ones(2, dtype=torch.float64))
    certificate = certify(f, torch.ones(2, dtype=torch.float64))
    assert not certificate.passed
    assert "gradients through complex arguments and results: not compared" in str(certificate)
