"""Each kind of point that the sweep adds to PyTorch's samples shows a mistake that these do not show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from parity_tests.suite.sweep.test_judgement import call_of, no_special_calls
from parity_tests.sweep.cases import Arrays, Case, Side
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import MODES, NORMS, THIRD_ORDER, Verdict
from parity_tests.sweep.norm_calls import ORDERS, WITHOUT_ORDER, norm_calls
from parity_tests.sweep.running import modes_of
from parity_tests.sweep.special_calls import special_calls
from torch_impl.derivatives import lookup

X = np.array([0.75, -0.25, 1.25, -2.0])
M = np.array([[0.75, -0.25, 1.25], [1.5, -2.0, 0.5]])


@dataclass(frozen=True)
class Mistake:
    """A mistake in a derivative of PyTorch's that is made at some arguments only.

    Attributes:
        operator, given: a call at whose own numbers the mistake is not made.
        at: whether it is made at these arguments.
        change: makes a derivative wrong, given the first input and the derivative.
        verdict: what the sweep says of it.
    """

    operator: str
    given: dict[str, Any]
    at: Callable[[Sequence[Any]], bool]
    change: Callable[[np.ndarray, np.ndarray], np.ndarray]
    mode: str = "vjp"
    verdict: Verdict = Verdict.WRONG_IN_PYTORCH

    def side(self, case: Case) -> Side:
        def side(which: str, arguments: Sequence[Any]) -> Arrays:
            first, *others = case.in_pytorch(which, arguments)
            if which != self.mode or not self.at(arguments):
                return [first, *others]
            return [self.change(np.asarray(arguments[0]), first), *others]

        return side


def is_finite(x: np.ndarray) -> bool:
    return bool(np.isfinite(x).all())


def is_expanded(x: Any) -> bool:
    """Whether a cotangent has a stride of zero; the ordinary ones are arrays."""
    return isinstance(x, torch.Tensor) and 0 in x.stride()


def changed_where(where: Callable[[np.ndarray], np.ndarray], to: Callable[[np.ndarray], Any]) -> Any:
    """A change at the places of special numbers, whose neighbours are right."""
    return lambda x, y: np.where(where(x), to(y), y)


MISTAKES = {
    "a zero in a product": Mistake(
        "prod", {"self": X}, lambda a: is_finite(a[0]) and (a[0] == 0).sum() == 1, lambda x, y: np.where(x == 0, 0, y)
    ),
    "ties": Mistake(
        "amax",
        {"self": M, "dim": [1], "keepdim": False},
        lambda a: is_finite(a[0]) and bool((a[0] == a[0].flat[0]).all()),
        lambda x, y: 4 * y,  # of three; that of one of them may be all of it
    ),
    "tails": Mistake("sigmoid", {"self": X}, lambda a: True, changed_where(lambda x: x <= -40, lambda y: 0 * y)),
    "equal prefixes": Mistake(
        "prod",
        {"self": X},
        lambda a: is_finite(a[0]) and a[0].size > 2 and a[0][0] == a[0][1] == a[0][2] != a[0][-1],
        lambda x, y: -y,
    ),
    "boundaries": Mistake(
        "hardtanh",
        {"self": X, "min_val": -0.6, "max_val": 0.7},
        lambda a: True,
        changed_where(lambda x: x == 0.7, lambda y: y + 5),
    ),
    "negative half-integers": Mistake(
        "digamma", {"self": X}, lambda a: True, changed_where(lambda x: np.isin(x, [-0.5, -1.5, -2.5]), lambda y: 2 * y)
    ),
    "a number beside NaN in the last place of seven": Mistake(
        "sin",
        {"self": X},
        lambda a: a[0].size == 7 and np.isnan(a[0][6]),
        changed_where(np.isfinite, lambda y: -y),
    ),
    "an empty axis": Mistake(
        "sum.dim_IntList",
        {"self": M, "dim": [1], "keepdim": False},
        lambda a: a[0].size == 0,
        lambda x, y: y + 1,
        mode="jvp",
    ),
    "an axis of length 1": Mistake(
        "cumsum", {"self": M, "dim": 1}, lambda a: is_finite(a[0]) and 1 in a[0].shape, lambda x, y: 2 * y
    ),
    "a large cotangent": Mistake(
        "sin",
        {"self": X},
        lambda a: float(np.abs(np.asarray(a[1])).max()) > 1e149,
        lambda x, y: np.full_like(y, np.nan),
        verdict=Verdict.OVERFLOWS,
    ),
    "a cotangent that is one number, expanded": Mistake(
        "sin", {"self": M}, lambda a: is_expanded(a[1]) and set(a[1].stride()) == {0}, lambda x, y: 2 * y
    ),
    "a cotangent that is one row, expanded": Mistake(
        "mm",
        {"self": M, "mat2": M.T.copy()},
        lambda a: is_expanded(a[2]) and a[2].stride()[0] == 0 != a[2].stride()[1],
        lambda x, y: -y,
    ),
}
AT_EVERY_CALL = (
    "a large cotangent",
    "a cotangent that is one number, expanded",
    "a cotangent that is one row, expanded",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_at_one_kind_of_points_is_seen(kind):
    mistake = MISTAKES[kind]
    call = call_of(mistake.operator, mistake.given)

    def verdict(special: Any) -> Verdict:
        line, *_ = judge_entry(
            lookup(mistake.operator), [mistake.mode], ["float64"], mistake.side, lambda name, of: [call], special
        )
        return line.verdict

    assert verdict(special_calls) is mistake.verdict
    assert verdict(no_special_calls) is (mistake.verdict if kind in AT_EVERY_CALL else Verdict.AGREES)


@pytest.mark.slow
def test_a_third_derivative_that_is_wrong_where_an_entry_is_zero_is_seen():
    """Of the 2-norm, which has derivatives of every order there."""
    name = "linalg_vector_norm"
    calls = [call for call in norm_calls(name, "float64") if call.arguments["ord"] == 2]
    assert [bool((call.arguments["self"] == 0).any()) for call in calls] == [False, True]

    def wrong_at_a_zero(case: Case) -> Side:
        def side(which: str, arguments: Sequence[Any]) -> Arrays:
            found = case.in_pytorch(which, arguments)
            return [2 * y for y in found] if which == THIRD_ORDER and (arguments[0] == 0).any() else found

        return side

    for given, verdict in ({}, Verdict.AGREES), ({"pytorch": wrong_at_a_zero}, Verdict.WRONG_IN_PYTORCH):
        for call, expected in zip(calls, (Verdict.AGREES, verdict), strict=True):
            lines = judge_entry(
                *(lookup(name), [THIRD_ORDER], ["float64"]),
                calls=lambda name, of, call=call: [call],
                special=no_special_calls,
                norms=lambda name, of: [],
                **given,
            )
            assert {line.of for line in lines} == {"self", "result_bar", "self_bar_bar"}
            assert {line.verdict for line in lines} == {expected}


def test_norms_of_every_order_are_called_with_and_without_zeros():
    for name in NORMS:
        calls = norm_calls(name, "float64")
        assert len(calls) == 2 * (1 if name in WITHOUT_ORDER else len(ORDERS)), name
    assert not norm_calls("tanh", "float64")


def test_the_third_order_is_of_norms_unless_it_is_asked_for():
    by_default = {"modes": [*MODES, THIRD_ORDER], "third_order": "of norms"}
    assert modes_of("tanh", by_default) == MODES
    assert modes_of("dist", by_default) == (*MODES, THIRD_ORDER)
    assert modes_of("tanh", {"modes": [THIRD_ORDER]}) == (THIRD_ORDER,)
