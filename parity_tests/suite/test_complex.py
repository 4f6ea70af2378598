"""Complex attn across the frameworks: a JAX VJP is the transpose, a PyTorch gradient the conjugate transpose."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

import jax_ref
from parity_tests.catalog.attn import IN_TORCH
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.numbers.numerics import pinned

SHAPES = {"q": (4, 3), "k": (5, 3), "v": (5, 2), "output": (4, 2), "attn": (4, 5)}
ROUNDINGS = 400  # on both sides together: three products of five complex terms in a row, tanh, and their amplification


def _draw(*names: str, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    # Small scores stay away from the poles of tanh, at odd multiples of iπ/2.
    return [0.3 * (rng.standard_normal(SHAPES[n]) + 1j * rng.standard_normal(SHAPES[n])) for n in names]


def _close(candidate: torch.Tensor, oracle: jax.Array) -> bool:
    oracle = np.asarray(oracle)
    assert np.abs(oracle.imag).max() > 1e-3  # otherwise a conjugate would make no difference
    error = np.abs(candidate.detach().resolve_conj().numpy() - oracle).max()
    return bool(error <= ROUNDINGS * np.finfo(np.float64).eps / 2 * np.abs(oracle).max())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("candidate", IN_TORCH, indirect=True)
def test_gradients_are_conjugates(candidate: Candidate, seed: int) -> None:
    primals, cotangents = _draw("q", "k", "v", seed=seed), _draw("output", "attn", seed=seed + 100)
    leaves = [torch.tensor(x, requires_grad=True) for x in primals]
    results = candidate.call(*leaves)
    gradients = torch.autograd.grad(results, leaves, [torch.tensor(w) for w in cotangents])
    with pinned():
        values = jax_ref.attn(*primals)
        conjugated = [np.conj(x) for x in jax_ref.attn_vjp(*primals, *map(np.conj, cotangents))]
        plain = jax_ref.attn_vjp(*primals, *cotangents)
        assert all(_close(y, x) for y, x in zip(results, values, strict=True))
        assert all(_close(y, x) for y, x in zip(gradients, conjugated, strict=True))
        assert not any(_close(y, x) for y, x in zip(gradients, plain, strict=True))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("candidate", IN_TORCH, indirect=True)
def test_tangents_are_equal(candidate: Candidate, seed: int) -> None:
    primals, tangents = _draw("q", "k", "v", seed=seed), _draw("q", "k", "v", seed=seed + 100)
    with pinned():
        results = candidate.jvp([torch.tensor(x) for x in primals], [torch.tensor(t) for t in tangents])
        for y, x in zip(results, jax_ref.attn_jvp(*primals, *tangents), strict=True):
            assert y is not None
            assert _close(y, x)
