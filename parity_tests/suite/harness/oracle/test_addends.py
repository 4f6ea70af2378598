"""The terms that a formula adds up, and how they are called."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import crosscheck
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.addends import Term, addends


def _terms(f: Callable, *args: np.ndarray) -> list[Term]:
    with pinned():
        (terms,) = addends(jax.make_jaxpr(f)(*args), args, "xy"[: len(args)])
    return terms


def _long(x):
    return jnp.exp(jnp.sin(jnp.cos(jnp.tanh(jnp.exp(x)))))


def test_an_operand_with_a_long_formula_is_called_by_what_it_is_made_of():
    x, y = np.full(3, 0.5), np.full(3, 0.25)
    texts = [term.text for term in _terms(lambda x, y: _long(x) * jnp.exp(-y / 3 + 2) * _long(y) * y + x, x, y)]
    assert texts == ["f(x, y) * f(y) * y", "x"]


def test_terms_of_one_name_are_numbered_and_none_is_lost():
    x = np.full(3, 0.5)
    terms = _terms(lambda x: _long(x) * _long(2 * x) + _long(3 * x) * _long(4 * x), x)
    assert [term.text for term in terms] == ["f(x) * f(x) [1]", "f(x) * f(x) [2]"]
    np.testing.assert_allclose(terms[1].value, _long(3 * x) * _long(4 * x), rtol=1e-6)


@pytest.mark.slow
def test_a_sort_beside_a_reference_has_terms():
    """The tangent of its places is no number, and compares with none."""

    def sort(x):
        return torch.sort(x)[0]

    report = crosscheck(sort, sort, inputs="x: (n)", checks=["low_precision"], dtypes=["bfloat16"], quick=True)
    assert report.passed, report
