"""Mistakes as those of published kernels: each backward is right in all cases but a few kinds of them."""

from __future__ import annotations

import jax
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function

# A gate that may be absent: flash-linear-attention, issue 862.


def _gated(q, k, g):
    scores = q @ k.T
    return jax.nn.softmax(scores if g is None else scores + g[None, :], axis=-1)


def _gated_torch(q, k, g):
    scores = q @ k.mT
    return torch.softmax(scores if g is None else scores + g[None, :], -1)


def _gated_backward(q, k, g, p_bar, k_without_gate=True):
    p = _gated_torch(q, k, g)
    scores_bar = p * (p_bar - (p * p_bar).sum(-1, keepdim=True))
    k_bar = scores_bar.mT @ q if g is not None or k_without_gate else None
    return scores_bar @ k, k_bar, None if g is None else scores_bar.sum(0)


def _k_never_assigned(*args):
    return _gated_backward(*args, k_without_gate=False)


gated_scores = Operator(
    OpSpec("gated_scores", _gated, "(n,d),(m,d),(m)->(n,m)", optional=["g"], output_names=("p",)),
    function(_gated_torch, _gated_backward),
    {
        "k_bar_never_assigned_without_gate": Mistake(
            function(_gated_torch, _k_never_assigned), "vjp", passes=("forward",)
        ),
        "twice_without_gate": Mistake(lambda q, k, g: _gated_torch(q, k, g) * (2.0 if g is None else 1.0), "forward"),
    },
)
