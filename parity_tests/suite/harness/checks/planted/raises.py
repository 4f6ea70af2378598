"""Input that does not fit together."""

from __future__ import annotations

import torch

from parity_tests import OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import MADE_PAIR, pair, pair_function


def _as_long_as_the_shorter(x, y):
    """Computes what both have, as a grid of the first one's size does."""
    n, m = (min(sizes) for sizes in zip(x.shape, y.shape, strict=True))
    return pair(x[:n, :m], y[:n, :m])


# A reference in PyTorch, and square matrices.


def _scores(x: torch.Tensor, A: torch.Tensor) -> torch.Tensor:
    return torch.einsum("ni,ij,nj->n", x, A, x)


def _of_any_rank(x, A):
    """Takes what has more axes for what has two."""
    x = x.reshape(-1, x.shape[-1])
    return ((x @ A) * x).sum(-1)


def _of_integers(x, A):
    return _scores(x.to(A.dtype) if not x.is_floating_point() else x, A)


def _of_a_part(x, A):
    """Reads as many columns as the matrix has rows."""
    n = min(*A.shape, x.shape[-1])
    return _scores(x[:, :n], A[:n, :n])


_PASSES = ("forward", "vjp", "layouts")
CASES = (
    Operator(
        MADE_PAIR,
        pair,
        {
            "as long as the shorter one": Mistake(
                pair_function(forward=_as_long_as_the_shorter).apply, "raises", passes=("forward", "vjp")
            )
        },
    ),
    Operator(
        OpSpec.from_torch(_scores, "(n,d),(d,d)->(n)"),
        _scores,
        {
            "more axes taken for two": Mistake(_of_any_rank, "raises", passes=_PASSES),
            "integers converted": Mistake(_of_integers, "raises", passes=_PASSES),
            "a part of a matrix that is not square": Mistake(_of_a_part, "raises", passes=_PASSES),
        },
    ),
)
