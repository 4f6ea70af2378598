"""Where an operator has no value, or many, no derivative is judged; everywhere else it is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.maps import Slot
from parity_tests.harness.numbers.formats import FLOAT64, PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.defined import _only_zeros_known, where_defined
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.specs.samples import samples
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged, rows

FMOD = OpSpec("fmod", lambda x, y: jnp.fmod(x, y), "(n),(n)->(n)")
LOGARITHM = OpSpec("log", lambda x: jnp.log(x), "(n)->(n)")  # of real numbers: NaN at every other one


def fmod(nothing: float, sign: float = -1.0):
    """x - trunc(x / y) y, whose derivatives are `nothing` at y = 0, and that by y has this sign elsewhere."""

    def slopes(x, y):
        none = torch.full_like(x, nothing)
        return torch.where(y == 0, none, 1.0), torch.where(y == 0, none, sign * torch.trunc(x / y))

    def vjp(x, y, w):
        by_x, by_y = slopes(x, y)
        return w * by_x, w * by_y

    def jvp(x, y, x_dot, y_dot):
        by_x, by_y = slopes(x, y)
        return by_x * x_dot + by_y * y_dot

    return function(torch.fmod, vjp, jvp)


def logarithm(outside: float):
    """log x, whose derivative is `outside` where x is negative."""
    return function(torch.log, lambda x, w: w * torch.where(x > 0, 1 / x, torch.full_like(x, outside)))


@pytest.mark.slow
@pytest.mark.parametrize("nothing", [0.0, pytest.param(float("nan"), marks=pytest.mark.slow)])
@pytest.mark.parametrize("check", ["points", "exact"])
def test_what_has_no_value_has_any_derivative(check, nothing):
    assert judged(fmod(nothing), FMOD, check).verdict is Verdict.PASS


def test_where_it_has_one_a_mistake_is_caught():
    assert judged(fmod(0.0, sign=1.0), FMOD, "points").verdict is Verdict.MISMATCH


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float16", marks=pytest.mark.slow)])
def test_a_sample_that_has_values_in_part_is_judged_there(dtype):
    """JAX's derivative of log is 1 / x everywhere, PyTorch's, too."""
    for outside in (0.0, float("nan")):
        assert judged(logarithm(outside), LOGARITHM, "vjp", dtype).verdict is Verdict.PASS
    wrong = function(torch.log, lambda x, w: w * torch.where(x > 0, 2 / x, 1 / x))
    assert judged(wrong, LOGARITHM, "vjp", dtype).verdict is Verdict.MISMATCH


def test_an_operator_without_any_value_says_which_domain_to_declare():
    beyond = OpSpec("acos", lambda x: jnp.arccos(10 + x * x), "(n)->(n)")
    report = crosscheck(lambda x: torch.arccos(10 + x * x), beyond, checks=["forward"], dtypes=["float64"])
    assert {row.verdict for row in report.rows} == {Verdict.UNRESOLVED}
    assert (
        "the oracle's value is NaN at all of the inputs that were drawn; say by OpSpec.domains" in report.rows[0].reason
    )


@pytest.mark.slow
def test_the_factors_of_a_singular_matrix_have_no_derivative():
    operator = OpSpec("lu", lambda A: jax.scipy.linalg.lu(A)[1:], "(n,n)->(n,n),(n,n)")
    report = crosscheck(lambda A: torch.linalg.lu(A)[1:], operator, checks=["vjp", "points"], dtypes=["float64"])
    assert [row.verdict for row in rows(report)] == [Verdict.PASS, Verdict.PASS], report


@pytest.mark.slow
def test_a_sample_of_a_singular_matrix_is_skipped():
    ones = np.ones((3, 3))
    operator = OpSpec("lu", lambda A: jax.scipy.linalg.lu(A)[1:], inputs=(ones,))
    report = crosscheck(lambda A: torch.linalg.lu(A)[1:], operator, checks=["vjp"], dtypes=["float64"])
    assert report.skipped == ["lu, sample given: the oracle has no derivative there"]


def _singular_of_two_rows(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    A = rng.standard_normal(shape)
    return A[[0, 0]] if shape[0] == 2 else A


SINGULAR = OpSpec(
    "lu", lambda A: jax.scipy.linalg.lu(A)[1:], "(n,n)->(n,n),(n,n)", domains={"A": _singular_of_two_rows}
)


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_where_there_is_no_derivative_its_zeros_are_none(dtype):
    """What is no number reaches the zeros below the diagonal of U_dot by PyTorch's formula, and not by JAX's."""
    row = judged(lambda A: torch.linalg.lu(A)[1:], SINGULAR, "jvp", dtype)
    assert row.verdict is Verdict.PASS, row.failure


def test_where_there_is_one_they_are():
    def lu(A):
        return torch.linalg.lu(A)[1:]

    def jvp(A, A_dot):
        L_dot, U_dot = torch.func.jvp(lu, (A,), (A_dot,))[1]
        return L_dot, U_dot + torch.tril(torch.full_like(U_dot, torch.nan), -1)

    wrong = function(lu, lambda A, L_bar, U_bar: torch.func.vjp(lu, A)[1]((L_bar, U_bar)), jvp)
    assert judged(wrong, SINGULAR, "jvp").verdict is Verdict.MISMATCH


@pytest.mark.parametrize(
    ("values", "bounds", "only_zeros"),
    [
        ([np.nan, 0.0], [np.inf, 0.0], True),
        ([1e17, 0.0], [np.inf, 0.0], True),
        ([np.inf, 0.0], [np.inf, 0.0], False),
        ([np.nan, 2.0], [np.inf, 1e-15], False),
        ([2.0, 0.0], [1e-15, 0.0], False),
        ([0.0, 0.0], [0.0, 0.0], False),
    ],
)
def test_nothing_is_known_but_zeros(values, bounds, only_zeros):
    """Beside a pole, or what overflows, a zero is a zero: a NaN there is the mistake that people make."""
    truth = Truth(Slot("x_bar", "x"), np.array(values), np.array(bounds))
    assert _only_zeros_known([truth]) is only_zeros


def test_where_an_output_has_no_value_is_found_once_for_all_maps_and_formats(monkeypatch):
    found: list[str] = []
    values = Oracle.values
    monkeypatch.setattr(Oracle, "values", lambda self, name, args: found.append(name) or values(self, name, args))
    with pinned():
        (sample, *_) = samples(LOGARITHM, 0)
        oracle = Oracle(LOGARITHM, sample)
        x = np.array([-1.0, 2.0])
        for precision in (FLOAT64, PRECISIONS["float32"]):
            for name in ("vjp", "jvp"):
                (truth,) = where_defined(oracle, name, [x, np.ones(2)], precision)
                assert np.array_equal(np.isinf(truth.bound), [True, False])
    assert found.count("forward") == 1
