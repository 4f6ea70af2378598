"""Properties of jaxprs, the programs that JAX traces of functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
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


def equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """The equations of a program, each followed by those of the programs that it runs."""
    for eqn in jaxpr.eqns:
        yield eqn
        for sub in subprograms(eqn):
            yield from equations(sub)


def programs(jaxpr: core.Jaxpr) -> Iterator[core.Jaxpr]:
    """A program, and all that its equations run."""
    yield jaxpr
    for eqn in equations(jaxpr):
        yield from subprograms(eqn)


def primitives(jaxpr: core.Jaxpr) -> set[str]:
    """The names of the primitives in a program, and in all that it runs."""
    return {eqn.primitive.name for eqn in equations(jaxpr)}


def size(atom: Any) -> int:
    """The number of entries of a variable or a literal; 1 of what is no array."""
    return math.prod(getattr(atom.aval, "shape", ()))


def largest(jaxpr: core.Jaxpr) -> int:
    """The size of the largest array that a jaxpr makes, in entries."""
    return max((size(y) for eqn in equations(jaxpr) for y in eqn.outvars), default=0)


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
    written = (x.val for eqn in equations(jaxpr) for x in eqn.invars if isinstance(x, core.Literal))
    return {float(x) for x in written if np.ndim(x) == 0 and np.asarray(x).dtype.kind == "f" and np.isfinite(x)}


def computes_with_constants_alone(jaxpr: core.Jaxpr) -> bool:
    """True if an equation takes nothing but numbers that are written in the jaxpr, as log(2), or nothing, as iota."""
    moves = ("broadcast_in_dim", "convert_element_type")
    for program in programs(jaxpr):
        constant = constants_of(program.eqns)
        for eqn in program.eqns:
            if eqn.primitive.name not in moves and all(
                isinstance(x, core.Literal) or x in constant for x in eqn.invars
            ):
                return True
    return False


def constants_of(equations: Sequence[core.JaxprEqn], constants: Collection[core.Var] = ()) -> set[core.Var]:
    """The variables that equations compute from literals and these constants alone, and the constants."""
    found = {*constants}
    for eqn in equations:
        if all(isinstance(x, core.Literal) or x in found for x in eqn.invars):
            found.update(eqn.outvars)
    return found


def computes_few_numbers(jaxpr: core.Jaxpr, few: int) -> bool:
    """True if an equation makes fewer than `few` floating-point numbers of more, as a sum of all entries does."""

    def makes_few(eqn: core.JaxprEqn) -> bool:
        most = max(map(size, eqn.invars), default=0)
        real = [y for y in eqn.outvars if np.issubdtype(getattr(y.aval, "dtype", bool), np.floating)]
        return any(size(y) < min(few, most) for y in real)

    return any(map(makes_few, equations(jaxpr)))


def scales_by_constants(jaxpr: core.Jaxpr) -> bool:
    """True if an equation multiplies with, or divides by, a number that is written in the jaxpr, no power of two."""

    def scales(eqn: core.JaxprEqn) -> bool:
        literals = [x.val for x in eqn.invars if isinstance(x, core.Literal) and np.ndim(x.val) == 0]
        is_scaling = eqn.primitive.name in ("mul", "div")
        return is_scaling and any(math.frexp(float(x))[0] not in (0.0, 0.5, -0.5) for x in literals)

    return any(map(scales, equations(jaxpr)))


def has_custom_vjp(jaxpr: core.Jaxpr) -> bool:
    """True if a jax.custom_vjp takes part in a jaxpr."""
    return has_primitive(jaxpr, ("custom_vjp", "CustomVJP"))


def has_primitive(jaxpr: core.Jaxpr, prefix: str | tuple[str, ...]) -> bool:
    """True if the name of a primitive among the equations starts with this, or with one of these."""
    return any(name_of(eqn).startswith(prefix) for eqn in equations(jaxpr))


def checkpoint_names(jaxpr: core.Jaxpr) -> set[str]:
    """The names that `jax.ad_checkpoint.checkpoint_name` gives to intermediates of a jaxpr."""
    return {eqn.params["name"] for eqn in equations(jaxpr) if eqn.primitive.name == "name"}
