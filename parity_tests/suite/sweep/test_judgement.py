"""The sweep's verdicts: right formulas agree, and planted mistakes of each kind are called what they are."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.suite.harness._ops import hypot_by_a_ratio
from parity_tests.sweep import judgement
from parity_tests.sweep.cases import Case, Side
from parity_tests.sweep.comparison import decided
from parity_tests.sweep.domains import has_derivative
from parity_tests.sweep.formula_mutants import KINDS, planted
from parity_tests.sweep.formula_side import side_of
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import MODES, THIRD_ORDER, Line, Verdict
from parity_tests.sweep.recorded_calls import RecordedCall, as_numpy, as_torch
from torch_impl.derivatives import lookup

X = np.array([-1.5, -0.25, 0.5, 2.0])


def no_special_calls(call: RecordedCall, moving: Sequence[str]) -> list[RecordedCall]:
    return []


def call_of(name: str, arguments: dict[str, Any]) -> RecordedCall:
    """A call of an operator with these arguments, and PyTorch's results."""
    packet, _, overload = name.partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload or "default")
    results = function(**{key: as_torch(value) for key, value in arguments.items()})
    returned = results if isinstance(results, list | tuple) else (results,)
    return RecordedCall(f"aten::{name}", arguments, tuple(map(as_numpy, returned)), "by hand")


def judged(
    name: str, side: Callable[[Case], Side] | None = None, modes: Sequence[str] = MODES, **arguments: Any
) -> dict[tuple[str, str], Line]:
    """The lines of one call of an operator, by mode and what they are of."""
    call = call_of(name, arguments)
    given = {} if side is None else {"pytorch": side}
    dtype = "complex128" if any(np.iscomplexobj(x) for x in arguments.values()) else "float64"
    lines = judge_entry(
        lookup(name), modes, [dtype], calls=lambda name, dtype: [call], special=no_special_calls, **given
    )
    return {(line.mode, line.of): line for line in lines}


def verdicts(lines: dict[tuple[str, str], Line]) -> set[Verdict]:
    return {line.verdict for line in lines.values()}


def changed(change: Callable[[list[np.ndarray]], list[np.ndarray]], mode: str = "vjp") -> Callable[[Case], Side]:
    """PyTorch's own side, of which the results of one mode are changed."""

    def of(case: Case) -> Side:
        def side(which: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
            found = case.in_pytorch(which, arguments)
            return change(found) if which == mode else found

        return side

    return of


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sin", {"self": X}),
        ("mul.Tensor", {"self": X, "other": X[::-1].copy()}),
        ("cat", {"tensors": [X, X + 1], "dim": 0}),
        ("sum.dim_IntList", {"self": X.reshape(2, 2), "dim": [1], "keepdim": False}),
        pytest.param(
            "linalg_cholesky_ex",
            {"self": np.array([[2.0, 0.5], [0.5, 1.0]]), "upper": False},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_right_derivatives_agree(name, arguments):
    lines = judged(name, **arguments)
    assert verdicts(lines) == {Verdict.AGREES}
    assert all(line.calls == 1 for line in lines.values())


@pytest.mark.parametrize("kind", ["sign", "factor", "wrong saved value"])
def test_a_mistake_in_the_formula_s_text_is_pytorch_s(kind):
    entry = lookup("tanh")
    wrong = next(entry for which, formula, entry in planted(entry) if which == kind and formula.names == ("self",))
    lines = judged("tanh", lambda case: side_of(wrong, case), ("vjp", "jvp"), self=X)
    assert lines["vjp", "self"].verdict is Verdict.WRONG_IN_PYTORCH
    assert lines["jvp", "result"].verdict is Verdict.AGREES
    finding = lines["vjp", "self"].finding
    assert finding is not None
    assert "640 bits" in finding.witness
    assert float(finding.jax) == pytest.approx(float(finding.right), rel=1e-13)


def test_every_kind_of_mistake_is_planted_somewhere():
    names = ("tanh", "div.Tensor", "sub.Tensor", "cumsum", "acos")
    assert {kind for name in names for kind, _, _ in planted(lookup(name))} == set(KINDS)


@pytest.mark.slow
def test_a_matrix_function_is_judged_without_extended_precision():
    lines = judged("linalg_inv_ex", changed(lambda found: [-found[0]]), ("vjp",), A=np.array([[2.0, 0.5], [1.0, 1.0]]))
    (line,) = lines.values()
    assert line.verdict is Verdict.WRONG_IN_PYTORCH
    assert line.finding is not None
    assert "differences of PyTorch's values and of JAX's" in line.finding.witness


@pytest.mark.slow
def test_a_wrong_rule_of_jax_is_jax_s(monkeypatch):
    """`jax.hessian(jnp.hypot)` was 0 where its arguments are equal, before JAX 0.12: docs/found.md, 1."""
    monkeypatch.setattr(jnp, "hypot", hypot_by_a_ratio)
    lines = judged("hypot", self=np.array([1.0, 1.0]), other=np.array([1.0, 2.0]))
    assert lines["vjp", "self"].verdict is Verdict.AGREES
    assert lines["vjp_of_vjp", "self"].verdict is Verdict.WRONG_IN_JAX
    finding = lines["vjp_of_vjp", "self"].finding
    assert finding is not None
    assert float(finding.pytorch) == pytest.approx(float(finding.right), rel=1e-12)


def test_at_a_kink_any_slope_between_is_a_convention_and_one_beyond_is_wrong():
    bar = np.random.default_rng(0).standard_normal(2)  # the cotangent
    for slope, verdict in ((0.3, Verdict.CONVENTION), (1.5, Verdict.WRONG_IN_PYTORCH)):
        side = changed(lambda found, slope=slope: [np.array([slope * bar[0], found[0][1]])])
        lines = judged("abs", side, ("vjp",), self=np.array([0.0, 1.0]))
        assert lines["vjp", "self"].verdict is verdict


def test_lost_digits_are_counted():
    lines = judged("sin", changed(lambda found: [found[0] * (1 + 2e-10)]), ("vjp",), self=X)
    line = lines["vjp", "self"]
    assert (line.verdict, line.reason) == (Verdict.LOSES_DIGITS, "PyTorch has 9 digits")
    assert verdicts(judged("sin", changed(lambda found: [found[0] * (1 + 1e-14)]), ("vjp",), self=X)) == {
        Verdict.AGREES
    }


def test_nan_where_the_derivative_exists_is_wrong():
    lines = judged("sin", changed(lambda found: [np.where(X == 0.5, np.nan, found[0])]), ("vjp",), self=X)
    assert lines["vjp", "self"].verdict is Verdict.WRONG_IN_PYTORCH


def test_what_cannot_be_reached_says_why():
    def refuses(case: Case) -> Side:
        def side(mode: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
            if mode == "jvp":
                raise NotImplementedError("no forward mode")
            return case.in_pytorch(mode, arguments)

        return side

    lines = judged("sin", refuses, ("vjp", "jvp"), self=X)
    assert lines["vjp", "self"].verdict is Verdict.AGREES
    assert (lines["jvp", "result"].verdict, lines["jvp", "result"].calls) == (Verdict.UNREACHED, 0)
    assert "no forward mode" in lines["jvp", "result"].reason
    none = judge_entry(lookup("sin"), ["vjp"], ["float64"], calls=lambda name, dtype: [], special=no_special_calls)
    assert {(line.verdict, line.reason) for line in none} == {(Verdict.UNREACHED, "no call reaches it")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "has"),
    [
        ("linalg_lu", {"A": np.array([[1.0, 2.0], [3.0, 4.0]]), "pivot": True}, True),
        ("linalg_lu", {"A": np.array([[1.0, 2.0], [2.0, 4.0]]), "pivot": True}, False),
        ("linalg_lu_factor_ex", {"A": np.zeros((2, 3)), "pivot": True, "check_errors": False}, False),
        ("binary_cross_entropy", {"self": np.array([0.5, 1e-3]), "target": np.ones(2)}, True),
        ("binary_cross_entropy", {"self": np.array([0.5, 0.0]), "target": np.ones(2)}, False),
    ],
)
def test_no_derivative_is_asked_for_where_there_is_none(name, arguments, has):
    call = call_of(name, arguments)
    assert has_derivative(call) is has
    lines = judge_entry(lookup(name), ["vjp"], ["float64"], calls=lambda name, dtype: [call], special=no_special_calls)
    assert {line.calls for line in lines} == {int(has)}


def where_infinite(value: float, factor: float) -> Callable[[Case], Side]:
    """PyTorch's side, with this in place of a derivative where an input is not finite, and elsewhere a factor."""

    def of(case: Case) -> Side:
        def side(which: str, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
            found = case.in_pytorch(which, arguments)
            is_finite = all(np.isfinite(np.asarray(x)).all() for x in arguments)
            return [factor * y if is_finite else np.full_like(y, value) for y in found] if which != "forward" else found

        return side

    return of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_complex", "value", "factor", "verdict"),
    [
        (True, 0.0, 1, Verdict.AGREES),
        (True, math.nan, 1, Verdict.AGREES),
        (True, 0.0, 2, Verdict.WRONG_IN_PYTORCH),
        (True, math.nan, 1.001, Verdict.WRONG_IN_PYTORCH),
        (False, math.nan, 1, Verdict.CONVENTION),
    ],
)
def test_what_a_kernel_makes_of_a_complex_infinity_does_not_count(is_complex, value, factor, verdict):
    LU = np.array([[2.0, 0.5], [0.25, 1.5]]) + (1j if is_complex else 0)
    given = {"LU": LU, "pivots": np.array([1, 2], dtype=np.int32), "B": LU + 1, "left": True, "adjoint": True}
    infinite = {**given, "LU": LU + np.array([[0, 0], [0, np.inf]])}
    calls = [call_of("linalg_lu_solve", each) for each in (given, infinite)]
    lines = judge_entry(
        *(lookup("linalg_lu_solve"), ["vjp", "jvp"], ["complex128" if is_complex else "float64"]),
        pytorch=where_infinite(value, factor),
        calls=lambda name, dtype: calls,
        special=no_special_calls,
    )
    assert {line.verdict for line in lines} == {verdict}
    assert {line.calls for line in lines} == {1 if is_complex else 2}
    assert all(("up to the processor" in line.reason) is is_complex for line in lines)


def test_other_values_are_no_reference():
    call = call_of("sin", {"self": X})
    wrong = type(call)(call.name, call.arguments, (call.results[0] + 1,), call.source)
    (line,) = judge_entry(
        lookup("sin"), ["vjp"], ["float64"], calls=lambda name, dtype: [wrong], special=no_special_calls
    )
    assert line.verdict is Verdict.UNREACHED
    assert "values" in line.reason


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.AGREES), (1.5, Verdict.WRONG_IN_PYTORCH)])
def test_a_result_of_16_bits_is_judged_in_them(factor, verdict):
    """The cotangent keeps its 16 bits as the numbers are moved by roundings of float64."""

    def side(case: Case) -> Side:
        return lambda mode, given: [np.asarray(y * factor, y.dtype) for y in case.in_pytorch(mode, given)]

    call = call_of("_to_copy", {"self": X, "dtype": np.dtype("float16")})
    lines = judge_entry(
        *(lookup("_to_copy"), ["vjp", "vjp_of_vjp"], ["float64"]),
        pytorch=side,
        calls=lambda name, dtype: [call],
        special=no_special_calls,
    )
    assert {line.of: line.verdict for line in lines if line.mode == "vjp"} == {"self": verdict}
    assert all(line.calls for line in lines if line.mode == "vjp" or factor == 1)


@pytest.mark.slow
def test_a_repro_prints_what_pytorch_says():
    for mode in (*MODES, THIRD_ORDER):
        lines = judged("sin", changed(lambda found: [2 * y for y in found], mode), (mode,), self=X)
        finding = next(iter(lines.values())).finding
        assert finding is not None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(finding.repro, {})
        number = float(printed.getvalue().partition("(")[2].partition(",")[0])
        assert 2 * number == pytest.approx(float(finding.pytorch), rel=1e-3), mode


@pytest.mark.slow
def test_zero_on_both_sides_is_believed_only_if_the_function_is_constant(monkeypatch):
    assert verdicts(judged("round", self=X)) == {Verdict.AGREES}

    def without_derivative(case: Case) -> Callable[..., tuple[jax.Array, ...]]:
        return lambda x: (jax.lax.stop_gradient(jnp.sin(x)),)

    monkeypatch.setattr(Case, "jax_function", without_derivative)
    monkeypatch.setattr(judgement, "own_function", lambda cases: lambda case: None)
    lines = judged("sin", changed(lambda found: [0 * found[0]]), ("vjp",), self=X)
    assert lines["vjp", "self"].verdict is Verdict.WRONG_IN_BOTH


@pytest.mark.slow
def test_special_points_are_judged_too():
    """`logaddexp` has a second derivative that is NaN where its arguments are far apart: docs/found.md, 9."""
    call = call_of("logaddexp", {"self": X, "other": X[::-1].copy()})
    plain, special = (
        {line.of: line.verdict for line in judge_entry(lookup("logaddexp"), ["vjp_of_vjp"], ["float64"], **given)}
        for given in (
            {"calls": lambda name, dtype: [call], "special": no_special_calls},
            {"calls": lambda name, dtype: [call]},
        )
    )
    assert plain["self"] is Verdict.AGREES
    assert special["self"] is Verdict.WRONG_IN_PYTORCH


def test_numbers_whose_squares_overflow_are_told_apart():
    lines = judged("sin", changed(lambda found: [2 * found[0]]), ("vjp",), self=np.array([1e-160]))
    line = lines["vjp", "self"]
    assert (line.verdict, line.reason) == (Verdict.OVERFLOWS, "wrong in PyTorch")


@pytest.mark.slow
def test_a_large_number_at_another_place_hides_no_mistake_of_an_elementwise_operator():
    wrong_at_one = changed(lambda found: [found[0] * np.array([1.0, 2.0])])
    for dtype in (float, complex):
        lines = judged("mul.Scalar", wrong_at_one, ("vjp",), self=np.array([1e300, 1.0], dtype), other=3.0)
        assert lines["vjp", "self"].verdict is Verdict.WRONG_IN_PYTORCH


@pytest.mark.slow
def test_no_one_is_wrong_by_the_values_of_one_framework(monkeypatch):
    """JAX's function has the same value there, and another slope: as on a branch cut."""

    A = np.array([[2.0, 0.5], [1.0, 1.0]])
    at_A = float(np.linalg.det(A))

    def of_another_slope(case: Case) -> Callable[..., tuple[jax.Array, ...]]:
        return lambda x: (jnp.linalg.inv(x) + jnp.linalg.det(x) - at_A,)

    monkeypatch.setattr(Case, "jax_function", of_another_slope)
    (line,) = judged("linalg_inv_ex", None, ("vjp",), A=A).values()
    assert line.verdict is Verdict.UNDECIDED
    assert "not those of JAX's" in line.reason


@pytest.mark.slow
def test_a_wrong_rule_of_the_reference_is_not_said_to_be_jax_s(monkeypatch):
    @jax.custom_jvp
    def inverse(x):
        return jnp.linalg.inv(x)

    @inverse.defjvp
    def _(primals, tangents):
        y = inverse(*primals)
        return y, 2 * y @ tangents[0] @ y

    monkeypatch.setattr(Case, "jax_function", lambda case: lambda x: (inverse(x),))
    (line,) = judged("linalg_inv_ex", None, ("jvp",), A=np.array([[2.0, 0.5], [1.0, 1.0]])).values()
    assert (line.verdict, line.reason) == (Verdict.WRONG_IN_JAX, "JAX's is of the reference, jax_ref.aten")


SMOOTH = Slopes(2.0, 2.0, 1e-18, "")
ZERO = Slopes(0.0, 0.0, 0.0, "")
COARSE = Slopes(2.0, 2.0, 1e-2, "")
KINK = Slopes(-1.0, 1.0, 1e-18, "")
NONE = Slopes(math.nan, math.inf, math.inf, "")
UNKNOWN = Slopes(math.nan, math.nan, math.inf, "")


@pytest.mark.parametrize(
    ("pytorch", "jax", "slopes", "verdict"),
    [
        (2.0, 3.0, SMOOTH, Verdict.WRONG_IN_JAX),
        (3.0, 2.0, SMOOTH, Verdict.WRONG_IN_PYTORCH),
        (3.0, 1.0, SMOOTH, Verdict.WRONG_IN_BOTH),
        (math.nan, 2.0, SMOOTH, Verdict.WRONG_IN_PYTORCH),
        (2.0, math.inf, SMOOTH, Verdict.WRONG_IN_JAX),
        (2.0 + 1e-8, 2.0, SMOOTH, Verdict.LOSES_DIGITS),
        (1e-18, 0.0, ZERO, Verdict.AGREES),
        (1e-9, 0.0, ZERO, Verdict.WRONG_IN_PYTORCH),
        (2.0 + 1e-15, 2.0, SMOOTH, Verdict.AGREES),
        (2.0 + 1e-3, 2.0, COARSE, Verdict.UNDECIDED),
        (2.5, 2.0, COARSE, Verdict.WRONG_IN_PYTORCH),
        (1.0, 0.0, KINK, Verdict.CONVENTION),
        (1.5, 0.0, KINK, Verdict.WRONG_IN_PYTORCH),
        (math.nan, 0.0, KINK, Verdict.CONVENTION),
        (math.nan, 1.5, KINK, Verdict.WRONG_IN_JAX),
        (1.0, math.inf, NONE, Verdict.CONVENTION),
        (1.0, 2.0, UNKNOWN, Verdict.UNDECIDED),
    ],
)
def test_what_the_slopes_decide(pytorch, jax, slopes, verdict):
    assert decided(pytorch, jax, slopes, 1.0, rounding=lambda: 2.0**-52)[0] is verdict


def test_what_is_left_where_numbers_cancel_is_as_much_as_rounding_explains():
    for explained, verdict in ((2.0**-52, Verdict.AGREES), (0.0, Verdict.LOSES_DIGITS)):
        assert decided(1e-17, 0.0, ZERO, 1.0, rounding=lambda room=explained: room)[0] is verdict
    assert decided(1e-9, 0.0, ZERO, 1.0, rounding=lambda: 1.0)[0] is Verdict.WRONG_IN_PYTORCH  # a bound of everything
