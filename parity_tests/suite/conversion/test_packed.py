"""Packed sequences, converted: values and gradients are PyTorch's, at lengths that are known."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence

from gradparity import CannotConvert, to_jax
from parity_tests.suite.conversion.compared import assert_close, assert_same, double, numbers

pytestmark = [pytest.mark.usefixtures("float64"), pytest.mark.slow]

SORTED, ANY = torch.tensor([7, 5, 2]), torch.tensor([2, 7, 5])


class Tagger(nn.Module):
    """A recurrence over sequences of some lengths, and a layer on its steps and on its last states."""

    def __init__(self, kind: type[nn.RNNBase], is_sorted: bool, **options: Any) -> None:
        super().__init__()
        self.rnn, self.is_sorted = kind(5, 4, **options), is_sorted
        self.batch_first, self.padding = self.rnn.batch_first, 0.25

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        packed = pack_padded_sequence(x, lengths, self.batch_first, self.is_sorted)
        y, last = self.rnn(packed)
        steps, their = pad_packed_sequence(y, self.batch_first, self.padding, total_length=8)
        return [steps, their, *(last if isinstance(last, tuple) else (last,))]


def _x(batch_first: bool) -> Tensor:
    return numbers(3, 7, 5) if batch_first else numbers(7, 3, 5)


@pytest.mark.parametrize("is_sorted", [True, False], ids=["sorted", "any order"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        pytest.param(nn.LSTM, {"batch_first": True, "bidirectional": True, "num_layers": 2}, id="LSTM"),
        pytest.param(nn.LSTM, {"proj_size": 3, "bias": False}, id="projections"),
        pytest.param(nn.GRU, {"bidirectional": True}, id="GRU"),
        pytest.param(nn.RNN, {"batch_first": True, "nonlinearity": "relu"}, id="RNN"),
        pytest.param(nn.RNN, {"num_layers": 2}, id="two layers"),
    ],
)
def test_values_and_gradients(kind, options, is_sorted):
    module, lengths = double(Tagger(kind, is_sorted, **options)), SORTED if is_sorted else ANY
    assert_same(module, _x(module.batch_first), lengths)


def test_lengths_are_read():
    module, x = double(Tagger(nn.GRU, False, batch_first=True)), _x(batch_first=True)
    f, params = to_jax(module, x, ANY)
    for lengths in itertools.permutations([1, 4, 7]):
        found, right = f(params, x.numpy(), np.array(lengths)), module(x, torch.tensor(lengths))
        for y, expected in zip(found, right, strict=True):
            assert_close(y, expected)
    assert jnp.isfinite(jax.jit(lambda x: f(params, x, ANY)[0].sum())(x.numpy()))
    with pytest.raises(CannotConvert, match="reads the numbers of argument 1, which JAX traces"):
        jax.jit(f)(params, x.numpy(), ANY.numpy())


def test_a_list_of_sequences():
    lstm = double(nn.LSTM(5, 4))

    def last_of(*rows: Tensor) -> Tensor:
        packed = pack_sequence(rows, enforce_sorted=False)
        return lstm(packed)[1][0] + pad_sequence(rows).sum()

    rows = [x[:n] for x, n in zip(_x(batch_first=True), ANY, strict=True)]
    f, params = to_jax(last_of, *rows)
    assert_close(f(params, *(x.numpy() for x in rows)), last_of(*rows))


def test_lengths_that_are_not_sorted_are_refused():
    with pytest.raises(CannotConvert, match="sorted in decreasing order"):
        to_jax(double(Tagger(nn.GRU, True)), _x(batch_first=False), ANY)


class Filled(nn.Module):
    """Writes to memory without numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.empty(3, 3, dtype=x.dtype)
        y[1:], y[0] = self.weight * x.sin(), x[0].new_empty(3).copy_(x[0])
        return y


def test_memory_without_numbers_that_is_written_to():
    assert_same(double(Filled()), numbers(2, 3))


def test_memory_that_is_not_written_to_has_no_numbers():
    def forgotten(x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        y[1:] = x[1:]
        return y

    f, params = to_jax(forgotten, numbers(3))
    np.testing.assert_array_equal(f(params, np.ones(3)), [np.nan, 1, 1])
