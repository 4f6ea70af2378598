"""Bounds of singular values and vectors of tall and wide matrices: met, not idle, and cheap however long they are."""

from __future__ import annotations

import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.bounds import INPUT
from parity_tests.suite.marks import fast

SEEDS = 20
SHAPES = [(5, 3), (3, 5), (40, 3), (3, 300), (4, 4), (6, 1), (1, 6)]
# How many times larger the bounds are than the worst error found: for float32 by the constants of LAPACK, whose own
# errors are far below γ of m + n, and by ‖E‖₂ of magnitudes, which no signs of the errors reach.
SLACK = {"float32": 60, "bfloat16": 8}


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def _bounds(A: np.ndarray, precision: Precision):
    def thin(a):
        return jnp.linalg.svd(a, full_matrices=False)

    return bounded(jax.make_jaxpr(thin)(A), A, precision=precision)


def _nearby(A: np.ndarray, precision: Precision, rng: np.random.Generator) -> list[np.ndarray]:
    """Matrices whose entries are off by the roundings of an input: by random signs, and by signs that add up."""
    m, n = A.shape
    U, _, Wt = np.linalg.svd(A)
    patterns = [rng.choice([-1.0, 1.0], A.shape) for _ in range(4)]
    patterns += [np.sign(np.outer(U[:, rng.integers(m)], Wt[rng.integers(n)]) * A) for _ in range(12)]
    return [A * (1 + INPUT * precision.u * pattern) for pattern in patterns]


def _aligned(U: np.ndarray, W: np.ndarray, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    signs = np.sign((U * like).sum(0))
    return U * signs, W * signs


def _error_over_bound(found: tuple[np.ndarray, ...], bounds) -> tuple[float, float]:
    """Of the values, and of the vectors; and an infinite bound allows anything."""
    (U, e_U), (s, e_s), (Wt, e_Wt) = bounds
    found_U, found_s, found_Wt = (np.asarray(a, np.float64) for a in found)
    found_U, found_W = _aligned(found_U, found_Wt.T, U)
    of_values = np.max(np.abs(found_s - s) / e_s)
    of_vectors = max(np.max(np.abs(found_U - U) / e_U), np.max(np.abs(found_W - Wt.T) / e_Wt.T))
    return float(of_values), float(of_vectors)


@fast("(5, 3)-bfloat16", "(4, 4)-bfloat16", "(1, 6)-bfloat16")
@pytest.mark.parametrize("precision", [PRECISIONS["float32"], PRECISIONS["bfloat16"]], ids=lambda p: p.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_singular_values_and_vectors_meet_their_bounds_which_are_not_idle(shape, precision):
    worst = np.zeros(2)
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        A = precision.rounded(rng.standard_normal(shape))
        bounds = _bounds(A, precision)
        found = [np.linalg.svd(nearby, full_matrices=False) for nearby in _nearby(A, precision, rng)]
        if precision.name == "float32":  # the narrowest format of LAPACK
            given = torch.linalg.svd(conversion.to_torch(A, precision, "cpu"), full_matrices=False)
            found.append(tuple(conversion.to_numpy(a) for a in given))
        for one in found:
            ratios = _error_over_bound(one, bounds)
            assert max(ratios) <= 1, (seed, ratios)
            worst = np.maximum(worst, ratios)
    assert (worst >= 1 / SLACK[precision.name]).all(), worst  # how near LAPACK comes depends on the processor


def test_a_wrong_vector_of_a_long_matrix_is_noticed():
    """A component orthogonal to all singular vectors, which is what the space of zeros contributes."""
    A = np.random.default_rng(0).standard_normal((300, 3))
    precision = PRECISIONS["float32"]
    bounds = _bounds(A, precision)
    U, s, Wt = (value for value, _ in bounds)
    outside = np.linalg.qr(np.concatenate([U, np.ones((300, 1))], 1))[0][:, 3:]
    planted = U + 1e-3 * outside
    assert _error_over_bound((U, s, Wt), bounds)[1] == 0
    assert _error_over_bound((planted, s, Wt), bounds)[1] > 5


@pytest.mark.parametrize("shape", [(2049, 3), (3, 2049)], ids=str)
def test_a_long_matrix_costs_no_more_than_its_thin_factors(shape):
    """A basis of all that is orthogonal to three vectors would have 2049² entries: 33 MB, and seconds."""
    A = np.random.default_rng(0).standard_normal(shape)
    _bounds(A, PRECISIONS["float32"])  # whatever JAX compiles
    tracemalloc.start()
    start = time.process_time()
    bounds = _bounds(A, PRECISIONS["float32"])
    seconds = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(np.isfinite(bound).all() for _, bound in bounds)
    assert peak < 8e6
    assert seconds < 2
