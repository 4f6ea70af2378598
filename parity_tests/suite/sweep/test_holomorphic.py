"""Slopes of complex functions by mpmath, with hundreds of bits: where differences in float64 have no digits."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import mpmath
import numpy as np
import pytest

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.suite.sweep.test_judgement import call_of, changed, judged, verdicts
from parity_tests.sweep.cases import Case, case_of
from parity_tests.sweep.holomorphic import FUNCTIONS, holomorphic_slopes
from parity_tests.sweep.lines import Verdict
from parity_tests.sweep.witnesses import paths
from torch_impl.derivatives import lookup

ONE = np.array([0.75 - 0.5j])  # the cotangent, and every tangent


def case_at(name: str, z: complex) -> Case:
    case = case_of(lookup(name), call_of(name, {"self": np.array([z])}))
    assert case is not None
    return case


def slopes_of(name: str, mode: str, z: complex, index: int = 0) -> Sequence[Slopes | None]:
    """Those of the real and of the imaginary part; every argument but z is `ONE`."""
    case = case_at(name, z)
    arguments = [np.array([z]), *[ONE] * (len(case.map(mode).arguments) - 1)]
    return [holomorphic_slopes(case, mode, path) for path in paths(case, mode, arguments, index, (0,))]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_they_are_the_derivatives_where_there_is_nothing_to_lose(name):
    """At an ordinary number JAX's derivatives of the reference are right to the last digits."""
    z = 0.4 + 0.3j
    with jax.enable_x64(True), jax.disable_jit():  # compiling takes longer than the one evaluation
        for mode in ("vjp", "jvp", "vjp_of_vjp", "vjp_of_jvp", "jvp_of_jvp"):
            case = case_at(name, z)
            arguments = [np.array([z]), *[ONE] * (len(case.map(mode).arguments) - 1)]
            right = case.in_jax()(mode, arguments)[0].item()
            real, imaginary = slopes_of(name, mode, z)
            assert real is not None
            assert imaginary is not None
            assert complex(real.high, imaginary.high) == pytest.approx(right, rel=1e-11)


def test_they_have_digits_in_a_tail():
    found = [slopes.high for slopes in slopes_of("tanh", "vjp_of_vjp", -20 - 20j) if slopes is not None]
    with mpmath.workdps(60):
        second = mpmath.conj(mpmath.diff(mpmath.tanh, mpmath.mpc(-20, -20), 2))
        right = complex(mpmath.mpc(ONE[0]) * mpmath.conj(ONE[0]) * second)
    assert complex(*found) == pytest.approx(right, rel=1e-14)


def test_on_a_cut_that_is_approached_from_the_other_side_mpmath_says_nothing():
    assert slopes_of("sqrt", "vjp", complex(-2, 0.0))[0] is not None
    assert slopes_of("sqrt", "vjp", complex(-2, -0.0)) == [None, None]


@pytest.mark.slow
def test_a_mistake_in_a_tail_is_convicted_and_the_right_formula_is_not():
    """exp at -20 is as small as its derivatives."""
    z = np.array([-20 - 1j])
    assert verdicts(judged("exp", None, self=z)) == {Verdict.AGREES}
    wrong = changed(lambda found: [1.001 * found[0], *found[1:]], "vjp_of_vjp")
    line = judged("exp", wrong, ("vjp_of_vjp",), self=z)["vjp_of_vjp", "self"]
    assert line.verdict is Verdict.WRONG_IN_PYTORCH
    assert line.finding is not None
    assert "bits" in line.finding.witness


@pytest.mark.slow
def test_a_number_that_a_rounding_moves_as_far_has_lost_its_digits_only():
    """Next to its branch point at i the derivative of asinh depends on the last bit of the imaginary part."""
    twice = changed(lambda found: [1.3 * found[0]])
    at_point = judged("asinh", twice, ("vjp",), self=np.array([6.123233995736766e-17 + 1j]))["vjp", "self"]
    assert (at_point.verdict, at_point.reason) == (Verdict.LOSES_DIGITS, "a rounding of the inputs moves it as far")
    away = judged("asinh", twice, ("vjp",), self=np.array([0.1 + 1j]))["vjp", "self"]
    assert away.verdict is Verdict.WRONG_IN_PYTORCH
