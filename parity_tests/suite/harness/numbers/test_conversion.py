"""The bridge: every value of every format arrives exactly, and nothing is shared."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from parity_tests.harness.numbers.conversion import to_numpy, to_torch
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.suite.harness._ops import normal

formats = pytest.mark.parametrize("name", list(PRECISIONS))


@formats
def test_there_and_back(name):
    precision = PRECISIONS[name]
    extremes = [0.0, -0.0, np.inf, -np.inf, np.nan, precision.largest, -precision.largest, precision.tiny]
    x = np.concatenate([extremes, precision.rounded(normal(50))])
    y = to_torch(x, precision, "cpu")
    assert y.dtype == getattr(torch, name)
    back = to_numpy(y)
    assert back.dtype == np.float64
    np.testing.assert_array_equal(back, x)
    assert np.signbit(back[1])


@formats
def test_numpy_and_torch_round_alike(name):
    x = normal(200)
    np.testing.assert_array_equal(to_numpy(to_torch(x, PRECISIONS[name], "cpu")), PRECISIONS[name].rounded(x))


def test_the_roundings_above_are_roundings():
    assert [bool((p.rounded(normal(200)) != normal(200)).any()) for p in PRECISIONS.values()] == [
        False,
        True,
        True,
        True,
    ]


@formats
def test_nothing_is_shared(name):
    x = np.ones(3)
    y = to_torch(x, PRECISIONS[name], "cpu")
    z = to_numpy(y)
    y[0] = 5
    assert x[0] == 1
    assert z[0] == 1
    z[1] = 7
    assert y[1] == 1


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda x: x.T, id="transposed"),
        pytest.param(lambda x: x[::-1], id="reversed"),
        pytest.param(lambda x: x[:, 1::2], id="sliced"),
        pytest.param(lambda x: np.broadcast_to(x[:1], x.shape), id="broadcast and read-only"),
        pytest.param(lambda x: x[:0], id="empty"),
        pytest.param(lambda x: x[0, 0], id="scalar"),
    ],
)
def test_arrays_of_any_layout_become_contiguous_tensors(make):
    x = make(normal(3, 4))
    y = to_torch(x, PRECISIONS["float64"], "cpu")
    assert y.is_contiguous()
    assert tuple(y.shape) == np.shape(x)
    np.testing.assert_array_equal(to_numpy(y), x)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        pytest.param(lambda t: t.T, lambda x: x.T, id="transposed"),
        pytest.param(lambda t: t[:, 1::2], lambda x: x[:, 1::2], id="sliced"),
        pytest.param(lambda t: t[:1].expand(3, 4), lambda x: np.broadcast_to(x[:1], (3, 4)), id="expanded"),
        pytest.param(lambda t: t[0, 0], lambda x: x[0, 0], id="scalar"),
        pytest.param(lambda t: t[:0], lambda x: x[:0], id="empty"),
        pytest.param(lambda t: t.requires_grad_(), lambda x: x, id="requires grad"),
        pytest.param(lambda t: torch.complex(t, t).conj().imag, lambda x: -x, id="negative view"),
    ],
)
def test_tensors_of_any_layout(make, values):
    x = normal(3, 4)
    np.testing.assert_array_equal(to_numpy(make(torch.tensor(x))), values(x))


def test_the_negative_view_above_is_one():
    assert torch.complex(torch.ones(2), torch.ones(2)).conj().imag.is_neg()
