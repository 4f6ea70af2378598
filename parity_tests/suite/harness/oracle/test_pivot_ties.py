"""Pivots that tie: another order of the rows is as right a factorization, and a wrong derivative is none."""

from __future__ import annotations

import jax.scipy.linalg
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.suite.harness._ops import judged, unary_function
from parity_tests.suite.marks import fast

# In the third column the candidates are -2/3 and 1 - 1/3, of the same magnitude but for rounding: LAPACK chooses
# another row in float32 than in float64.
TIED = np.array([[3.0, 0.0, 0.0, -2.0], [-1.0, -3.0, -1.0, 1.0], [2.0, 2.0, 0.0, 0.0], [3.0, 1.0, 1.0, -2.0]])


def _spec(*given: np.ndarray) -> OpSpec:
    signature = None if given else "(n,n)->(n,n)"
    return OpSpec("lu_factor", lambda a: jax.scipy.linalg.lu_factor(a)[0], signature, inputs=given or None)


def _factors(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.lu_factor_ex(a)[0]


_of_wrong_sign = unary_function(_factors, lambda a, cotangent: -torch.func.vjp(_factors, a)[1](cotangent)[0])


def test_the_formats_choose_different_pivots():
    pivots = [torch.linalg.lu_factor(torch.tensor(TIED, dtype=dtype))[1] for dtype in (torch.float64, torch.float32)]
    assert not torch.equal(*pivots)


@fast("forward")
@pytest.mark.parametrize("check", ["forward", "vjp", "jvp"])
def test_another_order_of_the_rows_is_as_right(check):
    row = judged(_factors, _spec(TIED), check, "float32")
    assert row.verdict is Verdict.PASS, row.failure


@pytest.mark.parametrize(
    "spec", [pytest.param(_spec(TIED), id="tied", marks=pytest.mark.slow), pytest.param(_spec(), id="of_all_sizes")]
)
def test_a_gradient_of_the_wrong_sign_is_none(spec):
    assert judged(_of_wrong_sign, spec, "vjp", "float32").verdict is Verdict.MISMATCH
