"""Values and all gradients of a converted module, compared with PyTorch's in float64."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from gradparity import Converted, to_jax

BOUND = 1e-12  # relative to the largest entry; a small network in float64 loses some of its 16 digits


def double(module: torch.nn.Module) -> torch.nn.Module:
    """The module in float64, with weights from a seed, none of which is zero."""
    generator = torch.Generator().manual_seed(0)
    module = module.double()
    for x in module.parameters():
        x.data = 0.5 * torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return module


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    """Numbers of float64 from a seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_same(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Converted:
    """Convert a module and compare it with itself: values, the gradient of each parameter, and new buffers."""
    f, params = to_jax(module, *args, **kwargs)
    before = {name: x.clone() for name, x in module.named_buffers()}
    expected = [y for y in tree_leaves(module(*args, **kwargs)) if isinstance(y, torch.Tensor)]
    inexact = [y for y in expected if y.is_floating_point()]
    cotangents = [numbers(*y.shape, seed=7 + i) for i, y in enumerate(inexact)]
    trained, rest = f.split(params)

    def loss(trained: dict[str, jax.Array]) -> Any:
        found = f(trained | rest, *args, **kwargs)
        result, new = found if f.writes else (found, {})
        leaves = [y for y in jax.tree.leaves(result) if jnp.issubdtype(y.dtype, jnp.inexact)]
        pairs = zip(cotangents, leaves, strict=True)
        return sum((jnp.asarray(c.numpy()) * y).sum() for c, y in pairs), (result, new)

    gradient, (result, new) = jax.grad(loss, has_aux=True)(trained)
    for y, expected_y in zip(jax.tree.leaves(result), expected, strict=True):
        assert_close(y, expected_y)
    own = dict(module.named_parameters())
    total: Any = sum((c * y).sum() for c, y in zip(cotangents, inexact, strict=True))
    expected_gradient = torch.autograd.grad(total, [own[name] for name in trained], materialize_grads=True)
    for name, y in zip(trained, expected_gradient, strict=True):
        assert_close(gradient[name], y)
    after = dict(module.named_buffers())
    assert set(f.writes) == {name for name, x in after.items() if not torch.equal(x, before[name])} == set(new)
    for name, x in after.items():
        assert_close(new.get(name, params[name]), x)
        x.copy_(before[name])
    return f


def assert_close(x: Any, expected: torch.Tensor) -> None:
    """Compare an array with a tensor of the same shape and dtype."""
    y = expected.detach().numpy()
    assert (x.shape, str(x.dtype)) == (y.shape, str(y.dtype))
    if y.size and y.dtype.kind == "f":
        assert np.abs(np.asarray(x) - y).max() <= BOUND * max(np.abs(y).max(), 1e-3)
    else:
        assert np.array_equal(np.asarray(x), y)
