"""JAX's jitted functions against the same op by op: what XLA may do agrees, and a planted difference is told."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.suite.sweep.test_judgement import call_of, no_special_calls
from parity_tests.sweep.cases import Case, case_of
from parity_tests.sweep.jitted import judge_jitted
from parity_tests.sweep.judgement import judge_entry
from parity_tests.sweep.lines import JITTED, Line, Verdict
from parity_tests.sweep.tallies import Tally
from torch_impl.derivatives import lookup

X = np.array([[-1.5, -0.25, 0.5], [2.0, 0.75, -4.0]])


def lines_of(name: str, **arguments: Any) -> dict[str, Line]:
    call = call_of(name, arguments)
    given = {"calls": lambda name, dtype: [call], "special": no_special_calls}
    return {line.of: line for line in judge_entry(lookup(name), [JITTED], ["float64"], **given)}


def tallies_of(function: Any, name: str, x: np.ndarray) -> dict[str, Tally]:
    case = case_of(lookup(name), call_of(name, {"self": x}))
    assert isinstance(case, Case)
    tallies = {"self": Tally(), "result": Tally()}
    with jax.enable_x64(True):
        judge_jitted([case], lambda case: [], lambda case: function, tallies)
    return tallies


@pytest.mark.parametrize("name", ["sin", "logsumexp"])
def test_what_xla_makes_of_a_function_agrees(name):
    lines = lines_of(name, self=X, **({"dim": [1]} if name == "logsumexp" else {}))
    assert {(line.of, line.verdict, line.calls) for line in lines.values()} == {
        ("self", Verdict.AGREES, 1),
        ("result", Verdict.AGREES, 1),
    }


def is_jitted() -> bool:
    return not jax.config.jax_disable_jit


def test_other_values_are_told_and_so_is_whose_they_are():
    def sin(x: Any) -> Any:
        return jnp.sin(x) if is_jitted() else 1.001 * jnp.sin(x)

    def of_jit(x: Any) -> Any:
        return 1.001 * jnp.sin(x) if is_jitted() else jnp.sin(x)

    for function, who in ((sin, "op by op"), (of_jit, "of the jitted function")):
        tally = tallies_of(function, "sin", X)["result"]
        assert (tally.verdict, tally.reason) == (Verdict.WRONG_IN_JAX, who)


def test_another_gradient_is_told():
    @jax.custom_vjp
    def sin(x: Any) -> Any:
        return jnp.sin(x)

    sin.defvjp(lambda x: (jnp.sin(x), x), lambda x, bar: (bar * jnp.cos(x) * (1.001 if is_jitted() else 1),))
    tallies = tallies_of(sin, "sin", X)
    assert tallies["result"].verdict is Verdict.AGREES
    assert (tallies["self"].verdict, tallies["self"].reason) == (Verdict.WRONG_IN_JAX, "of the jitted function")
    assert tallies["self"].finding is not None
    assert "op by op" in tallies["self"].finding.jax


def test_the_setting_is_as_it_was():
    lines_of("sin", self=X)
    assert is_jitted()
