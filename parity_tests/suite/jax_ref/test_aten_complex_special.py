"""Each part of complex `sinh` and `cosh`, and of their derivatives, against mpmath; JAX loses the small one."""

from __future__ import annotations

import jax
import mpmath
import numpy as np
import pytest
from jax import numpy as jnp

from jax_ref import aten

_PARTS = (0.0, 1e-30, 1e-10, 0.003, 0.3, 0.999, 1.0)
_POINTS = [complex(a * sign, b) for a in _PARTS for b in _PARTS for sign in (1, -1)]
_OF = {"sinh": mpmath.sinh, "cosh": mpmath.cosh}
_OTHER = {"sinh": "cosh", "cosh": "sinh"}


def _largest_error(function, name: str, dtype) -> float:
    """In roundings of the dtype, of what is no subnormal number."""
    points = np.asarray(_POINTS, dtype)
    found, least = np.asarray(jax.vmap(function)(points)), np.finfo(dtype).tiny
    errors = [0.0]
    with mpmath.workdps(60):
        for point, y in zip(points, found, strict=True):
            right = _OF[name](mpmath.mpc(complex(point)))
            pairs = [(y.real, right.real), (y.imag, right.imag)]
            errors += [float(abs(a - b) / abs(b)) for a, b in pairs if abs(b) > least]
    return max(errors) / np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_each_part_has_its_digits(name, dtype):
    with jax.enable_x64(True):
        function = getattr(aten, name)
        assert _largest_error(function, name, dtype) < 4
        assert _largest_error(jax.grad(function, holomorphic=True), _OTHER[name], dtype) < 4
        second = jax.grad(jax.grad(function, holomorphic=True), holomorphic=True)
        assert _largest_error(second, name, dtype) < 4


def test_jax_has_lost_them():
    with jax.enable_x64(True):
        assert _largest_error(jnp.sinh, "sinh", "complex128") > 1e5
        assert _largest_error(jax.grad(jnp.cosh, holomorphic=True), "sinh", "complex128") > 1e5


def test_what_is_large_or_not_finite_is_as_in_jax():
    points = np.array([np.inf, -np.inf, np.nan, np.inf + 1j, 800 + 1j, 30 - 2j, -1.5 + 30j], "complex64")
    np.testing.assert_array_equal(np.asarray(aten.sinh(points)), np.asarray(jnp.sinh(points)))
    np.testing.assert_array_equal(np.asarray(aten.cosh(points)), np.asarray(jnp.cosh(points)))
