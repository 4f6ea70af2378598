"""The matrix exponential, whose usual formulas have constants beyond float16."""

from __future__ import annotations

import jax
import numpy as np
import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator


def by_taylor(x: torch.Tensor, degree: int = 30, halvings: int = 0, squarings: int = 0) -> torch.Tensor:
    """Taylor's series of x / 2^halvings, squared so many times; every step in the format of x."""
    a, one = x / 2**halvings, torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    y = one
    for i in range(degree, 0, -1):
        y = one + a @ y / i
    for _ in range(squarings):
        y = y @ y
    return y


def _moderate(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Matrices of a norm of 3 at most: the more it is, the more digits any formula loses."""
    return rng.uniform(-3, 3, shape) / max(shape[-1], 1)


expm = Operator(
    OpSpec("expm", lambda x: jax.scipy.linalg.expm(x), "(n,n)->(n,n)", domains={"x": _moderate}),
    by_taylor,
    {
        "squared_once_less": Mistake(lambda x: by_taylor(x, halvings=2, squarings=1), "forward", "float16"),
        "series_too_short": Mistake(lambda x: by_taylor(x, degree=3), "forward", "float16"),
        "entry_by_entry": Mistake(torch.exp, "forward", "float16"),
        "pytorch_in_16_bits": Mistake(torch.linalg.matrix_exp, "forward", "float16"),
        "transposed": Mistake(lambda x: by_taylor(x.mT), "forward", "float16"),
    },
)
