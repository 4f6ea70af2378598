"""The oracle's own certificate: right formulas get it, every wrong one is found out, and judges nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from parity_tests import OpSpec, OracleError, Verdict, crosscheck
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.report.results import ORACLE
from parity_tests.harness.specs.spec import FORMULAS
from parity_tests.suite.harness._ops import normal, rows

# output = tanh(x) y, and every derivative by hand; t = tanh x, s = 1 - t².


def _wave(x, y):
    return jnp.tanh(x) * y


def _parts(x):
    t = jnp.tanh(x)
    return t, (1 - t) * (1 + t)


def _vjp(x, y, g):
    t, s = _parts(x)
    return s * y * g, t * g


def _jvp(x, y, x_dot, y_dot):
    t, s = _parts(x)
    return (s * y * x_dot + t * y_dot,)


def _vjp_of_vjp(x, y, g, a, b):
    t, s = _parts(x)
    return -2 * t * s * y * g * a + s * g * b, s * g * a, s * y * a + t * b


def _jvp_of_vjp(x, y, g, x_dot, y_dot, g_dot):
    t, s = _parts(x)
    return -2 * t * s * x_dot * y * g + s * y_dot * g + s * y * g_dot, s * x_dot * g + t * g_dot


def _vjp_of_jvp(x, y, x_dot, y_dot, w):
    t, s = _parts(x)
    return w * (s * y_dot - 2 * t * s * y * x_dot), w * s * x_dot, w * s * y, w * t


def _jvp_of_jvp(x, y, x_dot, y_dot, u, v, x_dot_dot, y_dot_dot):
    t, s = _parts(x)
    return (-2 * t * s * u * y * x_dot + s * v * x_dot + s * y * x_dot_dot + s * u * y_dot + t * y_dot_dot,)


FORMULA: dict[str, Callable] = {
    "vjp": _vjp,
    "jvp": _jvp,
    "vjp_of_vjp": _vjp_of_vjp,
    "jvp_of_vjp": _jvp_of_vjp,
    "vjp_of_jvp": _vjp_of_jvp,
    "jvp_of_jvp": _jvp_of_jvp,
}


def wave(**formulas: Callable) -> OpSpec:
    return OpSpec("wave", primal=_wave, inputs=(normal(3, 4), normal(3, 4, seed=1)), **formulas)


def candidate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * y


def certificates(spec: OpSpec, *checks: str, call: Callable = candidate) -> dict[str, Any]:
    report = crosscheck(call, spec, checks=checks, dtypes=["float64"])
    return {row.check: row for row in report.rows if row.candidate == ORACLE}


def test_every_formula_is_here():
    assert set(FORMULA) == set(FORMULAS) == {name for name, order in ORDERS.items() if len(order) in (1, 2)}


def test_right_formulas_are_certified_by_three_witnesses():
    certified = certificates(wave(**FORMULA), *FORMULA)
    assert [row.check for row in certified.values() if row.verdict is Verdict.PASS] == [
        m for m in ORDERS if m in FORMULA
    ]
    assert all(row.comparisons >= 3 for row in certified.values())


def test_autodiff_alone_is_certified_too():
    assert all(row.passed for row in certificates(wave(), *FORMULA).values())


def _spoilt(formula: Callable, spoil: Callable, which: int) -> Callable:
    def spoilt(*args):
        results = formula(*args)
        return tuple(spoil(y, results) if i == which % len(results) else y for i, y in enumerate(results))

    return spoilt


@pytest.mark.parametrize(
    ("spoil", "which"),
    [
        pytest.param(lambda y, ys: 2 * y, 0, id="factor"),
        pytest.param(lambda y, ys: -y, -1, id="sign"),
        pytest.param(lambda y, ys: y * (1 + 1e-9), 0, id="a factor of 1 + 1e-9"),
        pytest.param(lambda y, ys: None, -1, id="dropped"),
        pytest.param(lambda y, ys: y[::-1], 0, id="rows reversed"),
    ],
)
@pytest.mark.parametrize("name", FORMULA)
def test_a_wrong_formula_is_found_out_and_judges_nobody(name, spoil, which):
    spec = wave(**{name: _spoilt(FORMULA[name], spoil, which)})
    report = crosscheck(candidate, spec, checks=[name], dtypes=["float64"])
    (certificate,) = (row for row in report.rows if row.candidate == ORACLE)
    assert certificate.verdict is Verdict.MISMATCH
    assert "explicit formula against autodiff of the primal" in certificate.reason
    (row,) = rows(report)
    assert row.verdict is Verdict.UNRESOLVED
    assert row.reason.startswith(f"the oracle's {name} has no certificate: ")
    assert report.exit_code == 2


DROPPED_TERMS = {
    "vjp": lambda x, y, g: (y * g, jnp.tanh(x) * g),
    "jvp": lambda x, y, x_dot, y_dot: (_parts(x)[1] * y * x_dot,),
    "vjp_of_vjp": lambda x, y, g, a, b: (_parts(x)[1] * g * b, *_vjp_of_vjp(x, y, g, a, b)[1:]),
    "jvp_of_vjp": lambda x, y, g, u, v, w: _jvp_of_vjp(x, y, g, u, 0 * v, w),
    "vjp_of_jvp": lambda x, y, u, v, w: (*_vjp_of_jvp(x, y, u, v, w)[:3], 0 * w),
    "jvp_of_jvp": lambda x, y, u, v, a, b, c, d: _jvp_of_jvp(x, y, u, v, a, b, c, 0 * d),
}


@pytest.mark.parametrize("name", FORMULA)
def test_a_dropped_term_is_found_out(name):
    row = certificates(wave(**{name: DROPPED_TERMS[name]}), name)[name]
    assert row.verdict is Verdict.MISMATCH


def test_a_wrong_first_order_formula_spoils_what_is_derived_from_it():
    certified = certificates(wave(vjp=DROPPED_TERMS["vjp"]), "vjp", "vjp_of_vjp", "jvp")
    assert {name: row.verdict for name, row in certified.items()} == {
        "vjp": Verdict.MISMATCH,
        "jvp": Verdict.PASS,
        "vjp_of_vjp": Verdict.UNRESOLVED,
    }
    assert certified["vjp_of_vjp"].reason.startswith("it differentiates vjp: ")


def test_a_wrong_rule_inside_the_primal_is_found_out_by_the_taylor_remainder():
    """Autodiff follows a custom_jvp, so that autodiff cannot be the witness against it."""

    @jax.custom_jvp
    def sine(x):
        return jnp.sin(x)

    @sine.defjvp
    def _(primals, tangents):
        return sine(*primals), 2 * jnp.cos(*primals) * tangents[0]

    spec = OpSpec("sine", primal=lambda x: sine(x), inputs=(normal(4),))
    certified = certificates(spec, "vjp", "jvp", call=torch.sin)
    assert {row.verdict for row in certified.values()} == {Verdict.MISMATCH}
    assert {row.reason for row in certified.values()} == {
        f"Taylor rate of {name} is 1.00; it is 2 for a right derivative" for name in ("vjp", "jvp")
    }


def test_a_right_custom_jvp_is_certified():
    spec = OpSpec("relu", primal=lambda x: jax.nn.relu(x), inputs=(normal(4),))
    assert certificates(spec, "vjp", call=torch.relu)["vjp"].passed


def test_a_primal_that_goes_through_a_custom_vjp_is_refused():
    @jax.custom_vjp
    def sine(x):
        return jnp.sin(x)

    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (2 * jnp.cos(x) * g,))
    for primal in (sine, jax.jit(lambda x: 2 * sine(x))):
        with pytest.raises(OracleError) as refusal:
            crosscheck(torch.sin, OpSpec("sine", primal=primal, inputs=(normal(4),)))
        assert str(refusal.value) == (
            "sine: primal goes through a jax.custom_vjp, whose rule would be compared with itself and "
            "which JAX cannot differentiate forward; give the plain function as primal and the rule as vjp, or as "
            "surrogate if it is no derivative of the primal"
        )


@pytest.mark.parametrize(
    ("primal", "call"),
    [
        pytest.param(lambda x: jnp.maximum(x, 0), torch.relu, id="relu"),
        pytest.param(jnp.abs, torch.abs, id="abs"),
        pytest.param(lambda x: jnp.where(x > 0, 2 * x, x / 4), lambda x: torch.where(x > 0, 2 * x, x / 4), id="where"),
        pytest.param(lambda x: x.max(0), lambda x: x.amax(0), id="maximum of a column"),
        pytest.param(lambda x: jnp.clip(x, -1, 1), lambda x: torch.clamp(x, -1, 1), id="clip"),
        pytest.param(lambda x: 3 * x, lambda x: 3 * x, id="linear"),
    ],
)
def test_a_piecewise_linear_operator_gets_its_certificate(primal, call):
    spec = OpSpec("op", primal=primal, inputs=(normal(33, 5),))  # many numbers, so that some step crosses a kink
    report = crosscheck(call, spec, checks=["vjp", "jvp"], dtypes=["float64"])
    assert report.passed, str(report)


@pytest.mark.parametrize("shape", [(4,), (1, 4), ()], ids=str)
def test_a_formula_of_one_result_may_return_it_bare(shape):
    """As the primal may."""
    formulas = {"vjp": lambda x, g: jnp.cos(x) * g, "jvp": lambda x, x_dot: jnp.cos(x) * x_dot}
    spec = OpSpec("sine", primal=lambda x: jnp.sin(x), inputs=(normal(*shape),), **formulas)
    report = crosscheck(torch.sin, spec, checks=["vjp", "jvp", "vjp_of_vjp"], dtypes=["float64"])
    assert report.passed, str(report)


def test_a_formula_may_say_exact_zero_by_none():
    spec = OpSpec(
        "first", primal=lambda x, y: x * x + 0 * y, inputs=(normal(4),) * 2, vjp=lambda x, y, g: (2 * x * g, None)
    )
    report = crosscheck(lambda x, y: x * x + 0 * y, spec, checks=["vjp"], dtypes=["float64"])
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("vjp", "text"),
    [
        pytest.param(lambda x, y, g: (g,), "wave: vjp returns 1 results, expected 2", id="number"),
        pytest.param(
            lambda x, y, g: (g, g[0]), r"wave: vjp returns shape \(4,\) for y_bar, expected \(3, 4\)", id="shape"
        ),
    ],
)
def test_a_formula_that_does_not_fit_its_map(vjp, text):
    with pytest.raises(OracleError, match=f"^{text}$"):
        crosscheck(candidate, wave(vjp=vjp), checks=["vjp"], dtypes=["float64"])


@pytest.mark.parametrize(
    ("primal", "text"),
    [
        pytest.param(
            lambda x, y: x @ y, "wave: primal fails on inputs of shapes (3, 4), (3, 4): TypeError: ", id="it raises"
        ),
        pytest.param(
            lambda x, y: (x * y).astype(jnp.float32),
            "wave: primal returns float32 for output 0 although its inputs are float64; "
            "let its dtypes follow those of its inputs",
            id="dtype",
        ),
        pytest.param(lambda x, y: 3.0, "wave: primal fails on inputs of shapes (3, 4), (3, 4): ", id="a number"),
    ],
)
def test_a_primal_that_cannot_judge(primal, text):
    spec = OpSpec("wave", primal=primal, inputs=(normal(3, 4),) * 2)
    with pytest.raises(OracleError) as refusal:
        crosscheck(candidate, spec, checks=["forward"])
    assert str(refusal.value).startswith(text)


def test_a_primal_with_its_parameters_before_the_inputs():
    spec = OpSpec("power", lambda n, x: x**n, inputs=(normal(3),), params={"n": 2})
    with pytest.raises(
        OracleError, match=r"n stands before an input; wrap both functions, as in lambda \*inputs, n: f"
    ):
        crosscheck(lambda x, n: x**n, spec, checks=["forward"], dtypes=["float64"])


def test_a_primal_that_does_not_fit_its_signature():
    spec = OpSpec("wave", primal=lambda x, y: x.T, signature="(n,m),(n,m)->(n,m)")
    with pytest.raises(OracleError) as refusal:
        crosscheck(candidate, spec, checks=["forward"])
    assert str(refusal.value) == (
        "wave: primal returns shape (3, 4) for output 0 (n,m), where axis n is 4 "
        "(signature (n,m),(n,m)->(n,m) at n = 4, m = 3)"
    )
