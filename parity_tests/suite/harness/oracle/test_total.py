"""The bound of a sum of results: any order of additions in the format stays within it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from parity_tests.harness.maps import Slot
from parity_tests.harness.numbers.formats import FORMATS
from parity_tests.harness.oracle.truth import Truth, total

SLOT = Slot("x_bar", "x")


def _truth(value, bound=0.0):
    value = np.asarray(value, np.float64)
    return Truth(SLOT, value, np.broadcast_to(np.float64(bound), value.shape))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_sums_in_every_order_are_within_the_bound(dtype, count):
    precision, rng = FORMATS[dtype], np.random.default_rng(count)
    terms = [precision.rounded(rng.standard_normal(200)) for _ in range(count)]
    expected = total([_truth(x) for x in terms], precision)
    largest = 0.0
    for order in itertools.permutations(terms):
        found = order[0]
        for x in order[1:]:
            found = precision.rounded(found + x)
        error = np.abs(found - expected.value)
        assert (error <= expected.bound).all()
        largest = max(largest, float((error / expected.bound).max()))
    assert largest > 0.05  # the bound is not idle


def test_errors_add_up_and_what_has_no_bound_keeps_none():
    expected = total([_truth([1.0, 1.0], 0.5), _truth([2.0, 2.0], [0.25, np.inf])], FORMATS["float64"])
    np.testing.assert_allclose(expected.bound, [0.75, np.inf])
    np.testing.assert_array_equal(expected.value, [3.0, 3.0])


def test_a_sum_that_may_overflow_has_no_bound():
    expected = total([_truth([6e4, 1.0]), _truth([6e4, 1.0])], FORMATS["float16"])
    assert np.isinf(expected.bound).tolist() == [True, False]
