"""Operators whose mistakes show at special points only: at ties of many, and far out in the range of a format."""

from __future__ import annotations

import jax.numpy as jnp
import torch

from parity_tests.harness.spec import OpSpec
from parity_tests.suite.collection._case import Case, Mistake, function

# The largest of twelve, of 72 rows: where all are equal any of a row may have the gradient, or a part of it.


def _largest_with(share):
    """The cotangent goes to the first of the largest, times `share`."""

    def back(x, w):
        first = x.argmax(-1, keepdim=True)
        return torch.zeros_like(x).scatter(-1, first, share * w[..., None])

    return function(lambda x: x.amax(-1), back)


largest_of_twelve = Case(
    OpSpec("largest_of_twelve", lambda x: jnp.max(x, axis=-1), "(n,18,12)->(n,18)"),
    lambda x: x.max(-1).values,
    {
        "one_percent_too_much": Mistake(_largest_with(1.01), "points"),
        "all_of_the_largest": Mistake(
            function(lambda x: x.amax(-1), lambda x, w: (x == x.amax(-1, keepdim=True)) * w[..., None]),
            "points",
            passes=("vjp",),
        ),
    },
)


CASES = {"largest_of_twelve": largest_of_twelve}
