"""Every function of jax.numpy, jax.nn, jax.scipy.special, jax.lax and jax.numpy.linalg, under the installed JAX.

A new JAX may compute a function by a primitive that the error analysis has never met: whoever judges by that function
would be told that it is UNRESOLVED. Here the function and the primitive are named first.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core
from jax.interpreters import ad

from parity_tests.harness.language.calls import CONTROL_FLOW, called
from parity_tests.harness.language.jaxprs import subprograms
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.missing import NoRule, NotFloat64
from parity_tests.harness.primitives.registry import record_of
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.harness.rounding import jax_functions
from parity_tests.suite.harness.rounding.jax_functions import NAMESPACES, call_of, functions_of

# Primitives without a rule.
WITHOUT_RULE = {
    "approx_top_k": "finds most of the largest entries only: others are as right",
    "igamma_grad_a": "no bound is known: it differentiates a series that ends by a test",
    "qr": "no bound has been derived for its factors, which depend on the condition of the matrix",
    "ragged_dot_general": "no rule has been written for products of groups of rows",
}
_FLOAT32 = "computes in float32, whatever its operands are"
_ENDS = "its series ends by a test, which rounding may change"
# Functions that have no bound at the arguments of `jax_functions`, though each of their primitives has a rule.
WITHOUT_BOUND = {
    "jax.numpy.frexp": "takes the bits of a number apart",
    "jax.nn.dot_product_attention": _FLOAT32,
    "jax.nn.scaled_dot_general": _FLOAT32,
    "jax.scipy.special.hyp1f1": _ENDS,
    "jax.scipy.special.hyp2f1": _ENDS,
}
if not hasattr(jax.lax, "polynomial"):  # before JAX 0.11
    WITHOUT_BOUND |= dict.fromkeys(("jax.scipy.special.exp1", "jax.scipy.special.expn"), _ENDS)


@pytest.fixture(autouse=True)
def as_judged():
    with pinned(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of functions that JAX deprecates
        yield


def _equations(program: core.ClosedJaxpr | core.Jaxpr) -> Iterator[core.JaxprEqn]:
    jaxpr = program.jaxpr if isinstance(program, core.ClosedJaxpr) else program
    for eqn in jaxpr.eqns:
        inner = called(eqn)
        if inner is not None:
            yield from _equations(inner)
            continue
        yield eqn
        for sub in subprograms(eqn):
            yield from _equations(sub)


def _programs(module: ModuleType) -> Iterator[tuple[str, jax_functions.Call, core.ClosedJaxpr]]:
    """The programs of the functions of a namespace and of their VJPs, with their names."""
    for name, f in functions_of(module):
        call, program = call_of(module, name, f)
        yield f"{module.__name__}.{name}", call, program
        derivative = call.vjp(f)
        if derivative is not None:
            yield f"{module.__name__}.{name}", call, derivative


def _without_rule(module: ModuleType) -> dict[str, set[str]]:
    """The functions of a namespace that use primitives without a rule, by these primitives."""
    found: dict[str, set[str]] = {}
    for name, _, program in _programs(module):
        for eqn in _equations(program):
            if record_of(eqn.primitive.name) is None and eqn.primitive.name not in CONTROL_FLOW:
                found.setdefault(eqn.primitive.name, set()).add(name)
    return found


_BY_NAME = {module.__name__: module for module in NAMESPACES}


@pytest.mark.slow
@pytest.mark.parametrize("name", _BY_NAME)
def test_every_primitive_of_every_function_has_a_rule_or_a_reason(name):
    found = _without_rule(_BY_NAME[name])
    assert not found.keys() - WITHOUT_RULE.keys(), found


def _unheard_of() -> core.Primitive:
    primitive = core.Primitive("unheard_of")
    primitive.def_abstract_eval(lambda x: x)
    ad.defjvp(primitive, lambda t, x: t * jnp.sin(x))
    return primitive


def _planted(monkeypatch, **functions) -> ModuleType:
    """A namespace of these functions, without a call of its own for any."""
    module = ModuleType("planted")
    vars(module).update(functions)
    for table in (jax_functions._OWN, jax_functions.NOT_CALLED):
        monkeypatch.setitem(table, module, {})
    return module


def test_a_primitive_without_a_rule_is_named_with_the_function_that_uses_it(monkeypatch):
    primitive = _unheard_of()
    planted = _planted(monkeypatch, right=jnp.sin, sly=jax.jit(lambda x: primitive.bind(x)))
    assert _without_rule(planted) == {"unheard_of": {"planted.sly"}}


def test_a_primitive_that_only_the_derivative_uses_is_named(monkeypatch):
    primitive = _unheard_of()

    @jax.custom_jvp
    def sly(x):
        return jnp.sin(x)

    sly.defjvp(lambda x, t: (sly(*x), t[0] * primitive.bind(*x)))
    assert _without_rule(_planted(monkeypatch, sly=sly)) == {"unheard_of": {"planted.sly"}}


def test_every_exception_names_a_function_of_jax():
    known = {f"{module.__name__}.{name}" for module in NAMESPACES for name, _ in functions_of(module)}
    assert WITHOUT_BOUND.keys() <= known


@pytest.mark.slow
@pytest.mark.parametrize("name", _BY_NAME)
def test_every_function_has_bounds_or_a_reason(name):
    without: dict[str, str] = {}
    for function, call, program in _programs(_BY_NAME[name]):
        given = len(call.numbers)
        cotangents = (np.full(x.shape, 0.75, x.dtype) for x in program.in_avals[given:])
        try:
            bounded(program, *call.numbers, *cotangents, precision=PRECISIONS["float32"])
        except (NoRule, NotFloat64) as error:
            if not any(f"'{primitive}'" in str(error) for primitive in WITHOUT_RULE):
                without[function] = str(error)
    assert without.keys() == {x for x in WITHOUT_BOUND if x.rpartition(".")[0] == name}, without
