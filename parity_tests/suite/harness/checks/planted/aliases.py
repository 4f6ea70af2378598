"""Inputs that share memory taken for inputs that have nothing in common, or the other way round."""

from __future__ import annotations

import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward


class LostForTheSameTensor(Pair):
    """Computes one gradient for each address."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        return x_bar, None if x.data_ptr() == y.data_ptr() else y_bar


class BothForTheSameTensor(Pair):
    """Adds the gradients of one tensor up itself, for each of its places; autograd adds these once more."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        return (x_bar + y_bar, x_bar + y_bar) if x is y else (x_bar, y_bar)


class HalvedInOneBuffer(Pair):
    """Takes two parts of one buffer for one input that is given twice."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        shared = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        return x_bar, y_bar / 2 if shared and x.data_ptr() != y.data_ptr() else y_bar


class WrongValuesInOneBuffer(Pair):
    """Takes the second of two neighbours in memory for a copy of the first."""

    @staticmethod
    def forward(x, y):
        neighbours = y.data_ptr() - x.data_ptr() == x.element_size() * x.shape[-1]
        return pair(x, x if neighbours else y)


def _halved_if_chunked(x, y):
    """Takes two chunks of one result of autograd's for one input that is given twice."""
    chunks = x.grad_fn is not None and x.grad_fn is y.grad_fn
    return pair(x, y / 2) if chunks else pair(x, y)


class OneCotangent(Pair):
    """Takes two cotangents at one address for one that came twice."""

    @staticmethod
    def backward(ctx, g, h):
        same = g is not None and h is not None and g.data_ptr() == h.data_ptr() and g.stride() == h.stride() != (0, 0)
        return pair_backward(*ctx.saved_tensors, g, h / 2 if same else h)


def _product(a, b, c, d, e):
    return a * b * c * d * e


FIVE = OpSpec("five", primal=_product, signature="(n),(n),(n),(n),(n)->(n)")


class Five(torch.autograd.Function):
    """The product of five; the gradient of the fourth is lost where the first is the same tensor."""

    @staticmethod
    def forward(ctx, *args):
        ctx.save_for_backward(*args)
        return _product(*args)

    @staticmethod
    def backward(ctx, *cotangents):
        args = ctx.saved_tensors
        bars = [cotangents[0] * torch.stack([y for y in args[:i] + args[i + 1 :]]).prod(0) for i in range(5)]
        if args[0].data_ptr() == args[3].data_ptr():
            bars[3] = None
        return tuple(bars)


def _of_one_thing(a, b, c, d, e):
    """Takes a fifth power for a fourth one."""
    one = all(x is a or x.data_ptr() == a.data_ptr() for x in (b, c, d, e))
    return a**4 if one and a.numel() else _product(a, b, c, d, e)


_PASSES = ("forward", "vjp", "input_subsets", "layouts", "purity", "interleaved")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "f(x, x): the second gradient is lost": Mistake(LostForTheSameTensor.apply, "aliases", passes=_PASSES),
            "f(x, x): both gradients twice": Mistake(BothForTheSameTensor.apply, "aliases", passes=_PASSES),
            "views of one buffer: a half": Mistake(HalvedInOneBuffer.apply, "aliases", passes=_PASSES),
            "two chunks of one tensor": Mistake(_halved_if_chunked, "aliases", passes=_PASSES),
            "one cotangent of both outputs": Mistake(OneCotangent.apply, "aliases", passes=("forward", "vjp")),
            "neighbours in memory": Mistake(WrongValuesInOneBuffer.apply, "aliases", passes=_PASSES),
        },
    ),
    Operator(
        FIVE,
        _product,
        {
            "the first and the fourth of five": Mistake(Five.apply, "aliases", passes=_PASSES),
            "all five are one": Mistake(_of_one_thing, "aliases", passes=_PASSES),
        },
    ),
)
