"""Wrong shapes where there are no values."""

from __future__ import annotations

from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import PAIR, pair, pair_operator


def _transposed_kernel(x, y):
    return x * y, (x * y).mT


def _transposed_on_meta(x, y):
    first, second = pair(x, y)
    return first, second.mT if x.is_meta else second


CASES = (
    Operator(
        PAIR,
        pair,
        {
            "a fake kernel that transposes": Mistake(
                pair_operator("transposed_fake", fake=_transposed_kernel), "fake", passes=("forward", "vjp")
            ),
            "transposed on the device meta": Mistake(
                _transposed_on_meta, "fake", passes=("forward", "vjp", "purity", "make_fx", "compile")
            ),
        },
    ),
)
