"""A function of JAX arrays, run as JAX runs it outside of `jax.jit`, with as few programs compiled as possible.

Outside of `jax.jit` JAX runs one operation after the other, and has XLA compile each by itself, for every shape. A
call of a function under `jax.jit` is one operation. The operations stay separate here, since XLA simplifies what it
compiles as a whole: exp a · exp b becomes exp (a + b), and a rounding to bfloat16 and back is removed. The users of the
function would get other numbers than those that were judged.

JAX compiles the same operation again for every function of jax.numpy that it comes from, and keeps each program, of 1.4
MB, for the rest of the process. A report would have thousands of programs. Here each is compiled once, and those that
were used last are kept. On the CPU, NumPy computes the operations whose results are determined to the last bit
(`jax_arithmetic`), and products of matrices and elementwise functions run at sizes that many shapes have in common
(`jax_common_sizes`).

A function that branches in Python on the values of its arrays, or that has effects, is run by JAX itself. A
`Transformed` one is traced once for arguments of the same shapes and dtypes, as under `jax.jit`.
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend import core

from parity_tests.harness.candidates import jax_arithmetic, jax_common_sizes
from parity_tests.harness.exceptions.defects import message_of
from parity_tests.harness.language.jaxprs import is_hijax, lowered

MOST = 512  # programs that are kept
_TRACES = 64  # that are kept
_OF_XLA = "INTERNAL: "  # what a callback raises, for one

# Primitives that call a program, which JAX runs operation by operation, too; with the parameter that has the program.
_CALLS = {
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "closed_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "eval_jaxpr": "call_jaxpr",  # of JAX 0.12: the primal of a custom_vjp that is a hijax primitive
}

# The errors of a custom_vjp that is differentiated in forward mode, which do not depend on values. The last two are
# JAX's where it is a hijax primitive: its linearized form has no rule of its own.
NO_FORWARD_MODE = (
    r"can't apply forward-mode .* to a custom_vjp function|Differentiation rule for 'custom_lin' not implemented"
    r"|Differentiation rule for 'call_hi_primitive_linearized' not implemented"
    r"|fallback_linearize_rule\(\) got multiple values for argument '_prim'"
)


@dataclass(frozen=True)
class Transformed:
    """The function `transform(f, *options)`, which is equal to another one of the same parts."""

    transform: Callable[..., Callable]
    f: Callable
    options: tuple[Hashable, ...] = ()

    def __call__(self, *args: Any) -> Any:
        """Return the results of the transformed function."""
        return self.transform(self.f, *self.options)(*args)


class Programs:
    """The compiled programs of one candidate, by what they compute; of them the `most` that were used last.

    `traces`: how many traces of `Transformed` functions are kept; with 0 each call traces again.
    """

    def __init__(self, most: int = MOST, traces: int = _TRACES) -> None:
        self._most, self._most_traces = most, traces
        self._compiled: OrderedDict[Hashable, Callable] = OrderedDict()
        self._traced: OrderedDict[Hashable, tuple[core.ClosedJaxpr, Any]] = OrderedDict()

    def run(self, f: Callable, *args: jax.Array) -> Any:
        """Return f(*args), whose arguments are arrays in any containers that JAX knows; raises what f raises."""
        try:
            closed, shapes = self._trace(f, args)
        except Exception as error:
            if re.search(NO_FORWARD_MODE, message_of(error)):
                raise
            return f(*args)  # it branches on values, or it raises the error outside of tracing, too
        if closed.effects:
            return f(*args)
        results = self.run_closed(closed, args)
        arrays = [x if isinstance(x, jax.Array) else jax.device_put(x) for x in results]
        return jax.tree.unflatten(jax.tree.structure(shapes), arrays)

    def _trace(self, f: Callable, args: Sequence[Any]) -> tuple[core.ClosedJaxpr, Any]:
        """Return the program of a function at such arguments, and the shapes of its results; raises what f raises."""
        trace = jax.make_jaxpr(f, return_shape=True)
        if not isinstance(f, Transformed):
            return trace(*args)
        leaves, structure = jax.tree.flatten(args)
        key = (f, structure, *(jax.typeof(x) for x in leaves))
        found = self._traced.pop(key, None) or trace(*args)  # several threads may ask at once
        self._traced[key] = found  # moved to the end: the one that was used last
        if len(self._traced) > self._most_traces:
            self._traced.popitem(last=False)
        return found

    def run_closed(self, closed: core.ClosedJaxpr, args: Sequence[jax.Array]) -> list[Any]:
        """Return the results of a program at these arguments: arrays of JAX, or of NumPy where it has computed them."""
        with np.errstate(all="ignore"):
            try:
                return self._run(closed.jaxpr, closed.consts, args)
            except ValueError as error:  # from the second call of a program on, JAX raises XLA's errors so
                if not message_of(error).startswith(_OF_XLA):
                    raise
                raise jax.errors.JaxRuntimeError(message_of(error)) from error

    def _run(self, jaxpr: core.Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Return the results of a jaxpr: arrays of JAX, or of NumPy where it has computed them."""
        known: dict[core.Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        known |= zip(jaxpr.invars, args, strict=True)

        def read(atom: Any) -> Any:
            return _written(atom) if isinstance(atom, core.Literal) else known[atom]

        for eqn in jaxpr.eqns:
            operands = [read(atom) for atom in eqn.invars]
            inner = lowered(eqn) if is_hijax(eqn) else eqn.params.get(_CALLS.get(eqn.primitive.name, ""))
            if inner is not None:
                body, its = (inner.jaxpr, inner.consts) if isinstance(inner, core.ClosedJaxpr) else (inner, ())
                results = self._run(body, its, operands)
            else:
                results = self._operation(eqn, operands)
            known |= zip(eqn.outvars, results, strict=True)
        return [read(x) for x in jaxpr.outvars]

    def _operation(self, eqn: core.JaxprEqn, operands: Sequence[Any]) -> Sequence[Any]:
        inner = _jitted(eqn)
        if _on_the_default_cpu(operands):
            if inner is not None and _is_one_operation(inner):
                return self._run(inner, (), operands)
            results = jax_arithmetic.computed(eqn, operands)
            if results is not None:
                return results
            extended = jax_common_sizes.extended(eqn, operands)
            if extended is not None:
                program = self._compiled_once(extended.key, extended.call, extended.operands)
                return [extended.cut(np.asarray(program(*extended.operands)))]
        key = _key(eqn)
        devices = {device for x in operands if isinstance(x, jax.Array) for device in x.devices()}
        if key is None or len(devices) > 1:
            return _bound(eqn, *operands)
        if inner is not None and not inner.eqns:  # it returns some of its arguments
            given: dict[Any, Any] = dict(zip(inner.invars, operands, strict=True))
            if all(isinstance(atom, core.Var) for atom in inner.outvars):
                return [given[atom] for atom in inner.outvars]
        return self._compiled_once((key, *devices), functools.partial(_bound, eqn), operands)(*operands)

    def _compiled_once(self, key: Hashable, call: Callable, operands: Sequence[Any]) -> Callable:
        settings: Any = jax.config
        key = (key, str(settings.jax_default_device))
        program = self._compiled.pop(key, None)
        if program is None:
            program = jax.jit(call).lower(*operands).compile()
        self._compiled[key] = program  # moved to the end: the one that was used last
        if len(self._compiled) > self._most:
            self._compiled.popitem(last=False)
        return program


class Untraced(Programs):
    """No programs: each function runs as outside of `jax.jit`, where custom rules are given arrays and not tracers."""

    def run(self, f: Callable, *args: jax.Array) -> Any:
        """Return f(*args); raises what f raises."""
        return f(*args)


def _on_the_default_cpu(operands: Sequence[Any]) -> bool:
    """Return whether all operands are on the device where a new array would be, and that is the CPU."""
    settings: Any = jax.config
    default = settings.jax_default_device or jax.devices()[0]
    if getattr(default, "platform", None) != "cpu":
        return False
    return all(x.devices() == {default} for x in operands if isinstance(x, jax.Array))


def _is_one_operation(jaxpr: core.Jaxpr) -> bool:
    """True if a jaxpr has one operation at most that is not a move, so that XLA cannot combine operations."""
    others = [eqn for eqn in jaxpr.eqns if not jax_arithmetic.moves(eqn)]
    if not jaxpr.eqns or len(others) > 1:
        return False
    return all(jax_arithmetic.rounds_once(eqn) or jax_common_sizes.is_extended(eqn) for eqn in others)


def _bound(eqn: core.JaxprEqn, *operands: Any) -> Sequence[jax.Array]:
    results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return [*results] if eqn.primitive.multiple_results else [results]  # those of shard_map are no list


def _jitted(eqn: core.JaxprEqn) -> core.Jaxpr | None:
    """Return the jaxpr of an equation that calls a function under `jax.jit`, if it has no constants."""
    if eqn.primitive.name not in ("jit", "pjit") or eqn.params["jaxpr"].consts:
        return None
    return eqn.params["jaxpr"].jaxpr


class _Unknown(Exception):
    """Raised when the parameters of an equation do not determine what it computes."""


def _key(eqn: core.JaxprEqn) -> Hashable | None:
    """Return a key that is equal for equations that compute the same; None where that cannot be known.

    A function under `jax.jit` that is one operation has the key of that operation.
    """
    if eqn.primitive.name == "custom_lin":
        return None  # a custom_vjp, differentiated in forward mode: running it raises JAX's error
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
    """Return the key of a program, with its variables numbered; a literal is treated as an operand."""
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
        called = eqn.params.get(_CALLS.get(eqn.primitive.name, ""))  # for a custom derivative, only its primal runs
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
    """Return a key for a parameter of an equation: equal for parameters of the same type and the same bits."""
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
