"""Operators of PyTorch that take functions, converted: control flow and `flex_attention`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from gradparity import CannotConvert, to_jax
from parity_tests.suite.conversion.compared import assert_close, assert_same, double, numbers

pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.slow]


class Branches(nn.Module):
    """One of two layers, by the sign of a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.tanh(self.one(x)), lambda x: self.other(x).exp(), (x,))


class Recurrent(nn.Module):
    """A recurrence over the rows of its argument."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        def step(h: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(self.cell(torch.cat([h, row])))
            return h.clone(), 2 * h

        return scan(step, x[0], x, dim=0)


class Rows(nn.Module):
    """A layer for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch_map(lambda row, weight: torch.tanh(weight @ row), x, self.layer.weight) + self.layer.bias


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_takes_the_branch_of_its_numbers(sign: int) -> None:
    module, x = double(Branches()), sign * numbers(2, 3).abs()
    f = assert_same(module, x)
    assert {"cond", "aten::exp"} <= set(f.operators)
    converted, params = to_jax(module, -x)  # of the other branch
    assert_close(jax.jit(converted)(params, x.numpy()), module(x))


@pytest.mark.parametrize("module", [Recurrent, Rows])
def test_scan_and_map(module: type[nn.Module]) -> None:
    assert_same(double(module()), numbers(4, 3))


def test_while_loop_takes_as_many_steps_as_its_numbers_say() -> None:
    def halved(x: Tensor) -> Tensor:
        (found,) = while_loop(lambda y: y.abs().sum() > 1, lambda y: (y * 0.5,), (x,))
        return found

    f, params = to_jax(halved, numbers(3))
    for scale in (0.1, 1.0, 1000.0):
        x = scale * numbers(3)
        assert_close(jax.jit(f)(params, x.numpy()), halved(x))
    x, factor = 10 * numbers(3), halved(10 * numbers(3))[0] / (10 * numbers(3))[0]
    _, tangent = jax.jvp(lambda x: f(params, x), (x.numpy(),), (np.ones(3),))
    assert np.allclose(tangent, factor.item(), rtol=1e-15)


def _alibi(slopes: Tensor) -> Callable[..., Tensor]:
    return lambda score, b, h, i, j: torch.where(i >= j, score + slopes[h] * (j - i), -float("inf"))


def _masked(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (j >= 2) & (i != 5)


class Flex(nn.Module):
    """Causal attention with a bias by head that is learned; two heads of queries have one of keys."""

    def __init__(self, masks: bool) -> None:
        super().__init__()
        self.slopes, self.masks = nn.Parameter(torch.ones(4)), masks

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Sequence[Tensor]:
        mask = create_block_mask(_masked, None, None, q.shape[2], k.shape[2], device="cpu") if self.masks else None
        return flex_attention(q, k, v, _alibi(self.slopes), mask, enable_gqa=True, return_lse=True)

    def plain(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The same in operators that PyTorch differentiates on a CPU, and which queries see no key."""
        i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
        allowed = (i >= j) & (_masked(i, i, i, j) if self.masks else True)
        scores = q @ k.repeat_interleave(2, 1).mT / 4 + self.slopes[:, None, None] * (j - i)
        of_none = ~allowed.any(-1)
        weights = scores.masked_fill(~allowed, -1e300).softmax(-1) * ~of_none[:, None]
        return weights @ v.repeat_interleave(2, 1), of_none


@pytest.mark.parametrize("masks", [False, True])
def test_flex_attention(masks: bool) -> None:
    q, k, v = numbers(2, 4, 8, 16), numbers(2, 2, 8, 16, seed=2), numbers(2, 2, 8, 16, seed=3)
    module = double(Flex(masks))
    f, params = to_jax(module, q, k, v)
    with torch.no_grad():
        expected, lse = module(q, k, v)
    found, found_lse = f(params, q.numpy(), k.numpy(), v.numpy())
    assert_close(found, expected)

    own = [x.requires_grad_() for x in (q, k, v)] + [module.slopes]
    plain, of_none = module.plain(q, k, v)
    assert of_none.any() == masks
    assert not np.asarray(found)[:, :, of_none.numpy()].any()
    assert torch.isneginf(lse[:, :, of_none]).all()
    assert np.isneginf(found_lse[:, :, of_none.numpy()]).all()
    assert found_lse.dtype == np.float32  # as compiled code and fake tensors have it; the eager operator has float64
    sees = ~of_none
    assert np.allclose(found_lse[:, :, sees.numpy()], lse[:, :, sees].numpy(), rtol=2.0**-23, atol=2.0**-23)

    cotangent = numbers(*expected.shape, seed=4)
    gradients = torch.autograd.grad((plain * cotangent).sum(), own)

    def loss(q: jax.Array, k: jax.Array, v: jax.Array, slopes: jax.Array) -> jax.Array:
        return (f({"slopes": slopes}, q, k, v)[0] * cotangent.numpy()).sum()

    for x, y in zip(jax.grad(loss, (0, 1, 2, 3))(*(x.detach().numpy() for x in own)), gradients, strict=True):
        assert_close(x, y)


def test_flex_attention_in_bfloat16_computes_scores_in_float32() -> None:
    q, k, v = (numbers(1, 1, 8, 16, seed=i).bfloat16() for i in (1, 2, 3))
    f, params = to_jax(flex_attention, q, k, v)
    found = f(params, *(jnp.asarray(x.float().numpy(), jnp.bfloat16) for x in (q, k, v)))
    expected = flex_attention(q, k, v)
    assert found.dtype == jnp.bfloat16
    off = np.abs(np.asarray(found, np.float32) - expected.float().numpy())
    assert off.max() <= 2.0**-8 * expected.float().abs().max()


def test_an_exact_function_rounds_in_no_branch() -> None:
    def rounded(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: 2 * x.float(), lambda x: 3 * x.float(), (x,)).double()

    x = numbers(3).abs()
    exact, params = to_jax(rounded, x, precision="exact")
    assert np.array_equal(exact(params, x.numpy()), 2 * x)
    as_written, params = to_jax(rounded, x)
    assert np.array_equal(as_written(params, x.numpy()), 2 * x.float().double())


def test_random_numbers_in_a_branch_are_refused() -> None:
    def noisy(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: x + 0, (x,))

    with pytest.raises(CannotConvert, match=r"in noisy: .*torch\.cond .*draws random numbers"):
        to_jax(noisy, numbers(3))


def _forces(x: Tensor) -> Tensor:
    x = x.requires_grad_()
    return torch.autograd.grad((x**3).sum(), x, create_graph=True)[0]


def test_gradients_within_the_function() -> None:
    f, params = to_jax(_forces, numbers(3))
    x = numbers(3).numpy()
    assert np.allclose(f(params, x), 3 * x**2, rtol=1e-15)
    assert np.allclose(jax.jacobian(lambda x: f(params, x))(x), np.diag(6 * x), rtol=1e-15)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev])
def test_transforms_that_export_takes_for_constants_are_refused_with_a_remedy(transform: Any) -> None:
    with pytest.raises(CannotConvert, match=r"(?s)in differentiated: .*create_graph=True"):
        to_jax(_differentiated(transform), numbers(3))


def _differentiated(transform: Any) -> Callable[[Tensor], Tensor]:
    def differentiated(x: Tensor) -> Tensor:
        return transform(lambda x: (x**3).sum())(x)

    return differentiated


def test_the_first_error_is_the_cause() -> None:
    def refused(x: Tensor) -> Tensor:
        raise ZeroDivisionError("no such number")

    with pytest.raises(CannotConvert) as found:
        to_jax(refused, numbers(3))
    assert isinstance(found.value.__cause__, ZeroDivisionError)
