"""Tangents at a tie of many: any of them, or a mean of them, is right, and nothing that lies outside."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast


def _tied(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows of which nine of twelve entries are the largest, exact in every format.

    Single rows have no tie, so that the oracle is certified at these.
    """
    if shape[0] == 1:
        return rng.standard_normal(shape)
    return rng.permuted(np.broadcast_to([1.5] * 9 + [0.25, -1.0, -2.0], shape), axis=-1)


LARGEST = OpSpec("largest", lambda x: jnp.max(x, axis=-1), "(n,12)->(n)", domains={"x": _tied})


def _largest_with(tangent: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable:
    """The largest of each row, whose tangent is `tangent(is it the largest?, x_dot)`."""

    def is_largest(x):
        return x == x.amax(-1, keepdim=True)

    def vjp(x, w):
        mask = is_largest(x).to(x.dtype)
        return w[..., None] * mask / mask.sum(-1, keepdim=True)

    return function(lambda x: x.amax(-1), vjp, lambda x, x_dot: tangent(is_largest(x), x_dot))


def _first(tied: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    return x_dot.gather(-1, tied.to(torch.uint8).argmax(-1, keepdim=True)).squeeze(-1)


def _last(tied: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    return _first(tied.flip(-1), x_dot.flip(-1))


def _largest_tangent(tied: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    """The derivative of the maximum in this direction."""
    return x_dot.masked_fill(~tied, -torch.inf).amax(-1)


# Mistakes at a tie, each right where there is none.


def _sum(tied: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    return (x_dot * tied).sum(-1)


def _beyond_the_largest(tied: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    return _largest_tangent(tied, x_dot) + (tied.sum(-1) > 1).to(x_dot.dtype)


def _of_another(tied: torch.Tensor, x_dot: torch.Tensor) -> torch.Tensor:
    return torch.where(tied.sum(-1) == 1, _first(tied, x_dot), _first(~tied, x_dot))


SLOW = pytest.mark.slow
FORMATS = ("bfloat16", "float64", "float16")
formats = pytest.mark.parametrize(
    "dtype", ["bfloat16", pytest.param("float64", marks=SLOW), pytest.param("float16", marks=SLOW)]
)


@pytest.mark.parametrize(
    ("tangent", "dtype"),
    [
        pytest.param(_last, "bfloat16", marks=SLOW),
        pytest.param(_first, "float16", marks=SLOW),
        pytest.param(_largest_tangent, "float64", marks=SLOW),
        *(
            pytest.param(tangent, dtype, marks=pytest.mark.soak)
            for tangent, dtypes in (
                (_last, ("float64", "float16")),
                (_first, ("float64", "bfloat16")),
                (_largest_tangent, ("bfloat16", "float16")),
            )
            for dtype in dtypes
        ),
    ],
)
def test_any_of_the_tied_is_right(tangent, dtype):
    row = judged(_largest_with(tangent), LARGEST, "jvp", dtype)
    assert row.verdict is Verdict.PASS, row.failure
    assert row.conventions  # the oracle has their mean


@fast("_sum-*")
@formats
@pytest.mark.parametrize("tangent", [_sum, _beyond_the_largest, _of_another])
def test_what_lies_outside_is_a_mistake(tangent, dtype):
    row = judged(_largest_with(tangent), LARGEST, "jvp", dtype)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.wrong[0].label == "output_dot"
    assert row.failure.wrong[0].error  # numbers differ, and nothing was raised


@pytest.mark.parametrize(
    "dtype", [pytest.param(dtype, marks=SLOW if dtype == "float16" else pytest.mark.soak) for dtype in FORMATS]
)
def test_under_vmap(dtype):
    assert judged(_largest_with(_last), LARGEST, "vmap", dtype).verdict is Verdict.PASS
    assert judged(_largest_with(_sum), LARGEST, "vmap", dtype).verdict is Verdict.MISMATCH
