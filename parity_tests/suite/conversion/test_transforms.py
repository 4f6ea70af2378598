"""Converted functions under the transforms of JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import export
from torch import Tensor, nn

from gradparity import Converted, to_jax
from parity_tests.suite.conversion.compared import BOUND, double, numbers

pytestmark = pytest.mark.usefixtures("float64")


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(torch.tanh(self.linear(x)), -1).sum(0)


Case = tuple[Converted, dict[str, jax.Array], nn.Module]


@pytest.fixture(scope="module")
def case() -> Case:
    module = double(Head())
    with jax.enable_x64(True):
        return (*to_jax(module, numbers(2, 3)), module)


def _close(x: jax.Array, y: object) -> bool:
    y = np.asarray(y.detach() if isinstance(y, Tensor) else y)
    return x.shape == y.shape and bool(np.abs(np.asarray(x) - y).max() <= BOUND * np.abs(y).max())


def test_jit(case: Case) -> None:
    f, params, module = case
    x = numbers(2, 3)
    assert _close(jax.jit(f)(params, x.numpy()), module(x))


@pytest.mark.slow
def test_vmap_over_examples_and_over_members(case: Case) -> None:
    f, params, module = case
    x = numbers(5, 2, 3)
    assert _close(jax.vmap(f, (None, 0))(params, x.numpy()), torch.stack([module(each) for each in x]))
    members = jax.tree.map(lambda p: jnp.stack([p, -p]), params)
    found = jax.vmap(f, (0, None))(members, x[0].numpy())
    assert _close(found[0], module(x[0]))
    assert _close(found[1], f(jax.tree.map(jnp.negative, params), x[0]))


@pytest.mark.slow
def test_second_derivatives(case: Case) -> None:
    f, params, module = case
    x = numbers(2, 3)
    found = jax.hessian(lambda x: jnp.prod(f(params, x)))(x.numpy())
    assert _close(found, torch.autograd.functional.hessian(lambda x: module(x).prod(), x))


def test_forward_mode(case: Case) -> None:
    f, params, module = case
    x, v = numbers(2, 3), numbers(2, 3, seed=2)
    _, found = jax.jvp(lambda x: f(params, x), (x.numpy(),), (v.numpy(),))
    assert _close(found, torch.func.jvp(module, (x,), (v,))[1])


@pytest.mark.slow
def test_checkpoint_keeps_arguments_only(case: Case) -> None:
    f, params, _ = case
    x = numbers(2, 3).numpy()
    policy = jax.checkpoint_policies.nothing_saveable
    kept = jax.grad(lambda x: jax.checkpoint(f, policy=policy)(params, x)[0])(x)
    assert _close(kept, jax.grad(lambda x: f(params, x)[0])(x))
    text = str(jax.make_jaxpr(jax.grad(lambda x: jax.checkpoint(f)(params, x)[0]))(x))
    assert text.count("tanh") == 2  # once forward, once again in the backward pass


def test_export(case: Case) -> None:
    f, params, module = case
    x = numbers(2, 3)
    exported = export.export(jax.jit(f))(params, x.numpy())
    assert _close(exported.call(params, x.numpy()), module(x))


def test_scan_over_steps(case: Case) -> None:
    f, params, module = case
    x = numbers(5, 2, 3)
    _, found = jax.lax.scan(lambda carry, each: (carry, f(params, each)), 0, x.numpy())
    assert _close(found, torch.stack([module(each) for each in x]))


def test_a_trace_leaves_nothing_behind(case: Case) -> None:
    f, params, module = case
    x = numbers(7, 3)  # of a size that was not seen before
    with jax.checking_leaks():
        jax.jit(jax.grad(lambda x: f(params, x)[1]))(x.numpy())
    assert _close(f(params, x), module(x))
