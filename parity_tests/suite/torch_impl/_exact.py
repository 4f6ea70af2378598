"""Points where all entries of all results are small integers: compared bit for bit in every dtype, no tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parity_tests.suite.torch_impl._common import COTANGENTS, PRIMALS, TANGENTS, shape_of

SIZES = (3, 4, 5, 3)  # n, d, m, e


class Point(NamedTuple):
    primals: list[np.ndarray]
    tangents: list[np.ndarray]
    cotangents: list[np.ndarray]


def point(*, is_complex: bool) -> Point:
    """q kᵀ is 0, 25 or -25, so that attn is exactly 0, 1 or -1 in every dtype.

    Only the first column is used by q and k both, with 5, 0 and -5; the others, where one is zero, make k and q appear
    in q_bar and k_bar. The rest is -1, 0 and 1 (complex: in both parts), so that every sum stays below 256, up to where
    bfloat16 has all integers.
    """
    rng = np.random.default_rng(0)

    def units(name):
        real, imaginary = rng.integers(-1, 2, size=(2, *shape_of(name, SIZES)))
        return real + 1j * imaginary if is_complex else real

    q, k, v = map(units, PRIMALS)
    q[:, 0], q[:, 3] = [5, 0, -5], 0
    k[:, 0], k[:, 1:3] = [5, 0, -5, 5, 0], 0
    return Point([q, k, v], [units(name) for name in TANGENTS], [units(name) for name in COTANGENTS])


def tensors(arrays, dtype: torch.dtype) -> list[Tensor]:
    return [torch.from_numpy(x).to(dtype) for x in arrays]


def assert_exact(actual, expected, dtype: torch.dtype) -> None:
    """Equal as numbers, all of which the dtype holds; `None` is right exactly where the reference is zero."""
    assert any(y.any() for y in expected), "all references are zero"
    for x, y in zip(actual, expected, strict=True):
        if not y.any():
            assert x is None
            continue
        assert x.dtype == dtype
        assert np.abs(y).max() <= 256
        assert torch.equal(x.detach(), torch.from_numpy(y).to(dtype))


def attn_matrix(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """tanh of 0 and ±25, rounded: the sign."""
    S = q @ k.T
    assert set(np.unique(S)) == {-25, 0, 25}
    return np.sign(S.real).astype(S.dtype)


def attn_gradients(primals: Sequence[np.ndarray], cotangents: Sequence[np.ndarray], defined) -> list[np.ndarray]:
    """(8) to (12), in PyTorch's convention for complex: the conjugate transpose. Cotangents not defined are zero."""
    q, k, v = primals
    output_bar, attn_bar = (x if name in defined else 0 * x for name, x in zip(COTANGENTS, cotangents, strict=True))
    A = attn_matrix(q, k)
    P = (1 - A * A) * (attn_bar + output_bar @ v.conj().T)
    return [P @ k.conj(), P.T @ q.conj(), A.T @ output_bar]


def attn_jvp(primals: Sequence[np.ndarray], tangents: Sequence[np.ndarray]) -> list[np.ndarray]:
    """(5) to (7)."""
    (q, k, v), (q_dot, k_dot, v_dot) = primals, tangents
    A = attn_matrix(q, k)
    A_dot = (1 - A * A) * (q_dot @ k.T + q @ k_dot.T)
    return [A_dot @ v + A @ v_dot, A_dot]
