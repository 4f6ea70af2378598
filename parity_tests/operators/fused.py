"""Products of matrices that are added to something large, as one instruction of BLAS does."""

from __future__ import annotations

import torch

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators.operator import Mistake, Operator, function


def large(rng, shape):
    """Numbers beside which those of a product of matrices are small."""
    return 1e4 * rng.standard_normal(shape)


# c / 2 + 3 a b


def _addmm(c, a, b):
    return torch.addmm(c, a, b, beta=0.5, alpha=3)


addmm = Operator(
    OpSpec("addmm", lambda c, a, b: c / 2 + 3 * (a @ b), "(n,m),(n,k),(k,m)->(n,m)", domains={"c": large}),
    _addmm,
    {
        "beta_forgotten": Mistake(
            function(_addmm, lambda c, a, b, w: (w, 3 * (w @ b.mT), 3 * (a.mT @ w))), "vjp", passes=("forward",)
        ),
        "alpha_forgotten": Mistake(
            function(_addmm, lambda c, a, b, w: (w / 2, 3 * (w @ b.mT), a.mT @ w)), "vjp", passes=("forward",)
        ),
        "without_the_last_term": Mistake(
            lambda c, a, b: torch.addmm(c, a[:, :-1], b[:-1], beta=0.5, alpha=3), "forward", "float32"
        ),
    },
)


# A linear layer: x wᵀ + b


def _linear_backward(x, w, b, y_bar):
    return y_bar @ w, y_bar.mT @ x, y_bar.sum(0)


linear_with_bias = Operator(
    OpSpec("linear_with_bias", lambda x, w, b: x @ w.T + b, "(n,k),(m,k),(m)->(n,m)", domains={"b": large}),
    torch.nn.functional.linear,
    {
        "gradient_of_the_bias_of_one_row": Mistake(
            function(
                torch.nn.functional.linear,
                lambda x, w, b, y_bar: (*_linear_backward(x, w, b, y_bar)[:2], y_bar[:1].sum(0)),
            ),
            "vjp",
            passes=("forward",),
        ),
        "mean_over_the_batch": Mistake(
            function(
                torch.nn.functional.linear,
                lambda x, w, b, y_bar: (*_linear_backward(x, w, b, y_bar)[:2], y_bar.sum(0) / max(len(x), 1)),
            ),
            "vjp",
            passes=("forward",),
        ),
    },
)
