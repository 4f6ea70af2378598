"""What the oracle says of a map: a result for each of its slots, with its label, its value and its bound."""

from __future__ import annotations

import numpy as np
import pytest

from parity_tests.harness.maps import ORDERS
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import MADE_PAIR


@pytest.mark.parametrize("name", ORDERS)
def test_each_result_has_its_label(name: str):
    sample = next(iter(samples(MADE_PAIR, 0)))
    bfloat16, float64 = PRECISIONS["bfloat16"], PRECISIONS["float64"]
    with pinned():
        oracle = Oracle(MADE_PAIR, sample)
        args = [bfloat16.rounded(x) for x in oracle.arguments(name, sample)]
        truths, exact = oracle.ask(name, args, bfloat16), oracle.ask(name, args, float64)
        again = oracle.ask(name, [x.copy() for x in args], bfloat16)
    assert [truth.slot for truth in truths] == list(oracle.map(name).results)
    assert [truth.label for truth in truths] == [slot.label for slot in oracle.map(name).results]
    shapes = oracle.shapes(sample.shapes)
    for truth, better, same in zip(truths, exact, again, strict=True):
        assert truth.value.shape == truth.bound.shape == shapes[truth.like]
        np.testing.assert_array_equal(truth.value, better.value)
        assert (better.bound <= truth.bound).all()
        assert same is truth  # it is evaluated once for equal arguments
