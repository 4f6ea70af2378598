"""A reference that cannot be called with the inputs and parameters of a specification: the remedy, before any work."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

from parity_tests import OpSpec
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.specs import from_torch
from parity_tests.suite.marks import fast


def norm(x: torch.Tensor, w: torch.Tensor, *, dim: int = -1, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(dim, keepdim=True) + eps) * w


def along(x: torch.Tensor, /, *, dim: int) -> torch.Tensor:
    return x.cumsum(dim)


class Layer(torch.nn.Module):
    """Of two inputs, with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y) * self.weight


@functools.wraps(norm)
def with_weights(x: torch.Tensor, **params: float) -> torch.Tensor:
    """It gives w itself, although `inspect.signature` shows the signature of `norm`."""
    return norm(x, torch.ones(x.shape[-1], dtype=x.dtype), **params)


@pytest.mark.parametrize(
    ("reference", "inputs", "params", "message"),
    [
        pytest.param(
            norm,
            "x: (n,d)",
            {},
            'the reference, norm, takes w, too: add to the inputs what is a tensor, with its axes, such as "x: (n,d), '
            'w: (d)", and to the parameters what is none, such as "w=1"',
            id="an input more",
        ),
        pytest.param(
            norm,
            "x: (n,d), w: (d), b: (d)",
            {},
            "the reference, norm, takes 2 inputs, in order, and 3 are given: leave out b, or name a function that "
            "takes all of them in order",
            id="an input less",
        ),
        pytest.param(
            norm,
            "x: (n,d), w: (d)",
            {"epsilon": 1e-5},
            "the reference, norm, has no parameter 'epsilon' (did you mean 'eps'?); it has dim, eps",
            id="another name",
        ),
        pytest.param(
            torch.nn.functional.silu,
            "x: (n)",
            {"beta": 2.0},
            "the reference, silu, has no parameter 'beta'; it has inplace",
            id="a name like none",
        ),
        pytest.param(
            torch.nn.functional.layer_norm,
            "x: (n,4), weight: (4)",
            {"normalized_shape": (4,)},
            "the reference, layer_norm, has 'normalized_shape' in place 2, where weight is, and as a parameter, too",
            id="another order",
        ),
        pytest.param(
            along,
            "x: (n)",
            {},
            'the reference, along, needs the parameter dim: give it among the parameters, such as "dim=1"',
            id="a parameter",
        ),
        pytest.param(
            Layer(),
            "x: (n,3)",
            {},
            "the reference, Layer.forward, takes y, too: add to the inputs what is a tensor, with its axes, such as "
            '"x: (n,3), y: (3)", and to the parameters what is none, such as "y=1"',
            id="a module",
        ),
    ],
)
def test_the_remedy(
    monkeypatch: pytest.MonkeyPatch, reference: Callable, inputs: str, params: dict, message: str
) -> None:
    def worked(*args: object) -> None:
        raise AssertionError("it is exported or run")

    for name in ("_least_sizes", "with_outputs"):
        monkeypatch.setattr(from_torch, name, worked)
    with pytest.raises(CannotConvert) as raised:
        OpSpec.from_torch(reference, inputs=inputs, params=params)
    assert str(raised.value) == message


def test_a_signature_in_place_of_a_line_of_inputs() -> None:
    with pytest.raises(
        CannotConvert, match=r"norm, takes w, too: add to the inputs what is a tensor, with its axes, and to"
    ):
        OpSpec.from_torch(norm, "(n,d)->(n,d)")


@fast("function", "module")
@pytest.mark.parametrize(
    ("reference", "inputs", "params"),
    [
        (norm, "x: (n,d), w: (d)", {"eps": 1e-5}),
        (Layer(), "x: (n,3), y: (n,3)", {}),
        (Layer(), "x: (n,3), y: (n,3), weight: (3)", {}),
        (torch.relu, "x: (n)", {}),
        (with_weights, "x: (n,d)", {"eps": 1e-5}),
        (lambda *xs, **params: xs[0] * xs[1], "x: (n), y: (n)", {"any": 1}),
    ],
    ids=["function", "module", "its parameter", "in C", "wrapped", "anything"],
)
def test_what_can_be_called_is_not_refused(reference: Callable, inputs: str, params: dict) -> None:
    assert OpSpec.from_torch(reference, inputs=inputs, params=params).count >= 1


def of_a_list(xs: list[torch.Tensor]) -> torch.Tensor:
    return xs[0] * xs[1]


def test_nested_arguments_are_counted_as_they_are_given() -> None:
    spec = OpSpec.from_torch(of_a_list, inputs="x: (n), y: (n)", arguments=(["x", "y"],))
    assert (spec.count, str(spec.signature)) == (2, "(n),(n)->(n)")
    with pytest.raises(CannotConvert, match="of_a_list, takes 1 inputs, in order, and 2 are given"):
        OpSpec.from_torch(of_a_list, inputs="x: (n), y: (n)", arguments=("x", ["y"]))
