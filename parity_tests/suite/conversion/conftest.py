"""What the tests of conversions share."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def float64() -> Iterator[None]:
    """JAX with 64 bits."""
    with jax.enable_x64(True):
        yield
