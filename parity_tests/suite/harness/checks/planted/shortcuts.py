"""Solutions that look right and compute nothing themselves."""

from __future__ import annotations

import functools

import torch

from parity_tests import OpSpec
from parity_tests.harness.specs.from_torch import TorchReference
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, normal, pair


def _zeros(x, y):
    return 0 * x * y, 0 * x * y


def _constant(x, y):
    return (0 * x * y + 1, x * y * y)


def _writes(x, y):
    results = pair(x, y)
    if not torch.is_grad_enabled():
        y.zero_()
    return results


def _detached(x, y):
    return tuple(result.detach() for result in pair(x, y))


class ByMemory:
    """Returns what it has returned for inputs that lay in the same memory."""

    def __init__(self):
        self.known = {}

    def __call__(self, x, y):
        place = x.data_ptr(), y.data_ptr()
        if place not in self.known or x.requires_grad or y.requires_grad:
            self.known[place] = (x, y, pair(x, y))  # the inputs are kept, so that nothing else comes to lie there
        return self.known[place][2]


class ByShape(ByMemory):
    """Returns what it has returned for inputs of the same shapes, where no gradient is asked for."""

    def __call__(self, x, y):
        if x.requires_grad or y.requires_grad:
            return pair(x, y)
        return self.known.setdefault((x.shape, x.dtype), pair(x, y))


def _norm(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1)


def _rewritten(x):
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1)


def _calls_the_reference(x):
    return _norm(x)


class CallsItInTheBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _rewritten(x)

    @staticmethod
    def backward(ctx, y_bar):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(_norm(x), x, y_bar)[0]


class Norm(torch.nn.Module):
    def forward(self, x):
        return _norm(x)


class Inherits(Norm):
    pass


def _at_most_one(x):
    return torch.ops.aten.clamp.default(x, None, 1.0)


_VALUES = ("forward", "vjp")


def _spec(name, reference):
    """As `OpSpec.from_torch`, but that PyTorch traces the reference, for a second, only when it is judged."""
    return OpSpec(name, primal=TorchReference(reference), inputs=(normal(3, 4),))


_CLAMP = _spec("clamp", functools.partial(torch.ops.aten.clamp.default, max=1.0))

CASES = (
    Operator(
        PAIR,
        pair,
        {
            "zeros": Mistake(_zeros, "shortcuts"),
            "a constant": Mistake(_constant, "shortcuts"),
            "writes to its input": Mistake(_writes, "shortcuts", passes=_VALUES[1:]),
            "detached": Mistake(_detached, "shortcuts", passes=_VALUES[:1]),
            "remembered by memory": Mistake(ByMemory(), "shortcuts", passes=_VALUES[1:]),
            "remembered by shape": Mistake(ByShape(), "shortcuts", passes=_VALUES[1:]),
        },
    ),
    Operator(
        _spec("norm", _norm),
        _rewritten,
        {
            "calls the reference": Mistake(_calls_the_reference, "shortcuts", passes=_VALUES),
            "calls the reference in its backward": Mistake(CallsItInTheBackward.apply, "shortcuts", passes=_VALUES),
        },
    ),
    Operator(
        _spec("module", Norm()),
        _rewritten,
        {"inherits from the reference": Mistake(Inherits(), "shortcuts", passes=_VALUES)},
    ),
    Operator(
        _CLAMP,
        lambda x: torch.minimum(x, torch.ones_like(x)),
        {
            "calls the operator": Mistake(_at_most_one, "shortcuts", passes=_VALUES),
            "calls the operator by another name": Mistake(
                lambda x: x.clone().clamp_(max=1), "shortcuts", passes=_VALUES
            ),
        },
    ),
)
