"""What a program learns from the JSON alone: of 20 backwards with a mistake, which mistake it is, or where."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from torch import Tensor
from torch.autograd import Function

from parity_tests import OpSpec, crosscheck

Backward = Callable[..., Any]

ELEMENTWISE, PAIR = "(n,m)->(n,m)", "(n,m),(n,m)->(n,m)"


def _rms(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3) * w


def _rms_in_jax(x: jax.Array, w: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-3) * w


def _rms_backward(g: Tensor, x: Tensor, w: Tensor, term: float = 1, axis: int = -1) -> tuple[Tensor, Tensor]:
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-3)
    return r * g * w - term * r**3 * x * (g * w * x).mean(axis, keepdim=True), (g * x * r).sum(0)


def _softmax_backward(g: Tensor, x: Tensor, term: float = 1, axis: int = -1) -> Tensor:
    y = torch.softmax(x, -1)
    return y * (g - term * (g * y).sum(axis, keepdim=True))


SPECS = {
    "mul": OpSpec("mul", lambda x, y: x * y, PAIR, input_names=["x", "y"]),
    "square": OpSpec("square", lambda x: x * x, ELEMENTWISE, input_names=["x"]),
    "cube": OpSpec("cube", lambda x: x**3, ELEMENTWISE, input_names=["x"]),
    "lower": OpSpec("lower", lambda x: jnp.tril(x * x), "(n,n)->(n,n)", input_names=["x"]),
    "relu": OpSpec("relu", lambda x: jnp.maximum(x, 0), ELEMENTWISE, input_names=["x"]),
    "tanh": OpSpec("tanh", jnp.tanh, ELEMENTWISE, input_names=["x"]),
    "exp": OpSpec("exp", jnp.exp, ELEMENTWISE, input_names=["x"]),
    "sigmoid": OpSpec("sigmoid", lambda x: 1 / (1 + jnp.exp(-x)), ELEMENTWISE, input_names=["x"]),
    "unequal": OpSpec("unequal", lambda x, y: x * y * y, PAIR, input_names=["x", "y"]),
    "scale": OpSpec("scale", lambda x, w: x * w, "(n,d),(d)->(n,d)", input_names=["x", "w"]),
    "rms": OpSpec("rms", _rms_in_jax, "(n,d),(d)->(n,d)", input_names=["x", "w"]),
    "softmax": OpSpec("softmax", lambda x: jax.nn.softmax(x, -1), ELEMENTWISE, input_names=["x"]),
    "linear": OpSpec("linear", lambda x, w, b: x @ w + b, "(n,k),(k,m),(m)->(n,m)", input_names=["x", "w", "b"]),
}

FORWARDS: Mapping[str, Callable[..., Tensor]] = {
    "mul": torch.mul,
    "square": torch.square,
    "cube": lambda x: x**3,
    "lower": lambda x: torch.tril(x * x),
    "relu": torch.relu,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "unequal": lambda x, y: x * y * y,
    "scale": torch.mul,
    "rms": _rms,
    "softmax": lambda x: torch.softmax(x, -1),
    "linear": lambda x, w, b: x @ w + b,
}

# The mistake, the operator, its backward; and the words by which a reader of the JSON knows the mistake or its place.
PLANTED: list[tuple[str, str, Backward, str]] = [
    ("a sign", "mul", lambda g, x, y: (g * y, -g * x), r"y_bar = -oracle"),
    ("a factor 2", "square", lambda g, x: g * x, r"x_bar = 0\.5 \* oracle"),
    ("the factor 1 - y", "sigmoid", lambda g, x: g * torch.sigmoid(x), r"oracle / \(1 - output\)"),
    ("a term of a norm", "rms", lambda *a: _rms_backward(*a, term=0), r"x_bar lacks the term sum\(.*\) \* x"),
    ("the axis of a norm's mean", "rms", lambda *a: _rms_backward(*a, axis=0), r"mean along axis 0, and not 1"),
    ("a term of softmax", "softmax", lambda *a: _softmax_backward(*a, term=0), r"x_bar lacks the term"),
    ("the axis of softmax's sum", "softmax", lambda *a: _softmax_backward(*a, axis=0), r"along axis 0"),
    (
        "rows reversed",
        "linear",
        lambda g, x, w, b: (g @ w.T, (x.T @ g).flip(0), g.sum(0)),
        r"w_bar = .*reversed",
    ),
    ("the mean of a bias", "linear", lambda g, x, w, b: (g @ w.T, x.T @ g, g.mean(0)), r"0\.25 .*\(axis n is 4\)"),
    ("no bias", "linear", lambda g, x, w, b: (g @ w.T, x.T @ g, torch.zeros_like(b)), r"b_bar = 0"),
    ("the bound of a mask", "relu", lambda g, x: g * (x > -0.5), r"1/12 entries wrong, all in rows 2"),
    ("no mask", "relu", lambda g, x: g, r"x_bar = output_bar"),
    ("the diagonal of a mask", "lower", lambda g, x: torch.tril(2 * x * g, -1), r"wrong entries of x_bar are 0"),
    (
        "float32 inside",
        "tanh",
        lambda g, x: (g * (1 - torch.tanh(x.float()) ** 2)).to(x.dtype),
        r"right to float32's rounding",
    ),
    (
        "bfloat16 inside",
        "exp",
        lambda g, x: g * torch.exp(x.bfloat16()).to(x.dtype),
        r"bfloat16 numbers times output_bar",
    ),
    ("one row for the sum", "scale", lambda g, x, w: (g * w, (g * x)[0]), r"w_bar .* first entry in place of sum"),
    ("a mean for a sum", "scale", lambda g, x, w: (g * w, (g * x).mean(0)), r"w_bar = 0\.25 \* oracle \(axis n is 4\)"),
    ("gradients swapped", "unequal", lambda g, x, y: (2 * x * y * g, y * y * g), r"x_bar = the oracle's y_bar"),
    (
        "the last column",
        "cube",
        lambda g, x: 3 * x * x * g * (torch.arange(x.shape[1]) < x.shape[1] - 1),
        r"all in columns 2 of 3",
    ),
    ("the input for the output", "tanh", lambda g, x: g * (1 - x * x), r"with x in place of output"),
]

# PyTorch's formula has the output, and JAX's, which is differentiated, has not: no sum of it is the one that is wrong.
NOT_NAMED = {"the axis of softmax's sum"}


def _function(forward: Callable[..., Tensor], backward: Backward) -> Callable[..., Tensor]:
    class Planted(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> Tensor:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return backward(g, *ctx.saved_tensors)

    return Planted.apply


def _said(text: str) -> str:
    """The words of the first record that does not pass."""
    record = next(record for record in json.loads(text)["summary"] if record["verdict"] != "PASS")
    assert (record["verdict"], record["check"], bool(record["to_do"])) == ("MISMATCH", "vjp", True)
    return "\n".join(f"{wrong['label']}: {wrong['pattern']}; {wrong['looks_like']}" for wrong in record["wrong"])


def test_there_are_20_and_17_are_named():
    assert len(PLANTED) == len({mistake for mistake, *_ in PLANTED}) == 20
    assert len(PLANTED) - len(NOT_NAMED) >= 17


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "op", "backward", "words"), PLANTED, ids=[mistake for mistake, *_ in PLANTED])
def test_the_json_names_the_mistake_or_its_place(mistake: str, op: str, backward: Backward, words: str):
    report = crosscheck(_function(FORWARDS[op], backward), SPECS[op], checks=["vjp"], dtypes=["float64"], quick=True)
    said = _said(report.as_json())
    assert (re.search(words, said) is None) == (mistake in NOT_NAMED), said
