"""nn.Modules as candidates: their parameters are inputs."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck

from ._ops import rows

LINEAR = OpSpec("linear", primal=lambda x, w, b: x @ w.T + b, signature="(n,3),(2,3),(2)->(n,2)")
QUICK = {"dtypes": ["float64", "bfloat16"], "limits": {}}


class DetachedBias(torch.nn.Linear):
    def forward(self, x):
        return x @ self.weight.T + self.bias.detach()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.gain = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return torch.tanh(self.inner(x)) * self.gain


def test_a_right_module():
    module = torch.nn.Linear(3, 2)
    before = [p.clone() for p in module.parameters()]
    crosscheck(module, LINEAR, **QUICK).raise_if_failed()
    assert all(torch.equal(p, q) and p.grad is None for p, q in zip(module.parameters(), before, strict=True))


def test_a_wrong_module():
    report = crosscheck(DetachedBias(3, 2), LINEAR, checks=["forward", "vjp"], dtypes=["float64"])
    assert [row.verdict for row in rows(report)] == [Verdict.PASS, Verdict.MISMATCH]
    assert "b_bar = 0" in str(report)


@pytest.mark.slow
def test_nested_parameters_in_the_order_of_named_parameters():
    assert [name for name, _ in Block().named_parameters()] == ["gain", "inner.weight", "inner.bias"]
    spec = OpSpec(
        "block", primal=lambda x, gain, w, b: jnp.tanh(x @ w.T + b) * gain, signature="(n,3),(2),(2,3),(2)->(n,2)"
    )
    crosscheck(Block(), spec, **QUICK).raise_if_failed()


def test_a_spec_of_the_inputs_only():
    module = torch.nn.Linear(3, 2).double()
    w, b = (p.detach().numpy() for p in module.parameters())
    spec = OpSpec("linear", primal=lambda x: x @ w.T + b, signature="(n,3)->(n,2)")
    report = crosscheck(module, spec, dtypes=["float64"])
    report.raise_if_failed()
    refused = {row.check for row in report.rows if row.verdict is Verdict.UNSUPPORTED}
    assert refused == {"fake", "autocast"}  # of a parameter that no cast and no device reaches
