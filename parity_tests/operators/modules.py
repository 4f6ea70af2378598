"""Modules, whose buffers are none of their inputs."""

from __future__ import annotations

import jax.numpy as jnp
import torch
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator

_MEAN, _VARIANCE = torch.tensor([0.3, -1.1, 0.7]), torch.tensor([0.6, 1.9, 1.2])


def _running_norm(x, w, b):
    return (x - _MEAN.double().numpy()) / jnp.sqrt(_VARIANCE.double().numpy() + 1e-5) * w + b


class _OfAnyGain(torch.nn.BatchNorm1d):
    """PyTorch's own is wrong where the gain is expanded: its backward of a matrix reads the gain as if contiguous."""

    def forward(self, input):
        running = self.running_mean, self.running_var
        return functional.batch_norm(input, *running, self.weight.contiguous(), self.bias, eps=self.eps)


class _Lagging(torch.nn.BatchNorm1d):
    """Updates its running variance with the batch before it divides by it, when it is evaluated, too."""

    def forward(self, input):
        if len(input) > 1:
            self.running_var.lerp_(input.detach().var(0), 0.1)  # type: ignore[union-attr]
        return super().forward(input)


class _DetachedGain(torch.nn.BatchNorm1d):
    """Folds its gain into the running deviation, outside of the graph."""

    def forward(self, input):
        gain = self.weight.detach() / torch.sqrt(self.running_var + self.eps)  # type: ignore[operator]
        return (input - self.running_mean) * gain + self.bias  # type: ignore[operator]


def _evaluated(module: torch.nn.BatchNorm1d) -> torch.nn.BatchNorm1d:
    module.running_mean, module.running_var = _MEAN.clone(), _VARIANCE.clone()
    return module.eval()


batch_norm = Operator(
    OpSpec("batch_norm evaluated", _running_norm, "(n,3),(3),(3)->(n,3)"),
    _evaluated(_OfAnyGain(3)),
    {
        "updated_before_use": Mistake(_evaluated(_Lagging(3)), "forward"),
        "detached_gain": Mistake(_evaluated(_DetachedGain(3)), "vjp", passes=("forward",)),
    },
)
