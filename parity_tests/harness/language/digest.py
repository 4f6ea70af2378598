"""A digest of a jaxpr: equal for programs that compute the same numbers, in this process or in another one.

The text that JAX prints would not do: it leaves out what constants there are, and shortens long ones.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend import core

# Where data lie, and not what is computed.
_PLACEMENT = ("ctx_mesh", "in_layouts", "in_shardings", "out_layouts", "out_sharding", "out_shardings", "sharding")
# How a call would be differentiated. A derivative that JAX has traced has followed that rule already.
_RULES = {"custom_jvp_call": ("jvp_jaxpr_fun",)}


class NoDigest(Exception):
    """A program has an effect, a function of Python, or something else that cannot be told from another such."""


def digest(program: core.ClosedJaxpr) -> str:
    """The digest of a program with its constants.

    Raises:
        NoDigest: see there.
    """
    return _hash(_of_program(program.jaxpr, program.consts).encode())


def _of_program(jaxpr: core.Jaxpr, consts: Sequence[object] = ()) -> str:
    if jaxpr.effects:
        raise NoDigest(f"it has the effects {jaxpr.effects}")
    numbers: dict[core.Var, int] = {}

    def defined(x: core.Var) -> str:
        numbers[x] = len(numbers)
        return _of_kind(x)

    def used(x: core.Var | core.Literal) -> str:
        return f"{_of_kind(x)} {_of_array(x.val)}" if isinstance(x, core.Literal) else str(numbers[x])

    lines = [*map(defined, jaxpr.constvars), *map(_of_array, consts), "of", *map(defined, jaxpr.invars)]
    for eqn in jaxpr.eqns:
        operands = " ".join(map(used, eqn.invars))
        left_out = (*_PLACEMENT, *_RULES.get(eqn.primitive.name, ()))
        params = {name: value for name, value in eqn.params.items() if name not in left_out}
        lines.append(f"{eqn.primitive.name} {_of(params)} {operands} -> {' '.join(map(defined, eqn.outvars))}")
    return "{" + "\n".join((*lines, "return " + " ".join(map(used, jaxpr.outvars)))) + "}"


def _of_kind(x: core.Var | core.Literal) -> str:
    if not isinstance(x.aval, ShapedArray):
        raise NoDigest(f"it has a {type(x.aval).__name__}")
    return f"{x.aval.dtype}{list(x.aval.shape)}{'~' * x.aval.weak_type}"


def _of(value: object) -> str:
    """A parameter of an equation, in words that no other one has."""
    if isinstance(value, core.ClosedJaxpr):
        return _of_program(value.jaxpr, value.consts)
    for kind, text in _TEXTS.items():
        if isinstance(value, kind):
            return f"{type(value).__name__} {text(value)}"
    unflatten = getattr(value, "unflatten", None)  # JAX 0.12 has the operands of a scan as a tree
    if unflatten is not None:
        try:
            return f"{type(value).__name__} {_of(unflatten())}"
        except TypeError as error:  # a tree of what a scan has on one side only
            raise NoDigest(f"a parameter is a {value}") from error
    raise NoDigest(f"a parameter is a {type(value).__name__}")


def _of_array(x: object) -> str:
    try:
        array = np.asarray(x)
    except TypeError as error:  # a key of random numbers is no array of NumPy's
        raise NoDigest(str(error)) from error
    if array.dtype.kind == "O":
        raise NoDigest(f"a constant is a {type(x).__name__}")
    data = array.tobytes()
    return f"{array.dtype.name}{list(array.shape)} {data.hex() if len(data) <= 32 else _hash(data)}"


def _of_each(values: Sequence) -> str:
    return "(" + ", ".join(map(_of, values)) + ")"


def _of_items(values: Mapping) -> str:
    return "(" + ", ".join(f"{name!r}: {_of(values[name])}" for name in sorted(values)) + ")"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_TEXTS: dict[type | tuple[type, ...], Callable] = {
    enum.Enum: lambda value: value.name,
    (type(None), bool, int, str, bytes): repr,
    (float, complex, np.generic, np.ndarray, jax.Array): _of_array,
    np.dtype: lambda value: value.name,
    type: lambda value: f"{value.__module__}.{value.__qualname__}",
    (tuple, list): _of_each,
    dict: _of_items,
    core.Jaxpr: _of_program,
}
