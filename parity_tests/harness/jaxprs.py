"""Properties of jaxprs, the programs that JAX traces of functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.extend import core


def is_hijax(eqn: core.JaxprEqn) -> bool:
    """True for an equation of JAX's extensible primitives (0.11 and later), which hold their program in an object."""
    return eqn.primitive.name == "call_hi_primitive"


@functools.lru_cache(maxsize=1024)
def lowered(eqn: core.JaxprEqn) -> core.ClosedJaxpr:
    """The program that an equation of a hijax primitive runs."""
    run = functools.partial(eqn.primitive.to_lojax, **eqn.params)
    return jax.make_jaxpr(run)(*map(type_of, eqn.invars))


def type_of(atom: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of a variable or a literal."""
    return jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype)


def subprograms(eqn: core.JaxprEqn) -> Iterable[core.Jaxpr]:
    """The jaxprs that an equation runs, or may run."""
    return [lowered(eqn).jaxpr] if is_hijax(eqn) else core.jaxprs_in_params(eqn.params)


def name_of(eqn: core.JaxprEqn) -> str:
    """The name of its primitive; of a hijax primitive, of its class."""
    return type(eqn.params["_prim"]).__name__ if is_hijax(eqn) else eqn.primitive.name


def source(jaxpr: core.Jaxpr) -> tuple[str, bool]:
    """The name of the function that a program was traced from, and whether it is one of JAX's."""
    function, _, file = jaxpr.debug_info.func_src_info.partition(" at ")
    return function, Path(file).is_relative_to(Path(str(jax.__file__)).parent)


def largest(jaxpr: core.Jaxpr) -> int:
    """The size of the largest array that a jaxpr makes, in entries."""
    own = (math.prod(getattr(x.aval, "shape", ())) for eqn in jaxpr.eqns for x in eqn.outvars)
    inner = (largest(sub) for eqn in jaxpr.eqns for sub in subprograms(eqn))
    return max((*own, *inner), default=0)


def divisions(jaxpr: core.Jaxpr) -> int:
    """The number of divisions and powers with negative exponents; those of a loop count twice, for any number."""
    count = 0
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        count += name == "div" or (name == "integer_pow" and eqn.params["y"] < 0)
        inner = sum(divisions(sub) for sub in subprograms(eqn))
        count += 2 * inner if name in ("scan", "while") else inner
    return count


def literals(jaxpr: core.Jaxpr) -> set[float]:
    """The finite real numbers that are written in a jaxpr."""
    own = (x.val for eqn in jaxpr.eqns for x in eqn.invars if isinstance(x, core.Literal))
    found = {float(x) for x in own if np.ndim(x) == 0 and np.asarray(x).dtype.kind == "f" and np.isfinite(x)}
    inner = (literals(sub) for eqn in jaxpr.eqns for sub in subprograms(eqn))
    return found.union(*inner)


def computes_with_constants_alone(jaxpr: core.Jaxpr) -> bool:
    """True if an equation takes nothing but numbers that are written in the jaxpr, as log(2), or nothing, as iota."""
    constant: set[core.Var] = set()
    for eqn in jaxpr.eqns:
        if all(isinstance(x, core.Literal) or x in constant for x in eqn.invars):
            if eqn.primitive.name not in ("broadcast_in_dim", "convert_element_type"):
                return True
            constant.update(eqn.outvars)
    return any(computes_with_constants_alone(sub) for eqn in jaxpr.eqns for sub in subprograms(eqn))


def computes_few_numbers(jaxpr: core.Jaxpr, few: int) -> bool:
    """True if an equation makes fewer than `few` floating-point numbers of more, as a sum of all entries does."""

    def count(x: core.Var | core.Literal) -> int:
        return math.prod(getattr(x.aval, "shape", ()))

    def is_few(y: core.Var, most: int) -> bool:
        return count(y) < min(few, most) and np.issubdtype(getattr(y.aval, "dtype", bool), np.floating)

    own = ((y, max(map(count, eqn.invars), default=0)) for eqn in jaxpr.eqns for y in eqn.outvars)
    inner = (sub for eqn in jaxpr.eqns for sub in subprograms(eqn))
    return any(is_few(*each) for each in own) or any(computes_few_numbers(sub, few) for sub in inner)


def scales_by_constants(jaxpr: core.Jaxpr) -> bool:
    """True if an equation multiplies with, or divides by, a number that is written in the jaxpr, no power of two."""

    def scales(eqn: core.JaxprEqn) -> bool:
        literals = [x.val for x in eqn.invars if isinstance(x, core.Literal) and np.ndim(x.val) == 0]
        is_scaling = eqn.primitive.name in ("mul", "div")
        return is_scaling and any(math.frexp(float(x))[0] not in (0.0, 0.5, -0.5) for x in literals)

    inner = (sub for eqn in jaxpr.eqns for sub in subprograms(eqn))
    return any(map(scales, jaxpr.eqns)) or any(map(scales_by_constants, inner))


def has_custom_vjp(jaxpr: core.Jaxpr) -> bool:
    """True if a jax.custom_vjp takes part in a jaxpr."""
    return has_primitive(jaxpr, ("custom_vjp", "CustomVJP"))


def has_primitive(jaxpr: core.Jaxpr, prefix: str | tuple[str, ...]) -> bool:
    """True if the name of a primitive among the equations starts with this, or with one of these."""
    return any(
        name_of(eqn).startswith(prefix) or any(has_primitive(sub, prefix) for sub in subprograms(eqn))
        for eqn in jaxpr.eqns
    )


def checkpoint_names(jaxpr: core.Jaxpr) -> set[str]:
    """The names that `jax.ad_checkpoint.checkpoint_name` gives to intermediates of a jaxpr."""
    own = {eqn.params["name"] for eqn in jaxpr.eqns if eqn.primitive.name == "name"}
    return own.union(*(checkpoint_names(sub) for eqn in jaxpr.eqns for sub in subprograms(eqn)))


def without_dead_code(closed: core.ClosedJaxpr) -> core.ClosedJaxpr:
    """The same program without the equations that no result depends on."""
    jaxpr, kept = closed.jaxpr, []
    needed = {x for x in jaxpr.outvars if isinstance(x, core.Var)}
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not needed.isdisjoint(eqn.outvars):
            kept.append(eqn)
            needed.update(x for x in eqn.invars if isinstance(x, core.Var))
    return core.ClosedJaxpr(jaxpr.replace(eqns=kept[::-1]), closed.consts)
