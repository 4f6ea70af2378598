"""Rules take the parameters of their equation by name."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from parity_tests.harness.primitives.parameters import by_name


@pytest.fixture
def equation():
    """The equation of a running sum, which has the parameters axis and reverse."""
    (eqn,) = jax.make_jaxpr(lambda x: jax.lax.cumsum(x, 1))(jnp.ones((2, 3))).eqns
    return eqn


def test_a_rule_is_given_those_that_it_names(equation) -> None:
    def rule(eqn, x, *, axis):
        return eqn, x, axis

    assert by_name(rule, 0)(equation, "x") == (equation, "x", 1)


def test_the_equation_may_stand_behind_a_context(equation) -> None:
    assert by_name(lambda mp, eqn, *x, reverse: (mp, x, reverse), 1)("mp", equation, 1, 2) == ("mp", (1, 2), False)


def test_a_rule_may_take_all(equation) -> None:
    assert by_name(lambda eqn, **params: params, 0)(equation) == equation.params


def test_a_default_stands_where_jax_has_no_parameter_of_the_name(equation) -> None:
    assert by_name(lambda eqn, *, axis=7, of_another_version=5: (axis, of_another_version), 0)(equation) == (1, 5)


def test_a_parameter_that_jax_lacks_is_named(equation) -> None:
    def rule(eqn, *, axes): ...

    with pytest.raises(TypeError, match=r"rule\(\) missing 1 required keyword-only argument: 'axes'"):
        by_name(rule, 0)(equation)


def test_a_rule_without_parameters_stays_itself() -> None:
    def rule(eqn, x): ...

    assert by_name(rule, 0) is rule
    assert by_name(None, 1) is None
