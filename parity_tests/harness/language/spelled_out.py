"""The programs that some equations stand for, in primitives that have rules.

A newer JAX has one primitive, or one accurate function, where an older one has a formula. That formula is what other
frameworks compute: it is followed here, so that bounds, terms and extended precision are the same under every JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.interpreters import ad, batching, mlir

from parity_tests.harness.language.jaxprs import is_hijax, lowered, source, type_of

Formula = Callable[..., Any]  # operands -> result, or a sequence of them if the primitive has several


def _polynomial(x: jax.Array, *coefficients: jax.Array) -> jax.Array:
    """Horner's rule, as JAX and everybody else computes it; the coefficient of the highest power is the last one."""
    y = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        y = y * x + coefficient
    return y


def _exp_of_negative_square(x: jax.Array) -> jax.Array:
    """exp(-x²), for which JAX splits x into two halves by its bits: a rounding of x moves them by more than itself."""
    return jnp.exp(-(x * x))


def _sinc(x: jax.Array) -> jax.Array:
    """sin(πx) / (πx), which other frameworks compute, and JAX 0.11 by a polynomial in the distance from an integer."""
    angle = jnp.pi * jnp.where(x == 0, 1.0, x)
    return jnp.where(x == 0, 1.0, jnp.sin(angle) / angle)


def _barrier(*x: jax.Array) -> Sequence[jax.Array]:
    return x


_BY_PRIMITIVE: dict[str, Formula] = {
    "polynomial": _polynomial,
    "optimization_barrier": _barrier,
}


def _whole(name: str) -> Formula:
    """A function of jax.scipy.special as a primitive of this name, with a record of its own: one rounding is charged.

    JAX computes it by parts that its bits make of an argument, which a rounding moves by more than itself.
    """

    def function(x: jax.Array) -> jax.Array:
        return getattr(jax.scipy.special, name)(x)

    primitive = core.Primitive(name)
    primitive.def_impl(function)
    primitive.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[primitive] = lambda primals, tangents: jax.jvp(function, primals, tangents)
    batching.defvectorized(primitive)
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
    return lambda x: primitive.bind(x)


# Each a custom_jvp, by the name of the function that has it.
_BY_FUNCTION_OF_JAX: dict[str, Formula] = {
    "exp_neg_sq": _exp_of_negative_square,
    **{f"_{name}": _whole(name) for name in ("erfcx", "erfcinv", "ndtri")},
}

# Primitives whose bound is their own, as sums: the terms of a derivative that people forget one of. The derivative of
# tanh is one_minus_square of its result, and was g (1 - y) + g (1 - y) y before JAX 0.11.
_AS_SUMS: dict[str, Formula] = {"one_minus_square": lambda x: (1 - x) + (1 - x) * x}


def _of_complex_numbers(eqn: core.JaxprEqn) -> Formula | None:
    """The sum that a primitive is, whose own rule is one of real numbers."""
    is_complex = np.issubdtype(type_of(eqn.invars[0]).dtype, np.complexfloating)
    return _AS_SUMS[eqn.primitive.name] if is_complex else None


# lax.reduce of several arrays at once, entry by entry independent of each other, is a reduction of each.
_REDUCTIONS: dict[str, tuple[Callable[..., jax.Array], Callable[..., jax.Array]]] = {
    "add": (jnp.add, jnp.sum),
    "mul": (jnp.multiply, jnp.prod),
    "max": (jnp.maximum, jnp.max),
    "min": (jnp.minimum, jnp.min),
    "and": (lax.bitwise_and, lax.reduce_and),
    "or": (lax.bitwise_or, lax.reduce_or),
}


def spelled_out(eqn: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """The program that an equation stands for; None if it stands for itself, or calls a program."""
    if is_hijax(eqn):
        return lowered(eqn)
    return _program(eqn) if eqn.primitive.name in _MAY_BE or _may_be_sinc(eqn) else None


def _may_be_sinc(eqn: core.JaxprEqn) -> bool:
    """True of a call of jnp.sinc itself; what JAX makes of it for a derivative has other operands or results."""
    is_call = eqn.primitive.name in ("jit", "pjit") and eqn.params.get("name") == "sinc"
    return is_call and len(eqn.invars) == len(eqn.outvars) == 1 and type_of(eqn.invars[0]).dtype == np.float64


def as_sum(eqn: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """The program that adds up what a primitive computes as a whole; None of a primitive that is no such sum."""
    formula = _AS_SUMS.get(eqn.primitive.name)
    return None if formula is None else _traced(formula, eqn)


@functools.lru_cache(maxsize=1024)
def _program(eqn: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """One program for an equation, since what is known of the program's variables refers to them."""
    formula = _formula(eqn)
    return None if formula is None else _traced(formula, eqn)


def _traced(formula: Formula, eqn: core.JaxprEqn) -> core.ClosedJaxpr:
    return jax.make_jaxpr(formula)(*map(type_of, eqn.invars))


def _formula(eqn: core.JaxprEqn) -> Formula | None:
    if eqn.primitive.name in _BY_PARAMETERS:
        return _BY_PARAMETERS[eqn.primitive.name](eqn)
    if eqn.primitive.name == "custom_jvp_call":
        function, by_jax = source(eqn.params["call_jaxpr"].jaxpr)
        return _BY_FUNCTION_OF_JAX.get(function) if by_jax and len(eqn.invars) == 1 else None
    if _may_be_sinc(eqn):
        function, by_jax = source(eqn.params["jaxpr"].jaxpr)
        return _sinc if by_jax and function == "sinc" else None
    return _BY_PRIMITIVE[eqn.primitive.name]


def _subtracted(eqn: core.JaxprEqn) -> Formula:
    """The updates of a scatter-sub, added with their signs changed."""
    names = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    params = {name: eqn.params[name] for name in names}
    return lambda x, indices, updates: lax.scatter_add(x, indices, -updates, **params)


def _reduction(eqn: core.JaxprEqn) -> Formula | None:
    """Each result's own reduction, with its initial value; None where one is no sum, product or extremum of its own."""
    body, axes = eqn.params["jaxpr"], tuple(eqn.params["dimensions"])
    body = body.jaxpr if isinstance(body, core.ClosedJaxpr) else body
    count = len(body.outvars)
    by_result = {step.outvars[0]: step for step in body.eqns}
    pairs = []
    for i, result in enumerate(body.outvars):
        step = by_result.get(result)
        own = {body.invars[i], body.invars[count + i]}
        if step is None or step.primitive.name not in _REDUCTIONS or set(step.invars) != own:
            return None
        pairs.append(_REDUCTIONS[step.primitive.name])

    def formula(*operands: jax.Array) -> list[jax.Array]:
        arrays, initial = operands[:count], operands[count:]
        return [
            combine(start, reduce(x, axes)) for (combine, reduce), x, start in zip(pairs, arrays, initial, strict=True)
        ]

    return formula


_BY_PARAMETERS: dict[str, Callable[[core.JaxprEqn], Formula | None]] = {
    "reduce": _reduction,
    "scatter-sub": _subtracted,
    "one_minus_square": _of_complex_numbers,
}
_MAY_BE = frozenset({*_BY_PRIMITIVE, *_BY_PARAMETERS, "custom_jvp_call"})
