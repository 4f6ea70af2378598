"""A short training run in JAX and in torch: 100 steps from the same weights give the same losses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from parity_tests.harness.numbers.numerics import pinned

pytestmark = pytest.mark.slow
for _package in ("flax", "optax"):
    pytest.importorskip(_package, reason=f"{_package} is not installed: pip install 'gradparity[train]'")

from parity_tests.suite import nn_training  # noqa: E402

OPTIMIZERS = ["sgd", "adamw"]


@pytest.fixture(autouse=True)
def _pinned() -> Iterator[None]:
    with pinned():
        yield


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_losses_in_float64(name: str) -> None:
    ours = nn_training.losses_in_jax(name, "float64")
    assert ours[-1] < ours[0] / 2  # it learns: there is something to compare
    np.testing.assert_allclose(nn_training.losses_in_torch(name, torch.float64), ours, rtol=0, atol=1e-9)


@pytest.mark.soak
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_losses_in_float32(name: str) -> None:
    """Each run is within the spread of the exact one, so that they are within twice of it of each other."""
    exact, spread = nn_training.losses_in_jax(name, "float64"), nn_training.spread_of_float32(name)
    runs = nn_training.losses_in_jax(name, "float32"), nn_training.losses_in_torch(name, torch.float32)
    for losses in runs:
        assert (np.abs(losses - exact) <= spread).all(), (np.abs(losses - exact) / spread).max()
    wrong = nn_training.losses_in_torch(name, torch.float32, plant=lambda k_bar: k_bar / 2)
    assert (np.abs(wrong - exact) / spread).max() > 10  # the bound is no excuse for a mistake


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_planted_gradient_shows(name: str) -> None:
    right = nn_training.losses_in_torch(name, torch.float64)
    wrong = nn_training.losses_in_torch(name, torch.float64, plant=lambda k_bar: k_bar / 2)
    assert wrong[0] == right[0]
    assert np.abs(wrong - right).max() > 1e-3


def test_a_default_of_the_other_optimizer_shows() -> None:
    """optax decays by 1e-4 if nothing is said, torch by 1e-2."""
    ours = nn_training.losses_in_jax("adamw", "float64")
    theirs = nn_training.losses_in_torch("adamw", torch.float64, decay=1e-4)
    assert np.abs(theirs - ours).max() > 1e-6
