"""Functions that are right while they are trained, step by step, on plain tensors."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, Pair, normal, pair, pair_backward


def _in_training_only(x, y):
    return Pair.apply(x, y) if torch.is_grad_enabled() else pair(x * 0.5, y)


def _in_training_of_weights_only(x, y):
    return pair(x, y * 0.5) if y.requires_grad and not torch.is_grad_enabled() else pair(x, y)


class NoGradientBesideFrozen(Pair):
    """Takes a layer whose weight is frozen for one that need not be differentiated at all."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Whether the weight is frozen, too."""
        Pair.setup_context(ctx, inputs, output)
        ctx.frozen = isinstance(inputs[1], torch.nn.Parameter) and not inputs[1].requires_grad

    @staticmethod
    def backward(ctx, *cotangents):
        x_bar, y_bar = Pair.backward(ctx, *cotangents)
        return None if ctx.frozen else x_bar, y_bar


def _not_inferred(x, y):
    return pair(x, y * 0.5) if torch.is_inference_mode_enabled() else pair(x, y)


def _an_order_of_its_own(x, y):
    first, second = pair(x, y)
    return (first, second.flip(0)) if torch.are_deterministic_algorithms_enabled() else (first, second)


def _kept(by_address):
    """Keeps its results where there are no gradients: by shape, or in one place of memory for all."""
    kept = {}

    def call(x, y):
        if torch.is_grad_enabled():
            return Pair.apply(x, y)
        if x.shape not in kept:
            kept[x.shape] = pair(x, y)
        elif by_address:
            for old, new in zip(kept[x.shape], pair(x, y), strict=True):
                old.copy_(new)
        return tuple(z if by_address else z + 0 for z in kept[x.shape])

    return call


def _weights_by_address():
    """Keeps a copy of its weight where there are no gradients, and sees no step of an optimizer."""
    kept = {}

    def call(x, y):
        if torch.is_grad_enabled():
            return Pair.apply(x, y)
        key = y.data_ptr(), y.shape, y.dtype
        return pair(x, kept.setdefault(key, (y.clone(), y))[0])

    return call


def _refuses_inference(x, y):
    if torch.is_inference_mode_enabled():
        raise RuntimeError("Inference tensors cannot be saved for backward")
    return pair(x, y)


class NotDeterministic(Pair):
    """A backward with a path of its own where the algorithms must be deterministic."""

    @staticmethod
    def backward(ctx, *cotangents):
        x_bar, y_bar = Pair.backward(ctx, *cotangents)
        return x_bar, y_bar / 2 if torch.are_deterministic_algorithms_enabled() else y_bar


class FusedAccumulation(Pair):
    """Counts the gradient of a weight again, as if it were not the fused kernel's."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        return x_bar, 1.5 * y_bar if isinstance(y, torch.nn.Parameter) else y_bar


class FrozenTogether(Pair):
    """Takes a call of parameters alone, as of a tied embedding, for one that nobody trains."""

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        x_bar, y_bar = pair_backward(x, y, *cotangents)
        return x_bar, 0 * y_bar if all(isinstance(z, torch.nn.Parameter) for z in (x, y)) else y_bar


def _right_at_the_start(x, y):
    """Takes an input with a history for one that another kernel has scaled already."""
    return pair(x if x.grad_fn is None else 1.5 * x, y)


def _folded(x, y):
    """Has a path of its own for an activation beside a weight, and only for these."""
    return pair(x if x.is_leaf or not y.is_leaf else x.detach(), y)


class LeafAlone(Pair):
    """Passes on a gradient that another node of the graph receives with a factor."""

    @staticmethod
    def backward(ctx, *cotangents):
        x_bar, y_bar = Pair.backward(ctx, *cotangents)
        to_a_leaf = type(ctx.next_functions[0][0]).__name__ == "AccumulateGrad"
        return x_bar if to_a_leaf else 2 * x_bar, y_bar


class PairModule(torch.nn.Module):
    """The operator as a module."""

    def forward(self, x, y):
        """Both outputs."""
        return Pair.apply(x, y)


class Scaled(PairModule):
    """What a dropout by hand does that scales on the wrong side."""

    def forward(self, x, y):
        """Both outputs."""
        return Pair.apply(x, y) if self.training else pair(x * 0.5, y)


class InferredFaster(PairModule):
    """Has a path for deployment, which is wrong, and reads a table that is no statistic."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("two", torch.tensor(2.0))

    def forward(self, x, y):
        """Both outputs."""
        fast = not (self.training or torch.is_grad_enabled())
        return Pair.apply(x, y / self.two if fast else y)


class NoGradientInEval(PairModule):
    """Detaches its second input where it takes itself for frozen."""

    def forward(self, x, y):
        """Both outputs."""
        return Pair.apply(x, y if self.training else y.detach())


class Nested(torch.nn.Module):
    """Has the mistake in a part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = Scaled()

    def forward(self, x, y):
        """Both outputs."""
        return self.part(x, y)


_REACHED = Scaled()


def _by_closure(x, y):
    return _REACHED(x, y)


class RunningMean(torch.nn.Module):
    """Subtracts a mean, in `eval()` that of the calls before: a statistic by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        """The centred columns, to the power of three."""
        if self.training:
            mean = x.mean(0)
            self.mean.mul_(0.9).add_(mean.detach(), alpha=0.1)
        else:
            mean = self.mean
        return (x - mean) ** 3


class ReplacedMean(RunningMean):
    """The same, which puts another buffer in the place of the old one."""

    def forward(self, x):
        """The centred columns, to the power of three."""
        mean = x.mean(0) if self.training else self.mean
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * mean.detach()
        return (x - mean) ** 3


CENTRED = OpSpec("centred", primal=lambda x: (x - jnp.mean(x, 0)) ** 3, inputs=(normal(5, 4),))


def _normalised(x, weight, bias):
    centred = x - jnp.mean(x, 0)
    return centred / jnp.sqrt(jnp.mean(centred**2, 0) + 1e-5) * weight + bias


BATCH_NORM = OpSpec("batch_norm", primal=_normalised, inputs=(normal(5, 4), normal(4, seed=1), normal(4, seed=2)))

_PASSES = ("forward", "vjp", "input_subsets", "purity", "interleaved", "determinism", "autocast")
_OF_A_LAYER = _PASSES[:-1]  # autocast is tried of parameters and results, too
CASES = (
    Operator(
        PAIR,
        pair,
        {
            "another function without gradients": Mistake(_in_training_only, "modes", passes=_PASSES),
            "another function of weights without gradients": Mistake(
                _in_training_of_weights_only, "modes", passes=_PASSES
            ),
            "no gradient beside a frozen weight": Mistake(
                NoGradientBesideFrozen.apply, "modes", passes=("vjp", "purity")
            ),
            "another function in inference mode": Mistake(_not_inferred, "modes", passes=_PASSES),
            "results kept by shape": Mistake(_kept(False), "modes", passes=_PASSES),
            "one output for all calls": Mistake(_kept(True), "modes", passes=_PASSES),
            "weights kept by address": Mistake(_weights_by_address(), "modes", passes=_PASSES),
            "PyTorch's words of its own": Mistake(_refuses_inference, "modes", passes=_PASSES),
            "another order if deterministic": Mistake(_an_order_of_its_own, "modes", passes=_PASSES),
            "another backward if deterministic": Mistake(NotDeterministic.apply, "modes", passes=_PASSES),
            "a parameter's gradient counted again": Mistake(FusedAccumulation.apply, "modes", passes=_OF_A_LAYER),
            "no gradient of parameters alone": Mistake(FrozenTogether.apply, "modes", passes=_PASSES),
            "another function of no leaf": Mistake(_right_at_the_start, "modes", passes=_OF_A_LAYER),
            "no gradient of an activation": Mistake(_folded, "modes", passes=_OF_A_LAYER),
            "a gradient doubled on its way": Mistake(LeafAlone.apply, "modes", passes=_OF_A_LAYER),
        },
    ),
    Operator(
        replace(PAIR, name="pair module"),
        PairModule(),
        {
            "halved in eval": Mistake(Scaled(), "modes", passes=_PASSES),
            "a part halved in eval": Mistake(Nested(), "modes", passes=_PASSES),
            "a module that is reached": Mistake(_by_closure, "modes", passes=_PASSES),
            "halved where it is deployed": Mistake(InferredFaster(), "modes", passes=_PASSES),
            "no gradient in eval": Mistake(NoGradientInEval(), "modes", passes=_PASSES),
        },
    ),
    Operator(replace(PAIR, name="pair function"), Pair.apply, {}),
    Operator(CENTRED, RunningMean(), {}),
    Operator(replace(CENTRED, name="centred again"), ReplacedMean(), {}),
    Operator(BATCH_NORM, torch.nn.BatchNorm1d(4), {}),
)
