"""Tensors that are used without being inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, normal, pair

_WEIGHT = normal(4, 5, seed=7)
_BIAS = np.zeros(5)
LAYER = OpSpec(
    "layer",
    primal=lambda x: jnp.tanh(x @ jnp.asarray(_WEIGHT, x.dtype) + jnp.asarray(_BIAS, x.dtype)),
    inputs=(normal(3, 4),),
)


def _parameters() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(_WEIGHT, requires_grad=True), torch.tensor(_BIAS, requires_grad=True)


def _of(x: torch.Tensor, *parameters: torch.Tensor) -> list[torch.Tensor]:
    """What a layer holds, in the format of its input."""
    return [p.to(x.dtype) for p in parameters]


def _right(weight: torch.Tensor, bias: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    weight, bias = _of(x, weight, bias)
    return torch.tanh(x @ weight + bias)


def _closed_over() -> Callable:
    """A Function that reads the weight from its closure, and gets only the bias as an input."""
    weight, bias = _parameters()

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, bias):
            y = torch.tanh(x @ weight + bias)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, y_bar):
            (y,) = ctx.saved_tensors
            before_bar = (1 - y * y) * y_bar
            return before_bar @ weight.mT, before_bar.sum(0)

    return lambda x: Layer.apply(x, bias)


class Bound:
    """A layer whose method is the candidate; the backward counts the gradient of its bias once for all rows."""

    def __init__(self) -> None:
        self.weight, self.bias = _parameters()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output."""
        weight, bias = self.weight, self.bias

        class Add(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, b):
                return x + b

            @staticmethod
            def backward(ctx, y_bar):
                return y_bar, y_bar.mean(0)

        return torch.tanh(Add.apply(x @ weight, bias))


class _Silent(torch.autograd.Function):
    """The identity without a gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, y_bar):
        return None


class ModuleLayer(torch.nn.Module):
    """A module of which the spec has the input alone; if it is wrong its weight has no gradient."""

    def __init__(self, right: bool) -> None:
        super().__init__()
        self.weight, self.bias = (torch.nn.Parameter(p.detach()) for p in _parameters())
        self.right = right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output."""
        weight = self.weight if self.right else _Silent.apply(self.weight)
        return torch.tanh(x @ weight.to(x.dtype) + self.bias.to(x.dtype))


class Buffered(torch.nn.Module):
    """The layer with its weight and bias as buffers, of which it can lose the gradients."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, right: bool) -> None:
        super().__init__()
        for name, x in zip(("weight", "bias"), _parameters(), strict=True):
            self.register_buffer(name, x.detach().requires_grad_())
        self.right = right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer's output."""
        weight = self.weight if self.right else _Silent.apply(self.weight)
        return torch.tanh(x @ weight.to(x.dtype) + self.bias.to(x.dtype))


def _closing_over(module: torch.nn.Module) -> Callable:
    return lambda x: module(x)


_SCALE = torch.ones((), dtype=torch.float64, requires_grad=True)


def _times_a_global(x, y):
    first, second = pair(x, y)
    return first, _SCALE.to(x.dtype) * second


def _of_a_global(x, y):
    first, second = pair(x, y)
    return first, _Silent.apply(_SCALE) * second


_PASSES = ("forward", "vjp", "input_subsets", "purity", "layouts")
CASES = (
    Operator(
        LAYER,
        functools.partial(_right, *_parameters()),
        {
            "in a closure of the Function": Mistake(_closed_over(), "captured", passes=_PASSES),
            "attributes of an object": Mistake(Bound(), "captured", passes=_PASSES),
        },
    ),
    Operator(
        replace(LAYER, name="module"),
        ModuleLayer(True),
        {"a parameter": Mistake(ModuleLayer(False), "captured", passes=_PASSES)},
    ),
    Operator(
        replace(LAYER, name="buffers"),
        Buffered(True),
        {"a buffer": Mistake(Buffered(False), "captured", passes=_PASSES)},
    ),
    Operator(
        replace(LAYER, name="buffers in a closure"),
        _closing_over(Buffered(True)),
        {"a buffer in a closure": Mistake(_closing_over(Buffered(False)), "captured", passes=_PASSES)},
    ),
    Operator(PAIR, _times_a_global, {"a global behind a wall": Mistake(_of_a_global, "captured", passes=_PASSES)}),
)
