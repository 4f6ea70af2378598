"""What every test of this folder runs in; contexts only, so that nothing global changes."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_float64():
    """Float64 throughout, and an error wherever JAX would promote a dtype or a rank or lower a product's precision.

    Outside it float64 arrays are silently computed in float32: inputs of module level are NumPy arrays for this reason.
    """
    with (
        jax.enable_x64(True),
        jax.numpy_dtype_promotion("strict"),
        jax.numpy_rank_promotion("raise"),
        jax.default_matmul_precision("highest"),
    ):
        yield
