"""A vmapped call whose results have a wrong batch size: both shapes are told, and the harness goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from parity_tests import Verdict
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import SQUARE, judged

Batch = Callable[[torch.Tensor], torch.Tensor]


def whole(y: torch.Tensor) -> torch.Tensor:
    return y


def first_of(y: torch.Tensor) -> torch.Tensor:
    return y[:1]


def none_of(y: torch.Tensor) -> torch.Tensor:
    return y[:0]


def twice(y: torch.Tensor) -> torch.Tensor:
    return torch.cat([y, y])


def with_the_batch_last(y: torch.Tensor) -> torch.Tensor:
    return y.movedim(0, -1)


def _rule(f: Callable, batch: Batch) -> Callable:
    """A vmap rule of f, an elementwise function, that returns `batch` of the right results."""

    def rule(info, in_dims, *inputs):
        first = [x if dim is None else x.movedim(dim, 0) for x, dim in zip(inputs, in_dims, strict=True)]
        return batch(f(*first)), 0

    return rule


def _twice_the_product(batch: Batch) -> Callable:
    """2 x y, which is the gradient of x² along y, and the tangent."""

    def product(x, y):
        return 2 * x * y

    return function(product, lambda x, y, w: (2 * w * y, 2 * w * x), vmap=_rule(product, batch))


def square(values: Batch = whole, gradients: Batch = whole, tangents: Batch = whole) -> Callable:
    """x², whose vmap rule, or that of its backward or jvp, returns a part of the batch."""
    return function(
        torch.square, _twice_the_product(gradients), _twice_the_product(tangents), _rule(torch.square, values)
    )


@pytest.mark.parametrize("check", ["vmap", "functorch"])
def test_whole_batches(check: str):
    assert judged(square(), SQUARE, check).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("call", "check", "label", "circumstance", "shape"),
    [
        pytest.param(square(first_of), "vmap", "output", "in_dims (0,)", (1, 3, 3), id="the first alone"),
        pytest.param(square(none_of), "vmap", "output", "in_dims (0,)", (0, 3, 3), id="none"),
        pytest.param(square(twice), "vmap", "output", "in_dims (0,)", (4, 3, 3), id="twice as many"),
        pytest.param(square(with_the_batch_last), "vmap", "output", "in_dims (0,)", (3, 3, 2), id="the last axis"),
        pytest.param(
            square(gradients=first_of),
            "vmap",
            "x_bar",
            "in_dims (0,), of the cotangents (-1,)",
            (1, 3, 3),
            id="a gradient",
        ),
        pytest.param(
            square(tangents=twice),
            "vmap",
            "output_dot",
            "in_dims (0,), of the tangents (-1,)",
            (4, 3, 3),
            id="a tangent",
        ),
        pytest.param(
            square(gradients=first_of), "functorch", "x_bar", "vmap of vjp, as jacrev", (1, 3, 3), id="a row of jacrev"
        ),
        pytest.param(
            square(tangents=none_of),
            "functorch",
            "output_dot",
            "vmap of jvp, as jacfwd",
            (0, 3, 3),
            id="a column of jacfwd",
        ),
    ],
)
def test_both_shapes_are_told(call: Callable, check: str, label: str, circumstance: str, shape: tuple[int, ...]):
    row = judged(call, SQUARE, check)
    assert row.verdict is Verdict.MISMATCH, row.reason
    assert row.failure is not None
    wrong = row.failure.wrong[0]
    assert (wrong.label, wrong.circumstance) == (label, circumstance)
    assert wrong.pattern == f"has shape {shape} for a batch of 2, the oracle's is (2, 3, 3)"
    assert row.failure.unexplained == ()
