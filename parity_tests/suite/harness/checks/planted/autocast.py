"""What only a call under autocast does."""

from __future__ import annotations

import torch

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, pair, pair_backward


def _always_float16(x, y):
    if torch.is_autocast_enabled(x.device.type):
        x, y = x.half(), y.half()
    return pair(x, y)


def _another_path(x, y):
    return pair(x / 2, y) if torch.is_autocast_enabled(x.device.type) else pair(x, y)


def _another_in_a_network(x, y):
    layer = x.grad_fn is not None and isinstance(y, torch.nn.Parameter)
    return pair(x, y / 2) if layer and torch.is_autocast_enabled(x.device.type) else pair(x, y)


def _another_in_float16(x, y):
    kind = x.device.type
    cast = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) is torch.float16
    return pair(x, y / 2) if cast else pair(x, y)


class BackwardInside(Pair):
    """A backward that takes what autocast does to its products for granted."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        return x_bar, y_bar / 2 if torch.is_autocast_enabled(x.device.type) else y_bar


def _refuses_by_words(x, y):
    if torch.is_autocast_enabled(x.device.type):
        raise RuntimeError("expected m1 and m2 to have the same dtype")
    return pair(x, y)


_PASSES = ("forward", "vjp", "purity", "jvp_of_jvp", "make_fx", "compile")
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "float16, whatever autocast has": Mistake(_always_float16, "autocast", passes=_PASSES),
            "another path under autocast": Mistake(_another_path, "autocast", passes=_PASSES),
            "another path in a layer under autocast": Mistake(_another_in_a_network, "autocast", passes=_PASSES),
            "PyTorch's words of its own": Mistake(_refuses_by_words, "autocast", passes=_PASSES),
            "another path in float16": Mistake(_another_in_float16, "autocast", passes=_PASSES),
            "another backward inside of it": Mistake(
                BackwardInside.apply, "autocast", passes=("forward", "vjp", "purity")
            ),
        },
    ),
)
