"""The report that the tests of its forms show: one operator, right but for one entry of its gradient."""

from __future__ import annotations

import pytest

from parity_tests import Report, crosscheck
from parity_tests.suite.harness._ops import SQUARE, unary_function


@pytest.fixture(scope="module")
def failed() -> Report:
    def backward(x, g):
        spoilt = 2 * x * g
        spoilt[1, 2] += 3
        return spoilt

    wrong = unary_function(lambda x: x * x, backward)
    return crosscheck(wrong, SQUARE, checks=["forward", "vjp"], dtypes=["float64", "float32"], name="mine")
