"""LOSES DIGITS: reported of what cancels without need, a failure on request, and never said of right code."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Report, Verdict, crosscheck
from parity_tests.harness.language.values import evaluate_rounded
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.report.html import as_html
from parity_tests.suite.harness._ops import MADE_PAIR, judged, pair_function, pair_jvp, rows
from parity_tests.suite.harness.checks.planted.digits import CASES, EXPM1, HYPOT, TANH
from parity_tests.suite.marks import fast
from parity_tests.suite.mistakes import judged as judged_version

TANH_BY_DEFAULT = dataclasses.replace(TANH, accurate=False)


@pytest.fixture(scope="module")
def told() -> Report:
    return crosscheck(torch.tanh, TANH_BY_DEFAULT, checks=["digits"], dtypes=["float32"])


@pytest.fixture(scope="module")
def failed() -> Report:
    return crosscheck(torch.tanh, TANH, checks=["digits"], dtypes=["float32"])


def test_by_default_it_is_reported_and_passes(told):
    assert (told.exit_code, told.passed) == (0, True)
    (row,) = rows(told)
    assert row.verdict is Verdict.PASS
    assert [line.split(" ")[:2] for line in row.lost_digits] == [["x_bar", "loses"], ["output_dot", "loses"]]
    assert "tanh, f32: LOSES DIGITS: x_bar loses all 24 bits at x = " in str(told)
    assert "JAX's formula loses them, too (x has small and large numbers)" in str(told)


def test_where_accuracy_is_asked_for_it_fails(failed):
    assert failed.exit_code == 1
    (row,) = rows(failed)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert {wrong.label for wrong in row.failure.wrong} == {"x_bar", "output_dot"}
    assert all("OpSpec(accurate=True)" in wrong.circumstance for wrong in row.failure.wrong)
    assert "LOSES DIGITS" in str(failed)


@pytest.mark.parametrize("name", ["told", "failed"])
def test_json_and_html_have_it(name, request):
    report = request.getfixturevalue(name)
    again = Report.from_dict(json.loads(report.as_json()))
    assert [row.lost_digits for row in again.rows] == [row.lost_digits for row in report.rows]
    assert any(row.lost_digits for row in again.rows)
    assert "LOSES DIGITS: x_bar loses all 24 bits" in as_html(report)


def test_a_report_of_an_earlier_version_is_read(told):
    data = json.loads(told.as_json())
    for row in data["rows"]:
        del row["lost_digits"]
    assert all(row.lost_digits == () for row in Report.from_dict(data).rows)


def test_the_numbers_are_those_of_mpmath():
    """expm1'(x) = exp(x) as expm1(x) + 1: of float32's 24 bits the result has those above 2^-24."""
    x = np.array([-12.0])
    spec = dataclasses.replace(EXPM1, signature=None, inputs=(x,), accurate=False)
    line = judged(torch.expm1, spec, "digits", "float32").lost_digits[0]
    found = re.match(
        r"x_bar loses (\d+) of 24 bits at x = -12: (\S+) where (\S+) is right; the problem forces (\d+);", line
    )
    assert found is not None
    lost, given, right, forced = (float(part) for part in found.groups())
    by_torch = float(torch.expm1(torch.tensor(-12.0)) + 1)
    error = abs(by_torch / float(mpmath.exp(-12)) - 1)
    assert math.isclose(given / right - 1, by_torch / float(mpmath.exp(-12)) - 1, rel_tol=1e-2)
    assert abs(lost - math.log2(error / 2**-24)) < 1.1
    assert forced == math.floor(math.log2(12 + 1 + 1))  # x and the cotangent are rounded, and so is the result


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("float32", "float16")]
ACCURATE = {
    "logsigmoid": (jax.nn.log_sigmoid, torch.nn.functional.logsigmoid),
    "softplus": (jax.nn.softplus, torch.nn.functional.softplus),
    "exp": (jnp.exp, torch.exp),
    "sqrt(1 + x²)": (lambda x: jnp.sqrt(1 + x * x), lambda x: torch.sqrt(1 + x * x)),
    "silu": (jax.nn.silu, torch.nn.functional.silu),
    "mean of squares": (lambda x: jnp.mean(x * x)[None], lambda x: (x * x).mean()[None]),
}


@fast("*-float64")
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float32", "float16"])
@pytest.mark.parametrize("op", ACCURATE)
def test_what_loses_no_digits_is_not_accused(op, dtype):
    primal, call = ACCURATE[op]
    spec = OpSpec(op, primal=primal, signature="(n)->(1)" if op == "mean of squares" else "(n)->(n)")
    row = judged(call, spec, "digits", dtype)
    assert row.verdict is Verdict.PASS
    assert row.lost_digits == ()


def test_what_nobody_can_keep_is_not_asked_for():
    """x - y of nearly equal numbers that are given: the problem's own condition."""
    x = np.array([1.0, 2.0, 3.0])
    spec = OpSpec(
        "log_ratio", primal=lambda x, y: jnp.log(x) - jnp.log(y), inputs=(x, x * (1 + 2.0**-20)), accurate=True
    )
    row = judged(lambda x, y: torch.log(x / y), spec, "digits", "float32")
    assert (row.verdict, row.lost_digits) == (Verdict.PASS, ())


def test_a_candidate_that_keeps_digits_that_the_formula_loses_is_right():
    row = judged(
        lambda x: torch.log1p(x),
        OpSpec(
            "log1p", primal=lambda x: jnp.log(1 + x), signature="(n)->(n)", domains={"x": "positive"}, accurate=True
        ),
        "digits",
        "float32",
    )
    assert (row.verdict, row.lost_digits) == (Verdict.PASS, ())


def test_a_formula_that_keeps_them_is_said_to():
    """The oracle's own formula does not lose the digits, and a term that is 0 widens its bound."""
    row = judged(
        torch.expm1,
        dataclasses.replace(EXPM1, vjp=lambda x, g: (jnp.exp(x) * g + (g - g),), accurate=False),
        "digits",
        "float32",
    )
    (line,) = (line for line in row.lost_digits if line.startswith("x_bar"))
    assert "JAX's formula loses 0" in line


@pytest.mark.slow
def test_it_says_why_it_is_not_looked_for():
    spec = OpSpec("inverse", primal=lambda x: jnp.linalg.inv(jnp.diag(2 + x * x)), signature="(n)->(n,n)")
    report = crosscheck(lambda x: torch.linalg.inv(torch.diag(2 + x * x)), spec, checks=["digits"])
    assert {row.verdict for row in rows(report)} == {Verdict.SKIPPED}
    line = "lost digits are not looked for: the oracle's forward cannot be evaluated in extended precision: no exact"
    assert str(report).count(line) == 1
    large = OpSpec("large", primal=lambda x: jnp.tanh(x), inputs=(np.ones((300, 300)),))
    row = judged(torch.tanh, large, "digits")
    assert row.reason.endswith("are too large to be evaluated in extended precision at this sample")


def test_numbers_that_have_few_digits_themselves_are_no_place_to_look():
    """At 1.1e-6, subnormal in float16, hypot rounds to few digits, and its derivative is computed from it."""
    (case,) = (case for case in CASES if case.spec is HYPOT)
    report = judged_version(case.right, HYPOT, ["digits"], ["float16"], seed=5)
    (row,) = (row for row in report.rows if row.candidate == "wrong")
    assert (row.verdict, row.lost_digits) == (Verdict.PASS, ())


@pytest.mark.slow
def test_a_map_that_is_wrong_at_the_sample_itself_is_left_to_its_own_check():
    jvp_is_wrong = pair_function(jvp=lambda *args: tuple(2 * y for y in pair_jvp(*args))).apply
    report = crosscheck(jvp_is_wrong, MADE_PAIR, checks=["jvp", "digits"], dtypes=["float64"])
    assert {row.check: row.verdict for row in rows(report)} == {"jvp": Verdict.MISMATCH, "digits": Verdict.PASS}
    row = judged(lambda x: torch.exp(2 * x), OpSpec("exp", jnp.exp, "(n)->(n)"), "digits")
    assert (row.verdict, row.reason.split(",")[0]) == (Verdict.SKIPPED, "all results are wrong at the sample itself")


def test_accurate_is_true_or_false():
    with pytest.raises(TypeError, match="OpSpec f: accurate must be True or False, got 'yes'"):
        OpSpec("f", primal=jnp.exp, signature="(n)->(n)", accurate="yes")


def test_a_program_with_every_operation_rounded():
    x = np.array([1.0, 3.0])
    with pinned():
        program = jax.make_jaxpr(lambda x: jax.jit(lambda y: y / 3 + 0.1)(x))(x)
    p = PRECISIONS["bfloat16"]
    (y,) = evaluate_rounded(program, [x], p) or ()
    third, tenth = p.rounded(x / 3), p.rounded(np.array(0.1))
    np.testing.assert_array_equal(y, p.rounded(third + tenth))
    with pinned():
        loop = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, y: (c + y, c), 0.0, x))(x)
    assert evaluate_rounded(loop, [x], p) is None
