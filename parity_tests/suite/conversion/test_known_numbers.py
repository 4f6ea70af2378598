"""What follows from integers, booleans and constants is computed at conversion; other numbers cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradparity import CannotConvert, to_jax
from parity_tests.suite.conversion.compared import assert_same, double, numbers
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("float64")


class GraphConvolution(nn.Module):
    """Drops self-loops by a mask and adds one to each node, as libraries of graph networks do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        edges = edges[:, edges[0] != edges[1]]
        edges = torch.cat([edges, torch.arange(len(x)).repeat(2, 1)], 1)
        degree = torch.zeros(len(x), dtype=x.dtype).index_add_(0, edges[1], torch.ones(edges.shape[1], dtype=x.dtype))
        weight = degree.rsqrt()[edges].prod(0)
        return torch.zeros(len(x), 2, dtype=x.dtype).index_add_(0, edges[1], weight[:, None] * self.linear(x)[edges[0]])


EDGES = torch.tensor([[0, 1, 2, 3, 1], [1, 1, 0, 2, 3]])


@pytest.mark.slow
def test_a_graph_network_with_self_loops() -> None:
    f = assert_same(double(GraphConvolution()), numbers(4, 3), EDGES)
    params = f.load(f.function.state_dict())
    other = torch.tensor([[0, 0, 3], [0, 1, 2]])
    for edges in (other, EDGES):  # another graph is another program
        assert np.allclose(f(params, numbers(4, 3), edges), f.function(numbers(4, 3), edges).detach(), rtol=1e-14)


@pytest.mark.slow
def test_what_is_read_is_closed_over() -> None:
    f, params = to_jax(double(GraphConvolution()), numbers(4, 3), EDGES)
    x = numbers(4, 3).numpy()
    found = jax.jit(lambda params, x: f(params, x, EDGES.numpy()))(params, x)
    assert np.allclose(found, f(params, x, EDGES), rtol=1e-14)
    with pytest.raises(CannotConvert, match="reads the numbers of argument 1, which JAX traces here: do not pass it"):
        jax.jit(f)(params, x, EDGES.numpy())


def _by_lengths(x: Tensor, lengths: Tensor) -> Tensor:
    longest = int(lengths.max())
    mask = torch.arange(longest) < lengths[:, None]
    return torch.where(mask, x[:, :longest], 0.0).sum(1) / lengths


def _by_items(x: Tensor, lengths: Tensor) -> Tensor:
    return torch.stack(
        [row[:n].prod() * lengths[i].item() for i, (row, n) in enumerate(zip(x, lengths.tolist(), strict=True))]
    )


def _repeated(x: Tensor, lengths: Tensor) -> Tensor:
    long = x.repeat_interleave(lengths, 0)
    return long.masked_select(lengths.repeat_interleave(lengths)[:, None] > 2)


def _by_a_constant(x: Tensor, lengths: Tensor) -> Tensor:
    causal = torch.full((3, 3), float("-inf")).triu(1)
    if torch.isinf(causal).any() and not torch.equal(causal, torch.zeros(3, 3)):
        return x @ torch.exp(causal).to(x.dtype)
    return x


def _written(x: Tensor, lengths: Tensor) -> Tensor:
    kept = torch.zeros(2, 3, dtype=torch.bool)
    kept[0] = lengths[0] > 1
    kept[1, 1:].logical_not_()
    return x[kept] ** 2


def _of_a_selection(x: Tensor, lengths: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    rows = (lengths > 2).nonzero()[:, 0]
    y[rows] = x[rows].exp()
    return y.cumsum(0)


def _of_known_sizes(x: Tensor, lengths: Tensor) -> Tensor:
    n, m = lengths.max(), lengths.min()
    y = torch.nn.functional.interpolate(x[None, None], size=(n, m), mode="bilinear")
    return torch.nn.functional.pad(y, (0, 4 - m))[0, 0].expand(m, n, 4)


@fast("_by_lengths", "_written", "_of_known_sizes")
@pytest.mark.parametrize(
    "function",
    [_by_lengths, _by_items, _by_a_constant, _written, _repeated, _of_a_selection, _of_known_sizes],
    ids=lambda f: f.__name__,
)
def test_integers_may_be_read(function: Callable[..., Tensor]) -> None:
    x, lengths = numbers(2, 3), torch.tensor([3, 2])
    f, _ = to_jax(function, x, lengths)
    assert np.allclose(f({}, x, lengths), function(x, lengths), rtol=1e-14)
    gradient = jax.grad(lambda x: (f({}, x, lengths) ** 2).sum())(x.numpy())
    x.requires_grad_()
    assert np.allclose(gradient, torch.autograd.grad((function(x, lengths) ** 2).sum(), x)[0], rtol=1e-13)
    shorter = torch.tensor([2, 1])
    assert np.allclose(f({}, x.detach(), shorter), function(x, shorter).detach(), rtol=1e-14)


def _branches(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x


def _overwritten(x: Tensor) -> Tensor:
    mask = torch.ones(3, dtype=torch.bool)
    mask[0] = x[0] > 0
    return x[mask]


@pytest.mark.parametrize("function", [_branches, _overwritten])
def test_numbers_are_read_where_they_are_known_only(function: Callable[..., Tensor]) -> None:
    for x in (torch.tensor([1.0, 2.0, -0.5]), torch.tensor([-1.0, 0.5, 0.25])):
        f, _ = to_jax(function, x)
        assert np.array_equal(f({}, x), function(x))
        assert np.array_equal(f({}, -x), function(-x))
        with pytest.raises(CannotConvert, match="reads the numbers of argument 0") as error:
            jax.grad(lambda x, f=f: f({}, x).sum())(x.numpy())
        assert re.search(rf'File "{re.escape(__file__)}", line \d+, in {function.__name__}: ', str(error.value))


def test_a_constant_that_the_function_closes_over_is_left_as_it_is() -> None:
    mask, total = torch.tensor([True, False, True]), torch.zeros(3, dtype=torch.int64)

    def function(x: Tensor) -> Tensor:
        kept = mask.clone()
        kept[1] = True
        return x[mask].sum() * x[kept].prod() + total

    f, _ = to_jax(function, numbers(3))
    assert np.allclose(f({}, numbers(3)), function(numbers(3)))
    assert mask.tolist() == [True, False, True]


def test_other_numbers_are_refused() -> None:
    def function(x: Tensor) -> Any:
        return x[torch.rand(3) > 0.5]

    def of_segments(x: Tensor, lengths: Tensor) -> Tensor:
        return torch.segment_reduce(x, "sum", lengths=lengths)

    with pytest.raises(CannotConvert, match="needs numbers"):
        to_jax(of_segments, numbers(3), torch.tensor([2, 1]))
    with pytest.raises(CannotConvert, match=r"the shape of aten\.index\.Tensor depends"):
        to_jax(function, numbers(3))


def _by_number(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    m = torch.zeros(3, 3)
    m[i[0]] += 1
    m[:, i[1]] = 2
    row = m[i[1]]
    row.add_(4)
    return x * m


def test_a_write_by_a_known_number_is_part_of_the_program():
    x = torch.ones(3, 3)
    f, params = to_jax(_by_number, x, torch.tensor([1, 2]))
    for places in ([1, 2], [0, 1]):
        i = torch.tensor(places)
        assert np.array_equal(f(params, x, i), _by_number(x, i))


def _into(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    m = torch.zeros(1, dtype=torch.int64)
    torch.add(i, 1, out=m)
    return x * m.item()


def test_what_is_written_by_out_is_not_what_it_was():
    x = torch.ones(2)
    f, params = to_jax(_into, x, torch.tensor([4]))
    for number in (4, 7):
        assert np.array_equal(f(params, x, torch.tensor([number])), [number + 1] * 2)


def test_an_argument_that_has_changed_makes_another_program():
    def scaled(x: torch.Tensor, factors: set[float]) -> torch.Tensor:
        return x * sum(factors)

    f, params = to_jax(scaled, torch.ones(2), {3.0})
    assert [float(f(params, np.ones(2, np.float32), {factor})[0]) for factor in (3.0, 4.0, 5.0)] == [3.0, 4.0, 5.0]
