"""Fixtures: the compiled operators, and the random generators that PyTorch's test machinery seeds, put back."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from parity_tests.suite.rotation import rotating
from torch_impl.native.build import ToolchainMissing, load

# One operator in one format, and in another where a test is about that or has no other.
FAST = re.compile(
    r"_gradparity_attn_(cpu|cuda)(_float64)?$|fake_autocast_.*_attn_(cpu|cuda)_float32$"
    r"|(conj_view|test_backward)_gradparity_attn_(cpu|cuda)_complex128$"
)


def pytest_itemcollected(item: pytest.Item) -> None:
    """PyTorch's tests of every operator in every format are slow, but for a few, and of each file a third runs."""
    if "_gradparity_" in item.name and FAST.search(item.name) is None:
        item.add_marker(pytest.mark.slow)
        item.add_marker(rotating(3))


@pytest.fixture(scope="session")
def native() -> None:
    """The native operators, compiled when the first test needs them."""
    try:
        load()
    except ToolchainMissing as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def generators_put_back() -> Iterator[None]:
    """PyTorch's TestCase seeds the global generators of Python, NumPy and torch before every test and every sample."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
    random.setstate(python)
    np.random.set_state(numpy)
