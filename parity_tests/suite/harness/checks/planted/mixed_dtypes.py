"""Functions that are right as long as all inputs have one dtype."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import torch
import torch.nn.functional as F

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, normal, pair, pair_backward


class HalvedIfPromoted(Pair):
    """A backward that scales the gradient of a float32 weight next to activations in 16 bits."""

    short = torch.bfloat16

    @classmethod
    def backward(cls, ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = Pair.backward(ctx, *cotangents)
        return x_bar, y_bar / 2 if (x.dtype, y.dtype) == (cls.short, torch.float32) else y_bar


class HalvedBesideFloat16(HalvedIfPromoted):
    """The same in the other format of 16 bits."""

    short = torch.float16


def _memory_of_another_dtype(x, y):
    """A kernel that takes the dtype of x for that of y's memory."""
    if (x.dtype, y.dtype) == (torch.bfloat16, torch.float32):
        y = y.view(torch.bfloat16)[..., : y.shape[-1]] + 0 * y
    return pair(x, y)


def _float64_of_two(x, y):
    """Promotes to what neither input has."""
    return pair(x, y) if x.dtype == y.dtype else pair(x.double(), y)


def _only_one_is_cast(x, y):
    """Loses the sign where it casts x down to y."""
    return pair(x.abs().to(y.dtype), y) if x.dtype.itemsize > y.dtype.itemsize else pair(x, y)


class RefusesByWords(Pair):
    """Takes two dtypes, and refuses their gradient in words of PyTorch's."""

    @staticmethod
    def backward(ctx, *cotangents):
        """Both gradients, of two inputs of one dtype."""
        x, y = ctx.saved_tensors
        if x.dtype != y.dtype:
            raise RuntimeError("expected scalar type Float but found BFloat16")
        return pair_backward(x, y, *cotangents)


class PairModule(torch.nn.Module):
    """The operator as a module."""

    def forward(self, x, y):
        """Both outputs."""
        return Pair.apply(x, y)


def _layer_norm(x, weight, bias):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5) * weight + bias


LAYER_NORM = OpSpec("layer_norm", primal=_layer_norm, inputs=(normal(4, 6), normal(6), normal(6, seed=1)))

_PASSES = ("forward", "vjp", "low_precision", "input_subsets", "purity", "autocast")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a gradient halved": Mistake(HalvedIfPromoted.apply, "mixed_dtypes", "bfloat16", passes=_PASSES),
            "halved beside float16": Mistake(HalvedBesideFloat16.apply, "mixed_dtypes", "bfloat16", passes=_PASSES),
            "PyTorch's words of its own": Mistake(RefusesByWords.apply, "mixed_dtypes", "bfloat16", passes=_PASSES),
            "memory of another dtype": Mistake(_memory_of_another_dtype, "mixed_dtypes", "bfloat16", passes=_PASSES),
            "promoted to float64": Mistake(_float64_of_two, "mixed_dtypes", "bfloat16", passes=_PASSES),
            "a sign lost": Mistake(_only_one_is_cast, "mixed_dtypes", "float64", passes=("forward", "vjp", "autocast")),
        },
    ),
    Operator(replace(PAIR, name="pair function"), Pair.apply, {}),
    Operator(replace(PAIR, name="pair module"), PairModule(), {}),
    Operator(LAYER_NORM, lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias), {}),
)
