"""A function of JAX arrays, run as JAX runs it outside of `jax.jit`, but with each small program compiled only once.

Outside of `jax.jit` JAX runs one operation after the other, and has XLA compile each by itself, for every shape. What a
function under `jax.jit` is made of is one operation here. That is kept, since XLA would rewrite a function as a whole
(exp a · exp b to exp (a + b), a rounding to bfloat16 and back to nothing), and so hide what its author's users meet.

JAX compiles the same operation again for every function of jax.numpy that it comes from, and keeps what it has
compiled, 1.4 MB each, for the rest of the process: thousands of programs in a report. Here each is compiled once, and
the last ones are kept. A program of one operation in which IEEE 754 leaves no choice is compiled with less effort.

A function that branches in Python on the values of its arrays, or that has effects, is run by JAX itself.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend import core

MOST = 512  # programs that are kept

# What these run is run operation by operation, too, as JAX does: by the parameter that has it.
_CALLS = {
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "closed_call": "call_jaxpr",
    "checkpoint": "jaxpr",
}
# Of real numbers: one correct result, whatever the code that computes it.
_ROUNDS_ONCE = {"add", "add_any", "sub", "mul", "div", "convert_element_type"}
_MOVES = {"neg", "broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "select_n", "concatenate"}
_MOVES |= {"slice", "pad", "rev", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"}
_LITTLE_EFFORT = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


class Programs:
    """Those that one candidate needs, by what they compute."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[Hashable, Callable] = OrderedDict()

    def run(self, f: Callable, *args: jax.Array) -> Any:
        """f(*args), arrays in whatever containers JAX knows; it raises what f does."""
        try:
            closed, shapes = jax.make_jaxpr(f, return_shape=True)(*args)
        except Exception:
            return f(*args)  # values decide in it, or it raises this by itself
        if closed.effects:
            return f(*args)
        return jax.tree.unflatten(jax.tree.structure(shapes), self._run(closed.jaxpr, closed.consts, args))

    def _run(self, jaxpr: core.Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[jax.Array]:
        known: dict[core.Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        known |= zip(jaxpr.invars, args, strict=True)

        def read(atom: Any) -> Any:
            return _written(atom) if isinstance(atom, core.Literal) else known[atom]

        for eqn in jaxpr.eqns:
            operands = [read(atom) for atom in eqn.invars]
            inner = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
            if inner is not None:
                body, its = (inner.jaxpr, inner.consts) if isinstance(inner, core.ClosedJaxpr) else (inner, ())
                results = self._run(body, its, operands)
            else:
                results = self._operation(eqn, operands)
            known |= zip(eqn.outvars, results, strict=True)
        results = map(read, jaxpr.outvars)
        return [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in results]

    def _operation(self, eqn: core.JaxprEqn, operands: Sequence[Any]) -> Sequence[jax.Array]:
        inner, key = _jitted(eqn), _key(eqn)
        devices = {device for x in operands if isinstance(x, jax.Array) for device in x.devices()}
        if key is None or len(devices) > 1:
            return _bound(eqn, *operands)
        if inner is not None and not inner.eqns:  # it hands on what it is given
            given: dict[Any, Any] = dict(zip(inner.invars, operands, strict=True))
            if all(isinstance(atom, core.Var) for atom in inner.outvars):
                return [given[atom] for atom in inner.outvars]
        settings: Any = jax.config
        key = (key, str(settings.jax_default_device), *devices)
        program = self._compiled.pop(key, None)
        if program is None:
            lowered = jax.jit(functools.partial(_bound, eqn)).lower(*operands)
            program = lowered.compile(_options([eqn] if inner is None else inner.eqns))
        self._compiled[key] = program  # the last one, again
        if len(self._compiled) > MOST:
            self._compiled.popitem(last=False)
        return program(*operands)


def _bound(eqn: core.JaxprEqn, *operands: Any) -> Sequence[jax.Array]:
    results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return results if eqn.primitive.multiple_results else [results]


def _jitted(eqn: core.JaxprEqn) -> core.Jaxpr | None:
    """What an equation runs that is a call of a function under `jax.jit`, if it has no constants."""
    if eqn.primitive.name not in ("jit", "pjit") or eqn.params["jaxpr"].consts:
        return None
    return eqn.params["jaxpr"].jaxpr


def _options(eqns: Sequence[core.JaxprEqn]) -> dict[str, Any] | None:
    names = [eqn.primitive.name for eqn in eqns]
    atoms: list[Any] = [x for eqn in eqns for x in (*eqn.invars, *eqn.outvars)]
    sure = all(name in _ROUNDS_ONCE or name in _MOVES for name in names)
    sure = sure and not any(jnp.issubdtype(x.aval.dtype, jnp.complexfloating) for x in atoms)
    return _little_effort() if sure and sum(name in _ROUNDS_ONCE for name in names) <= 1 else None


@functools.cache
def _little_effort() -> dict[str, Any] | None:
    """The options, if this version of XLA knows them."""
    try:
        jax.jit(lambda x: x).lower(np.zeros(1)).compile(_LITTLE_EFFORT)
    except jax.errors.JaxRuntimeError:
        return None
    return _LITTLE_EFFORT


class _Unknown(Exception):
    """What an equation computes cannot be told from its parameters."""


def _key(eqn: core.JaxprEqn) -> Hashable | None:
    """What two equations that compute the same have in common; None where that cannot be told.

    A function under `jax.jit` that is one operation has that operation's own.
    """
    if eqn.primitive.name == "custom_lin":
        return None  # a custom_vjp, differentiated forward: it runs nowhere, and says so
    jitted = _jitted(eqn)
    plain = not eqn.params.get("compiler_options_kvs") and all(
        type(x).__name__ == "UnspecifiedValue"
        for name in ("in_shardings", "out_shardings")
        for x in eqn.params.get(name, ())
    )
    if eqn.primitive.name in ("jit", "pjit") and not plain:
        return None
    try:
        if jitted is not None:
            return _of_program(jitted.invars, jitted.eqns, jitted.outvars)
        return _of_program(eqn.invars, [eqn], eqn.outvars)
    except _Unknown:
        return None


def _of_program(arguments: Sequence[Any], eqns: Sequence[core.JaxprEqn], results: Sequence[Any]) -> Hashable:
    """The program with its variables numbered. What is written in an equation by itself is an operand like others."""
    own = len(eqns) == 1 and arguments is eqns[0].invars
    numbers: dict[Any, int] = {}

    def named(atom: Any) -> Hashable:
        if isinstance(atom, core.Literal):
            value = _written(atom)
            return value.dtype.name, value.shape, value.tobytes()
        return numbers[atom]

    for i, x in enumerate(arguments):
        numbers[i if own else x] = i
    types = tuple(_type(x) for x in arguments)
    steps = []
    for eqn in eqns:
        operands = tuple(range(len(arguments))) if own else tuple(map(named, eqn.invars))
        called = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))  # which is all that runs of a custom derivative
        params = _frozen(eqn.params if called is None else called)
        steps.append((eqn.primitive, params, operands, tuple(map(_type, eqn.outvars))))
        for x in eqn.outvars:
            numbers[x] = len(numbers)
    return types, tuple(steps), tuple(map(named, results))


def _written(literal: Any) -> np.ndarray:
    return np.asarray(literal.val, literal.aval.dtype)


def _type(x: Any) -> Hashable:
    aval = x.aval
    return (aval.shape, aval.dtype) if type(aval) is ShapedArray else _frozen(aval)


def _frozen(x: Any) -> Hashable:
    """A parameter of an equation, as a key: equal if it is of the same type and the same, to the last bit."""
    if isinstance(x, core.ClosedJaxpr):
        if x.consts:
            raise _Unknown
        x = x.jaxpr
    if isinstance(x, core.Jaxpr):
        if x.constvars:
            raise _Unknown
        return _of_program(x.invars, x.eqns, x.outvars)
    if isinstance(x, dict):
        return tuple((name, _frozen(value)) for name, value in sorted(x.items()) if name != "name")
    if isinstance(x, tuple | list):
        return type(x), tuple(map(_frozen, x))
    if isinstance(x, float | complex):
        return type(x), repr(x)  # 0.0 and -0.0 are equal
    if isinstance(x, np.generic):
        return x.dtype, x.tobytes()
    try:
        hash(x)
    except TypeError:
        raise _Unknown from None
    return type(x), x
