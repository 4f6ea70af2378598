"""Equal arrays have one fingerprint, however they lie in memory; no others do."""

from __future__ import annotations

import numpy as np
import pytest

from parity_tests.harness.numbers.fingerprint import fingerprint

X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("same", [X.copy(), X.T.copy().T, np.repeat(X, 2, 1)[:, ::2]], ids=["copy", "order", "strides"])
def test_the_same_numbers_wherever_they_lie(same):
    assert fingerprint(same) == fingerprint(X)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(X.reshape(4, 3), id="shape"),
        pytest.param(X.view(np.int64), id="dtype"),
        pytest.param(np.nextafter(X, 20), id="last_bits"),
        pytest.param(np.where(X == 0, -0.0, X), id="sign_of_zero"),
    ],
)
def test_another_array(other):
    assert fingerprint(other) != fingerprint(X)


def test_arrays_without_axes_or_entries():
    assert fingerprint(np.array(1.0)) != fingerprint(np.ones(1))
    assert fingerprint(np.zeros((0, 3))) != fingerprint(np.zeros((3, 0)))
