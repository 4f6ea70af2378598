"""Orthogonal polynomials by their recurrences. PyTorch has no derivatives of them.

A degree is rounded towards 0; of one below 0 the polynomial is 0. Degrees are known: under `jax.jit` they are numbers
or arrays of NumPy, not what is traced. One above 64 raises a ValueError, since its recurrence is as long.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from jax_ref.aten._promotion import floating

Array = jax.Array
_DEGREES = 64


def _by_recurrence(x: ArrayLike, n: ArrayLike, first: Callable[[Array], Array], step: Callable) -> Array:
    """P₀ = 1, P₁ = first(x), Pₖ₊₁ = step(k, x, Pₖ, Pₖ₋₁), at the degree n of each entry."""
    # What JAX differentiates is traced and has numbers all the same; under jit jnp traces Python's numbers, too
    highest = int(jnp.max(n, initial=0)) if isinstance(n, Tracer) else int(np.max(np.asarray(n), initial=0))
    if highest > _DEGREES:
        raise ValueError(f"n has a degree above {_DEGREES}: {highest}")
    x, degrees = floating(x, n)
    degrees = jnp.trunc(degrees)
    before, last = jnp.ones_like(x), first(x)
    total = jnp.where(degrees == 0, before, jnp.where(degrees == 1, last, jnp.zeros_like(x)))
    for k in range(1, highest):
        before, last = last, step(k, x, last, before)
        total = jnp.where(degrees == k + 1, last, total)
    return total


def special_chebyshev_polynomial_t(x: ArrayLike, n: ArrayLike) -> Array:
    """Tₙ(x) = cos(n arccos x)."""
    return _by_recurrence(x, n, lambda x: x, lambda k, x, p, q: 2 * x * p - q)


def special_chebyshev_polynomial_u(x: ArrayLike, n: ArrayLike) -> Array:
    """Uₙ(x), of the second kind."""
    return _by_recurrence(x, n, lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - q)


def special_chebyshev_polynomial_v(x: ArrayLike, n: ArrayLike) -> Array:
    """Vₙ(x), of the third kind."""
    return _by_recurrence(x, n, lambda x: 2 * x - 1, lambda k, x, p, q: 2 * x * p - q)


def special_chebyshev_polynomial_w(x: ArrayLike, n: ArrayLike) -> Array:
    """Wₙ(x), of the fourth kind."""
    return _by_recurrence(x, n, lambda x: 2 * x + 1, lambda k, x, p, q: 2 * x * p - q)


def special_shifted_chebyshev_polynomial_t(x: ArrayLike, n: ArrayLike) -> Array:
    """Tₙ(2x - 1)."""
    return special_chebyshev_polynomial_t(2 * floating(x)[0] - 1, n)


def special_shifted_chebyshev_polynomial_u(x: ArrayLike, n: ArrayLike) -> Array:
    """Uₙ(2x - 1)."""
    return special_chebyshev_polynomial_u(2 * floating(x)[0] - 1, n)


def special_shifted_chebyshev_polynomial_v(x: ArrayLike, n: ArrayLike) -> Array:
    """Vₙ(2x - 1)."""
    return special_chebyshev_polynomial_v(2 * floating(x)[0] - 1, n)


def special_shifted_chebyshev_polynomial_w(x: ArrayLike, n: ArrayLike) -> Array:
    """Wₙ(2x - 1)."""
    return special_chebyshev_polynomial_w(2 * floating(x)[0] - 1, n)


def special_hermite_polynomial_h(x: ArrayLike, n: ArrayLike) -> Array:
    """Hₙ(x), the physicists'."""
    return _by_recurrence(x, n, lambda x: 2 * x, lambda k, x, p, q: 2 * x * p - 2 * k * q)


def special_hermite_polynomial_he(x: ArrayLike, n: ArrayLike) -> Array:
    """Heₙ(x), the probabilists'."""
    return _by_recurrence(x, n, lambda x: x, lambda k, x, p, q: x * p - k * q)


def special_laguerre_polynomial_l(x: ArrayLike, n: ArrayLike) -> Array:
    """Lₙ(x)."""
    return _by_recurrence(x, n, lambda x: 1 - x, lambda k, x, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))


def special_legendre_polynomial_p(x: ArrayLike, n: ArrayLike) -> Array:
    """Pₙ(x)."""
    return _by_recurrence(x, n, lambda x: x, lambda k, x, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))
