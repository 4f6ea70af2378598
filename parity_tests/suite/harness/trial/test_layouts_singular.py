"""A matrix whose rows are one row, expanded, is singular: what refuses its values has nothing against its layout."""

from __future__ import annotations

import jax.numpy as jnp
import jax.scipy.linalg
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.rotation import rotating

FACTORS = OpSpec("lu_factor", lambda a: jax.scipy.linalg.lu_factor(a)[0], "(n,n)->(n,n)")
SOLUTION = OpSpec("solve", lambda a, b: jnp.linalg.solve(a, b), "(n,n),(n,m)->(n,m)")
PRODUCT = OpSpec("product", lambda a, b: a @ b, "(n,n),(n,m)->(n,m)")


def _factors(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lu_factor(a)[0]


def _product_of_different_rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if len(a) > 1 and torch.equal(a[0], a[1]):
        raise RuntimeError("the rows of a are equal")
    return a @ b


def _contiguous_factors(a: torch.Tensor) -> torch.Tensor:
    if a.numel() > 1 and a.stride()[0] == 0:
        raise RuntimeError("a must not be expanded")
    return torch.linalg.lu_factor_ex(a)[0]


def _factors_of_equal_rows_misread(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lu_factor_ex(a.T if a.numel() > 1 and a.stride()[0] == 1 else a)[0]


@pytest.mark.slow
@rotating(4)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("call", "spec"),
    [pytest.param(_factors, FACTORS, id="lu_factor"), pytest.param(torch.linalg.solve, SOLUTION, id="solve")],
)
def test_to_refuse_a_singular_matrix_is_no_matter_of_layouts(call, spec, dtype):
    row = judged(call, spec, "layouts", dtype)
    assert row.verdict is Verdict.PASS, row.failure
    assert row.comparisons > 0


@pytest.mark.parametrize(
    ("call", "spec", "where"),
    [
        pytest.param(_product_of_different_rows, PRODUCT, "inputs expanded", id="there_is_a_value"),
        pytest.param(_contiguous_factors, FACTORS, "inputs expanded", id="the_layout_is_refused"),
        pytest.param(
            _factors_of_equal_rows_misread, FACTORS, "inputs transposed", id="another_layout", marks=pytest.mark.slow
        ),
    ],
)
def test_what_is_refused_although_it_has_a_value_or_for_its_layout_is_a_mistake(call, spec, where):
    row = judged(call, spec, "layouts")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.wrong[0].circumstance.startswith(where)
