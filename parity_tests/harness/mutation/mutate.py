"""Mutants of a derivative: its jaxpr with one mistake in it, of the kinds that people make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from parity_tests.harness.maps import Map

_BLOCK = 32  # rows, beyond which a tail is forgotten
_SUMS = ("add", "add_any")


@dataclass(frozen=True)
class Mutation:
    """One mistake.

    Attributes:
        map: the derivative that it is in: "vjp" or "jvp".
        kind: what was done.
        where: the equation of the jaxpr, or the argument or result, that it was done to.
        place: the same for the interpreter: ("argument", i), ("result", i), or a primitive's name and the number of the
            equation among the live ones with this primitive, which is the same at other sizes and in other dtypes.
        edit: of an equation (bind, operands) -> result; else of the array alone.
        dtype: the dtype that it must be looked for in.
    """

    map: str
    kind: str
    where: str
    place: tuple[str, int]
    edit: Callable[..., jax.Array]
    dtype: str = "float64"


def mutations(derivative: Map, formula: Callable, *args: jax.ShapeDtypeStruct) -> Iterator[Mutation]:
    """Every mutation of a VJP or JVP, given by a formula on flat arguments, at arguments of these types."""
    name, count = derivative.name, derivative.base
    jaxpr = flattened(formula, *args).jaxpr
    text = _Text(jaxpr, [slot.label for slot in derivative.arguments])
    for i, slot in enumerate(derivative.arguments):
        for kind, edit in _of_arguments(name, is_primal=i < count):
            yield Mutation(name, kind, slot.label, ("argument", i), edit)
    primal, direction = _dependent(jaxpr, jaxpr.invars[:count]), _dependent(jaxpr, jaxpr.invars[count:])
    for eqn, place in _live(jaxpr):
        is_residual = eqn.outvars[0] in primal and eqn.outvars[0] not in direction
        for kind, edit in _of_equations(name, eqn.primitive.name, is_residual):
            if _fits(eqn, edit):
                yield Mutation(name, kind, text.of(eqn), place, edit)
    for i, (slot, var) in enumerate(zip(derivative.results, jaxpr.outvars, strict=True)):
        if _aval(var).ndim:
            yield Mutation(name, f"rows from {_BLOCK} on are 0", slot.label, ("result", i), _without_tail)
        yield Mutation(name, "doubled in bfloat16 only", slot.label, ("result", i), _doubled_in_bfloat16, "bfloat16")


def mutated(formula: Callable, mutation: Mutation | None) -> Callable:
    """The derivative with the mutation, on flat arguments; without one, the derivative through the same interpreter."""

    def derivative(*args: jax.Array) -> list[jax.Array]:
        closed = flattened(formula, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in args))
        return _interpreted(closed, args, mutation)

    return derivative


def flattened(formula: Callable, *args: jax.ShapeDtypeStruct) -> core.ClosedJaxpr:
    """A function's jaxpr, with the jitted functions that it calls inlined."""
    closed = jax.make_jaxpr(formula)(*args)
    return jax.make_jaxpr(lambda *arrays: _interpreted(closed, arrays, None))(*args)


# The mistakes.


def _of_arguments(name: str, is_primal: bool) -> Iterator[tuple[str, Callable]]:
    if is_primal:
        yield "detach a residual", jax.lax.stop_gradient
        return
    yield "ignore a direction", jnp.zeros_like
    if name == "vjp":  # a JVP that is not linear in its tangents has no transpose, so that JAX refuses most of its maps
        yield "clamp a cotangent", lambda w: jnp.clip(w, -1, 1)


def _of_equations(name: str, primitive: str, is_residual: bool) -> Iterator[tuple[str, Callable]]:
    if primitive in _SUMS:
        yield "drop the first term", lambda bind, a, b: jnp.broadcast_to(b, bind(a, b).shape)
        yield "drop the second term", lambda bind, a, b: jnp.broadcast_to(a, bind(a, b).shape)
        yield "flip a sign", lambda bind, a, b: a - b
    if primitive == "sub":
        yield "flip a sign", lambda bind, a, b: a + b
    if primitive == "neg":
        yield "flip a sign", lambda bind, a: a
    if primitive in ("mul", "sub", "dot_general") or (primitive == "div" and (is_residual or name == "vjp")):
        yield "swap operands", lambda bind, a, b: bind(b, a)
    yield "transpose", _transposed
    if is_residual:
        yield "detach a residual", lambda bind, *operands: jax.lax.stop_gradient(bind(*operands))


def _transposed(bind: Callable, *operands: jax.Array) -> jax.Array:
    y = bind(*operands)
    return y.mT if y.ndim >= 2 and y.shape[-1] == y.shape[-2] else y


def _without_tail(y: jax.Array) -> jax.Array:
    rows = jnp.arange(y.shape[0]).reshape(-1, *(1,) * (y.ndim - 1))
    return jnp.where(rows < _BLOCK, y, jnp.zeros_like(y))


def _doubled_in_bfloat16(y: jax.Array) -> jax.Array:
    return 2 * y if y.dtype == jnp.bfloat16 else y


def _fits(eqn: core.JaxprEqn, edit: Callable) -> bool:
    """True if the edit keeps shape and dtype, and there is something to transpose."""
    out: Any = eqn.outvars[0].aval
    if edit is _transposed and not (out.ndim >= 2 and 1 < out.shape[-1] == out.shape[-2]):
        return False
    operands = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in (_aval(x) for x in eqn.invars)]
    try:
        result: Any = jax.eval_shape(lambda *x: edit(lambda *y: _bound(eqn, y)[0], *x), *operands)
    except TypeError:  # JAX's word for operands that do not fit together
        return False
    return (result.shape, result.dtype) == (out.shape, out.dtype)


# The jaxpr.


def _interpreted(closed: core.ClosedJaxpr, args: Sequence[jax.Array], mutation: Mutation | None) -> list[jax.Array]:
    """A jaxpr's results at these arguments; jitted functions are inlined."""
    jaxpr, place = closed.jaxpr, mutation.place if mutation else None
    places = {id(eqn): where for eqn, where in _live(jaxpr)}
    values: dict[Any, jax.Array] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    for i, (var, x) in enumerate(zip(jaxpr.invars, args, strict=True)):
        values[var] = mutation.edit(x) if mutation and place == ("argument", i) else x
    for eqn in jaxpr.eqns:
        operands = [_read(values, x) for x in eqn.invars]
        if mutation and places.get(id(eqn)) == place:
            results = [mutation.edit(lambda *x, eqn=eqn: _bound(eqn, x)[0], *operands)]
        elif eqn.primitive.name in ("jit", "pjit"):
            results = _interpreted(eqn.params["jaxpr"], operands, None)
        else:
            results = _bound(eqn, operands)
        values.update(zip(eqn.outvars, results, strict=True))
    outputs = [_read(values, x) for x in jaxpr.outvars]
    return [mutation.edit(y) if mutation and place == ("result", i) else y for i, y in enumerate(outputs)]


def _aval(atom: Any) -> Any:
    """The type of an atom, which is always that of an array here."""
    return atom.aval


def _read(values: dict, atom: Any) -> jax.Array:
    return jnp.asarray(atom.val, _aval(atom).dtype) if isinstance(atom, core.Literal) else values[atom]


def _bound(eqn: core.JaxprEqn, operands: Sequence[jax.Array]) -> list[jax.Array]:
    results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return list(results) if eqn.primitive.multiple_results else [results]


def _live(jaxpr: core.Jaxpr) -> list[tuple[core.JaxprEqn, tuple[str, int]]]:
    """The equations with one floating-point result that the results depend on, each with its place."""
    needed, live = {x for x in jaxpr.outvars if not isinstance(x, core.Literal)}, []
    for eqn in reversed(jaxpr.eqns):
        if needed.intersection(eqn.outvars):
            needed.update(x for x in eqn.invars if not isinstance(x, core.Literal))
            if len(eqn.outvars) == 1 and jnp.issubdtype(_aval(eqn.outvars[0]).dtype, jnp.floating):
                live.append(eqn)
    counts, places = Counter(), []
    for eqn in reversed(live):
        places.append((eqn, (eqn.primitive.name, counts[eqn.primitive.name])))
        counts[eqn.primitive.name] += 1
    return places


class _Text:
    """Equations as text: arguments by their labels, and what an equation makes by its number."""

    def __init__(self, jaxpr: core.Jaxpr, labels: Sequence[str]) -> None:
        self._names: dict[Any, str] = dict(zip(jaxpr.invars, labels, strict=True))
        for i, eqn in enumerate(jaxpr.eqns):
            self._names.update(dict.fromkeys(eqn.outvars, f"%{i}"))

    def of(self, eqn: core.JaxprEqn) -> str:
        """One equation: "%3: float64[4,5] = add output_bar %2"."""
        operands = (str(x.val) if isinstance(x, core.Literal) else self._names.get(x, "constant") for x in eqn.invars)
        (out,) = eqn.outvars
        return f"{self._names[out]}: {out.aval.str_short()} = {eqn.primitive.name} {' '.join(operands)}"


def _dependent(jaxpr: core.Jaxpr, sources: Sequence) -> set:
    """The variables that depend on any of these."""
    found = set(sources)
    for eqn in jaxpr.eqns:
        if any(not isinstance(x, core.Literal) and x in found for x in eqn.invars):
            found.update(eqn.outvars)
    return found
