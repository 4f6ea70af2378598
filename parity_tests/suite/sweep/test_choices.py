"""Where a function has no derivative a framework may choose one of those nearby, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.suite.marks import fast
from parity_tests.suite.sweep.test_judgement import changed, judged, verdicts
from parity_tests.sweep.cases import Case, Side
from parity_tests.sweep.comparison import accused_by_both, decided
from parity_tests.sweep.lines import Verdict
from parity_tests.sweep.witnesses import by_differences

EQUAL = np.array([2.0, 2.0, 2.0, -1.0, 5.0])  # the third is in the middle of three equal ones
MEDIAN: dict[str, Any] = {"self": EQUAL, "k": 3, "dim": 0, "keepdim": False}


def one_hot(place: int, factor: float) -> Any:
    """A gradient that is the right one's sum times a factor, at one place."""

    def change(found: list[np.ndarray]) -> list[np.ndarray]:
        y = np.zeros_like(found[0])
        y[place] = factor * found[0].sum()
        return [y]

    return changed(change)


def of_the_equal(place: int, mode: str) -> Any:
    """PyTorch's own derivative, but of equal numbers this one is taken for the second."""
    nudge = np.zeros(5)
    nudge[:3] = 1e-9 * np.array([0.0, 1.0, 2.0])[(np.arange(3) - place + 1) % 3]

    def of(case: Case) -> Side:
        def side(which: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
            first = arguments[0] + nudge if which == mode else arguments[0]
            return case.in_pytorch(which, [first, *arguments[1:]])

        return side

    return of


@fast("1-jvp")
@pytest.mark.parametrize("mode", ["vjp", "jvp"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_each_of_equal_numbers_may_be_the_median(place, mode):
    lines = judged("kthvalue", of_the_equal(place, mode), (mode,), **MEDIAN)
    assert verdicts(lines) <= {Verdict.AGREES, Verdict.CONVENTION}


@pytest.mark.slow
@pytest.mark.parametrize(("place", "factor"), [(3, 1.0), (4, 1.0), (1, 2.0), (1, -1.0)])
def test_other_numbers_may_not_nor_may_the_gradient_be_of_another_size(place, factor):
    line = judged("kthvalue", one_hot(place, factor), ("vjp",), **MEDIAN)["vjp", "self"]
    assert line.verdict is Verdict.WRONG_IN_PYTORCH


@pytest.mark.slow
def test_a_tangent_of_another_size_is_no_choice_either():
    side = changed(lambda found: [50 * found[0], *found[1:]], "jvp")
    assert judged("kthvalue", side, ("jvp",), **MEDIAN)["jvp", "values"].verdict is Verdict.WRONG_IN_PYTORCH


@pytest.mark.slow
def test_a_wrong_derivative_of_a_smooth_function_is_no_choice():
    side = changed(lambda found: [np.zeros_like(found[0])])
    lines = judged("linalg_inv_ex", side, ("vjp",), A=np.array([[2.0, 0.5], [1.0, 1.0]]))
    assert verdicts(lines) == {Verdict.WRONG_IN_PYTORCH}


def test_an_infinite_number_is_right_where_no_format_holds_the_right_one():
    slopes = Slopes(-2.0, -2.0, 1e-18, "")
    assert decided(-np.inf, np.nan, slopes, 1.0, scale=2.0**1023)[0] is Verdict.AGREES
    assert decided(-np.inf, 1e300, slopes, 1.0, scale=2.0**1023)[0].is_wrong


def test_a_number_that_underflows_is_known_as_well_as_the_format_holds_it():
    """XLA's 0 for the product of 1e-312 and 4e149, which is 4e-163: a subnormal number is 0 to it."""
    slopes = Slopes(8.7425677692e-313, 8.7425677692e-313, 5e-324, "")
    assert decided(3.5772299030793085e-163, 0.0, slopes, 0.0, scale=4.0917382598701773e149)[0] is Verdict.AGREES
    assert decided(3.5772299030793085e-163, 1e-100, slopes, 0.0, scale=4.0917382598701773e149)[0].is_wrong


def test_an_infinite_number_is_wrong_where_the_cotangent_times_the_values_overflows():
    slopes = Slopes(2.5e-8, 2.5e-8, 1e-24, "")
    assert decided(2e142, np.inf, slopes, 1e300, scale=8e149, rounding=lambda: 1e142)[0] is Verdict.WRONG_IN_JAX


def wrong_beyond(limit: float) -> Any:
    return changed(lambda found: [np.where(np.abs(found[0]) > limit, np.nan, found[0])])


@pytest.mark.slow
def test_a_large_cotangent_does_not_overflow_in_the_witness():
    """exp at 700, times 1e150, has no number: infinite and NaN are both right; at 1 it has one, and NaN is wrong."""
    assert judged("exp", wrong_beyond(1e305), ("vjp",), self=np.array([700.0]))["vjp", "self"].verdict is Verdict.AGREES
    line = judged("exp", wrong_beyond(1e140), ("vjp",), self=np.array([1.0]))["vjp", "self"]
    assert (line.verdict, line.reason) == (Verdict.OVERFLOWS, "wrong in PyTorch")


def test_what_cancels_is_measured_by_its_terms():
    """Of a softmax the gradient of equal cotangents is 0; what rounding leaves of it is no mistake."""
    output = np.array([0.25, 0.5, 0.125, 0.125])
    noisy = changed(lambda found: [found[0] + 1e-17])
    given = {"grad_output": np.zeros(4), "output": output, "dim": 0, "input_dtype": torch.float64}
    lines = judged("_softmax_backward_data", noisy, ("vjp",), **given)
    assert lines["vjp", "grad_output"].verdict is Verdict.AGREES


def test_a_function_that_has_no_value_nearby_has_no_derivative():
    """0 log y is 0 if 0 times anything is; for y < 0 it has no other value."""
    slopes = by_differences(lambda t: 0.0 if t == 0 else np.nan, 1.0, "")
    assert decided(0.0, np.nan, slopes, 1.0)[0] is Verdict.CONVENTION
    assert decided(0.0, np.nan, by_differences(lambda t: np.nan, 1.0, ""), 1.0)[0] is Verdict.UNDECIDED


def test_an_operator_that_draws_random_numbers_is_not_compared():
    drawn = {"self": -np.ones(3), "noise": np.ones(3), "lower": 0.1, "upper": 0.3, "training": True}
    line = judged("rrelu_with_noise", None, ("vjp",), **drawn)["vjp", "self"]
    assert line.verdict is Verdict.UNREACHED
    mean = judged("rrelu_with_noise", None, ("vjp",), **{**drawn, "training": False})["vjp", "self"]
    assert mean.verdict is Verdict.AGREES


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (Verdict.WRONG_IN_BOTH, Verdict.WRONG_IN_PYTORCH, Verdict.WRONG_IN_PYTORCH),
        (Verdict.WRONG_IN_JAX, Verdict.WRONG_IN_BOTH, Verdict.WRONG_IN_JAX),
        (Verdict.WRONG_IN_JAX, Verdict.WRONG_IN_PYTORCH, Verdict.UNDECIDED),
        (Verdict.AGREES, Verdict.WRONG_IN_PYTORCH, Verdict.UNDECIDED),
        (Verdict.CONVENTION, Verdict.UNDECIDED, Verdict.UNDECIDED),
    ],
)
def test_of_witnesses_that_disagree_only_what_both_say_counts(first, second, verdict):
    assert accused_by_both(first, second) is verdict


@pytest.mark.slow
def test_a_number_that_the_inputs_do_not_determine_has_lost_its_digits_only():
    """Next to its pole at -1 the derivative of lgamma doubles with a rounding of the input; at -1.25 it does not."""
    twice = changed(lambda found: [2 * found[0]])
    at_pole = judged("lgamma", twice, ("vjp",), self=np.array([np.nextafter(-1.0, 0.0)]))["vjp", "self"]
    assert (at_pole.verdict, at_pole.reason) == (Verdict.LOSES_DIGITS, "a rounding of the inputs moves it as far")
    assert judged("lgamma", twice, ("vjp",), self=np.array([-1.25]))["vjp", "self"].verdict is Verdict.WRONG_IN_PYTORCH


@pytest.mark.slow
def test_a_second_derivative_below_a_rounding_of_the_value_has_lost_its_digits_only():
    """At -40 elu is -1, and its second derivative e^-40 is none that a formula has that knows the result alone."""
    given = {"alpha": 1.5, "scale": 1.0, "input_scale": 1.0}
    for x, verdict in ((-40.0, Verdict.LOSES_DIGITS), (-20.0, Verdict.WRONG_IN_PYTORCH)):
        zero = changed(lambda found: [0 * found[0], *found[1:]], "vjp_of_vjp")
        line = judged("elu", zero, ("vjp_of_vjp",), self=np.array([x, 1.5]), **given)["vjp_of_vjp", "self"]
        assert line.verdict is verdict
    undefined = changed(lambda found: [np.nan * found[0], *found[1:]], "vjp_of_vjp")
    line = judged("elu", undefined, ("vjp_of_vjp",), self=np.array([-40.0, 1.5]), **given)["vjp_of_vjp", "self"]
    assert line.verdict is Verdict.WRONG_IN_PYTORCH
    twice = changed(lambda found: [2 * found[0], *found[1:]], "vjp_of_vjp")
    line = judged("exp", twice, ("vjp_of_vjp",), self=np.array([-40.0, 1.5]))["vjp_of_vjp", "self"]  # exp is as small
    assert line.verdict is Verdict.WRONG_IN_PYTORCH


@pytest.mark.slow
def test_a_second_derivative_that_falls_as_a_power_is_no_tail():
    """That of i0e at 1e10 is far below a rounding of the value, and is a number still: docs/found.md, 103."""
    zero = changed(lambda found: [0 * found[0], *found[1:]], "vjp_of_vjp")
    line = judged("special_i0e", zero, ("vjp_of_vjp",), self=np.array([1e10, 1.5]))["vjp_of_vjp", "self"]
    assert line.verdict.is_wrong


@pytest.mark.slow
def test_beside_a_zero_of_the_first_derivative_a_second_one_is_no_tail():
    """That of i0 at 1e-8 is a half, and the first one 5e-9: docs/found.md, 18."""
    zero = changed(lambda found: [0 * found[0], *found[1:]], "vjp_of_vjp")
    line = judged("cos", zero, ("vjp_of_vjp",), self=np.array([1e-8, 1.5]))["vjp_of_vjp", "self"]
    assert line.verdict is Verdict.WRONG_IN_PYTORCH


def test_beside_a_large_number_a_small_one_is_judged_by_its_own_size():
    side = changed(lambda found: [np.where(np.abs(found[0]) < 1e6, 1.01 * found[0], found[0])])
    line = judged("exp", side, ("vjp",), self=np.array([1.0, 300.0]))["vjp", "self"]
    assert line.verdict is Verdict.WRONG_IN_PYTORCH


@pytest.mark.slow
def test_the_root_on_another_side_of_its_cut_is_not_compared_whatever_is_beside_it():
    """PyTorch's root of -2 - 0i is NumPy's, JAX's is that of -2 + 0i: next to 1e77 that were rounding."""
    z = np.array([complex(-2, -0.0), 1e154 + 0j])
    lines = judged("sqrt", None, ("vjp", "vjp_of_vjp"), self=z)
    assert verdicts(lines) == {Verdict.AGREES}
    twice = changed(lambda found: [found[0] * np.array([2.0, 1.0])])
    assert judged("sqrt", twice, ("vjp",), self=z)["vjp", "self"].verdict is Verdict.AGREES  # left out
    z[0] = complex(-2, 0.0)
    assert judged("sqrt", twice, ("vjp",), self=z)["vjp", "self"].verdict is Verdict.WRONG_IN_PYTORCH


@pytest.mark.slow
def test_a_large_number_in_another_argument_hides_no_difference_either():
    """The derivative of copysign at 0 is a choice: nothing that is made of it is compared there."""
    given = {"self": np.array([0.0, 1.5]), "other": np.array([1e154, 1e154])}
    lines = judged("copysign.Tensor", None, ("vjp_of_vjp",), **given)
    assert lines["vjp_of_vjp", "result_bar"].verdict is Verdict.AGREES
    twice = changed(lambda found: [2 * y for y in found], "vjp_of_vjp")
    wrong = judged("copysign.Tensor", twice, ("vjp_of_vjp",), **given)["vjp_of_vjp", "result_bar"]
    assert (wrong.verdict, wrong.reason) == (Verdict.OVERFLOWS, "wrong in PyTorch")


def nan_where(at: Any, mode: str = "vjp") -> Any:
    return changed(lambda found: [np.where(at, np.nan, found[0]), *found[1:]], mode)


@pytest.mark.parametrize("x", [-2.0, 0.0])
def test_nan_for_a_first_derivative_is_wrong_where_both_slopes_are_finite(x):
    """At 0 abs has a kink, for which PyTorch documents a subgradient."""
    lines = judged("abs", nan_where(np.array([True, False])), ("vjp",), self=np.array([x, 1.0]))
    assert lines["vjp", "self"].verdict is Verdict.WRONG_IN_PYTORCH


def test_nan_is_a_convention_where_a_slope_is_infinite():
    """The root at 0: PyTorch documents that it may be anything where there is no finite slope."""
    line = judged("sqrt", nan_where(np.array([True, False])), ("vjp",), self=np.array([0.0, 1.0]))["vjp", "self"]
    assert line.verdict is Verdict.CONVENTION


@pytest.mark.slow
def test_nan_of_both_frameworks_at_a_kink_is_pytorchs_mistake():
    """`hypot` at (0, 0): docs/found.md, 81. JAX documents nothing of kinks."""
    zeros = {"self": np.zeros(2), "other": np.array([0.0, 1.0])}
    assert judged("hypot", None, ("vjp",), **zeros)["vjp", "self"].verdict is Verdict.WRONG_IN_PYTORCH
    assert decided(np.nan, np.nan, Slopes(-1.0, 1.0, 1e-18, ""), 1.0, is_first=True)[0] is Verdict.WRONG_IN_PYTORCH
    assert decided(np.nan, np.nan, Slopes(-1.0, 1.0, 1e-18, ""), 1.0)[0] is Verdict.CONVENTION
    assert decided(np.nan, np.nan, Slopes(-1.0, np.inf, np.inf, ""), 1.0, is_first=True)[0] is Verdict.AGREES
    assert decided(np.nan, np.nan, Slopes(2.0, 2.0, 1e-18, ""), 1.0, is_first=True)[0] is Verdict.WRONG_IN_BOTH


ELU_BACKWARD: dict[str, Any] = {"alpha": 1.0, "scale": 1.0, "input_scale": 1.0, "is_result": False}


@pytest.mark.slow
def test_a_choice_at_a_kink_is_one_where_a_factor_of_0_hides_it():
    """Of g times the slope of elu at 0: its derivative by the number is g times the second derivative on one side."""
    given = {**ELU_BACKWARD, "grad_output": np.array([0.0]), "self_or_result": np.array([0.0])}
    line = judged("elu_backward", None, ("vjp_of_vjp",), **given)["vjp_of_vjp", "grad_output"]
    assert line.verdict is Verdict.CONVENTION
    given["self_or_result"] = np.array([-0.5])
    twice = changed(lambda found: [2 * found[0], *found[1:]], "vjp_of_vjp")
    wrong = judged("elu_backward", twice, ("vjp_of_vjp",), **given)["vjp_of_vjp", "grad_output"]
    assert wrong.verdict is Verdict.WRONG_IN_PYTORCH
