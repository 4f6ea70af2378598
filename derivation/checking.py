"""The checks of the pages' equations: J u by the complex step, Jᵀ w by the adjoint identity; see sin.md.

A map takes arrays and returns a list or tuple of arrays. It has to be holomorphic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

EPS = 2.0**-52

Arrays = Sequence[np.ndarray]
Map = Callable[..., Arrays]


def draw(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Arrays with entries between -1 and 1."""
    return [rng.uniform(-1, 1, shape) for shape in shapes]


def pairing(a: Arrays, b: Arrays) -> float:
    """⟨a, b⟩, with no conjugate, of two lists of arrays."""
    return sum(np.sum(x * y) for x, y in zip(a, b, strict=True))


def derivative(f: Map, x: Arrays, u: Arrays) -> list[np.ndarray]:
    """J u: the derivative of f at x along u, by the complex step."""
    h = 2.0**-100
    return [np.imag(y) / h for y in f(*[a + 1j * h * b for a, b in zip(x, u, strict=True)])]


def transposed(f: Map, x: Arrays, w: Arrays) -> list[np.ndarray]:
    """Jᵀ w: its entry i is ⟨w, J eᵢ⟩, where eᵢ is a basis tangent."""
    result = [np.zeros(a.shape) for a in x]
    for i, entries in enumerate(result):
        for index in np.ndindex(entries.shape):
            basis = [np.zeros(a.shape) for a in x]
            basis[i][index] = 1
            entries[index] = pairing(w, derivative(f, x, basis))
    return result


def assert_close(got: Arrays, expected: Arrays, terms: float) -> None:
    """Equal but for rounding, where the absolute values of the terms of an entry sum to at most `terms`.

    A term passes through fewer than 200 roundings on both sides together, each of EPS / 2.
    """
    tolerance = 100 * EPS * terms
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
        assert np.abs(a - b).max() <= tolerance, f"off by {np.abs(a - b).max()}, rounding explains {tolerance}"
        assert np.abs(b).max() > tolerance, "two zeros would prove nothing"
