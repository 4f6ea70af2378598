"""Random numbers by a key: PyTorch's distributions, other numbers, and an error without a key."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradparity import CannotConvert, to_jax
from parity_tests.suite.conversion.compared import numbers
from parity_tests.suite.marks import fast

N = 20_000  # draws; two samples of so many differ in distribution by more than BETWEEN with probability 1e-9
BETWEEN = float(np.sqrt(np.log(2 / 1e-9) / N))  # Kolmogorov and Smirnov: 2 exp(-N d^2)


def _distance(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference of two samples' distribution functions."""
    at = np.sort(np.concatenate([x, y]))
    one, other = (np.searchsorted(np.sort(each), at, side="right") / each.size for each in (x, y))
    return float(np.abs(one - other).max())


_DRAWN: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout-all": lambda x: F.dropout(x, 1.0),
    "dropout1d": lambda x: F.dropout1d(x[:, None, None], 0.3)[:, 0, 0],
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "rand": lambda x: torch.rand_like(x) + torch.rand(N),
    "randn": lambda x: torch.randn_like(x) * 2 + torch.randn(N),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "normal": lambda x: torch.normal(x, 0.5),
    "uniform": lambda x: torch.empty(N).uniform_(-1, 3),
    "randint": lambda x: torch.randint(-2, 5, (N,)).to(x.dtype),
    "exponential": lambda x: torch.empty(N).exponential_(2.0),
    "gumbel": lambda x: F.gumbel_softmax(torch.stack([x, -x], 1))[:, 0],
    "multinomial": lambda x: torch.multinomial(torch.tensor([0.5, 0.0, 0.2, 0.3]), N, True).to(x.dtype),
    "without-replacement": lambda x: torch.multinomial(torch.tensor([0.5, 0.2, 0.3]).repeat(N, 1), 2)[:, 1].to(x.dtype),
}


@fast("dropout", "alpha_dropout", "bernoulli")
@pytest.mark.parametrize("name", _DRAWN)
def test_the_distribution_is_that_of_pytorch(name: str) -> None:
    x = numbers(N).float()
    f, _ = to_jax(_DRAWN[name], x)
    assert f.draws
    found = np.asarray(jax.jit(lambda key: f({}, x.numpy(), key=key))(jax.random.key(0)), float)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = _DRAWN[name](x).numpy().astype(float)
    assert _distance(found, expected) < BETWEEN


def test_another_distribution_is_noticed() -> None:
    rng = np.random.default_rng(0)
    kept = [np.where(rng.random(N) < p, rng.normal(size=N) / p, 0.0) for p in (0.7, 0.7, 0.55)]
    assert _distance(kept[0], kept[1]) < BETWEEN < _distance(kept[0], kept[2])


def test_each_draw_has_its_own_key() -> None:
    f, _ = to_jax(lambda x: (F.dropout(x), F.dropout(x), torch.randperm(50)), torch.ones(50))
    first, second, order = f({}, jnp.ones(50), key=jax.random.key(1))
    assert not np.array_equal(first, second)
    assert sorted(order.tolist()) == list(range(50))
    again = f({}, jnp.ones(50), key=jax.random.key(1))
    assert all(np.array_equal(x, y) for x, y in zip((first, second, order), again, strict=True))
    assert not np.array_equal(first, f({}, jnp.ones(50), key=jax.random.key(2))[0])


@pytest.mark.slow
def test_the_gradient_is_that_of_what_was_kept() -> None:
    f, params = to_jax(nn.Sequential(nn.Dropout(0.25), nn.Tanh()), torch.ones(40))
    key, x = jax.random.key(3), numbers(40).float().numpy()
    kept = np.asarray(f(params, x, key=key)) != 0
    gradient = jax.grad(lambda x: f(params, x, key=key).sum())(x)
    assert np.allclose(gradient, np.where(kept, (1 - np.tanh(x / 0.75) ** 2) / 0.75, 0), rtol=1e-5)
    assert 0 < kept.sum() < 40


@pytest.mark.slow
def test_attention_with_dropout() -> None:
    q, k, v = (numbers(2, 2, n, 4, seed=n).float() for n in (3, 5, 5))
    v = torch.eye(5).expand(2, 2, 5, 5)  # so that the result has the weights, in which zeros are dropped ones
    f, _ = to_jax(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.4), q, k, v)
    found = np.asarray(f({}, q, k, v, key=jax.random.key(0)))
    weights = F.scaled_dot_product_attention(q, k, v).numpy()
    kept = found != 0
    assert np.allclose(found, np.where(kept, weights / 0.6, 0), rtol=1e-5)
    assert 0.3 < kept.mean() < 0.9


@pytest.mark.slow
def test_a_module_with_an_argument_named_key() -> None:
    module, x = nn.MultiheadAttention(4, 2, dropout=0.5), numbers(3, 4).float()
    f, params = to_jax(module, x, key=x, value=x)
    assert f(params, x, x, x, key=jax.random.key(0))[0].shape == (3, 4)
    with pytest.raises(TypeError, match="call it with key="):
        f(params, x, key=x, value=x)


def test_without_a_key() -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x)

    f, _ = to_jax(function, torch.ones(3))
    message = rf'File "{__file__}", line \d+, in function: the function draws random numbers \(aten.native_dropout'
    with pytest.raises(TypeError, match=message):
        f({}, jnp.ones(3))
    in_module, params = to_jax(nn.Dropout(), torch.ones(3))
    with pytest.raises(TypeError, match=r"dropout.py\", line \d+, in forward: the function draws random numbers"):
        in_module(params, jnp.ones(3))
    to_jax(nn.Dropout().eval(), torch.ones(3))[0](params, jnp.ones(3))


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(CannotConvert, match="aten::poisson draws random numbers in a way that has no counterpart"):
        to_jax(lambda x: torch.poisson(x), torch.ones(3))


def test_a_generator_is_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(CannotConvert, match="leave generator= out, and draw by a key of JAX"):
        to_jax(lambda x: x + torch.randint(0, 3, (3,), generator=generator), torch.ones(3))
