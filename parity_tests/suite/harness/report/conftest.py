"""Reports that the tests of its forms show, of one operator."""

from __future__ import annotations

import pytest
import torch

from parity_tests import Report, crosscheck
from parity_tests.suite.harness._ops import SQUARE, unary_function
from parity_tests.suite.harness.report._rows import WRONG


@pytest.fixture(scope="module")
def failed() -> Report:
    """Right but for one entry of the gradient."""

    def backward(x, g):
        spoilt = 2 * x * g
        spoilt[1, 2] += 3
        return spoilt

    wrong = unary_function(lambda x: x * x, backward)
    return crosscheck(wrong, SQUARE, checks=["forward", "vjp"], dtypes=["float64", "float32"], name="mine")


@pytest.fixture(scope="module")
def halved() -> Report:
    """Right but for half of the gradient."""
    checks = ["forward", "vjp", "vjp_of_vjp"]
    return crosscheck(WRONG, SQUARE, checks=checks, dtypes=["float64", "float32"], name="mine")


@pytest.fixture(scope="module")
def passed() -> Report:
    return crosscheck(torch.square, SQUARE, checks=["forward", "vjp"])
