"""Fixtures: the compiled operators, and the random generators that PyTorch's test machinery seeds, put back."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from torch_impl.native.build import ToolchainMissing, load


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
