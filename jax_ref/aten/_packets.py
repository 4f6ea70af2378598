"""The operators by the names of their packets: `aten.var(x, 1)`, where the arguments say which overload is meant."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jax_ref._functional_table import NAMES
from jax_ref.aten._registry import similar

Function = Callable[..., Any]


def overloads(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the overloads of each operator, the one without a name of its own first."""
    found: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: "." in name):
        found.setdefault(name.removeprefix("aten::").partition(".")[0], []).append(name)
    return dict(sorted(found.items()))


def packets(operators: Mapping[str, Function], taken: Container[str]) -> dict[str, Function]:
    """Return a function for each operator, which serves all of its overloads.

    Raises:
        ValueError: an operator has a name that is taken.
    """
    found = {}
    for packet, names in overloads(operators).items():
        if packet in taken:
            raise ValueError(f"jax_ref.aten.{packet} is a module; give it another name than that of an operator")
        own = operators[names[0]]
        found[packet] = own if len(names) == 1 else _packet(packet, {name: operators[name] for name in names})
    return found


def _packet(packet: str, functions: Mapping[str, Function]) -> Function:
    """A function that calls the first overload that takes its arguments."""
    signatures = {name: inspect.signature(function) for name, function in functions.items()}
    shown = [f"{packet}{str(each).replace(chr(39), '')}" for each in dict.fromkeys(signatures.values())]

    def call(*args: Any, **kwargs: Any) -> Any:
        for name, signature in signatures.items():
            if _takes(signature, args, kwargs):
                return functions[name](*args, **kwargs)
        given = ", ".join([*map(_kind, args), *(f"{name}={_kind(x)}" for name, x in kwargs.items())])
        raise TypeError(f"aten.{packet} does not take ({given}), but\n    " + "\n    ".join(shown))

    call.__name__ = call.__qualname__ = packet
    call.__module__ = "jax_ref.aten"
    texts = dict.fromkeys(inspect.getdoc(function) or "" for function in functions.values())
    call.__doc__ = "\n\n".join([*texts, "One of:", "\n".join(f"    {each}" for each in shown)])
    return call


def _takes(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True if an overload has these arguments, each of its type as far as types tell overloads apart."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return all(_is(str(signature.parameters[name].annotation), x) for name, x in bound.arguments.items())


def _is(annotation: str, x: Any) -> bool:
    if annotation == "bool":
        return isinstance(x, bool | np.bool_)
    if annotation == "Axes":
        return x is None or _is_integer(x) or (_is_sequence(x) and all(map(_is_integer, x)))
    if annotation == "Sizes":
        return _is_sequence(x)
    if annotation in ("Sizes | None", "Scales"):
        return x is None or _is_sequence(x)
    if annotation == "Scale":
        return x is None or isinstance(x, numbers.Real)
    return True


def _is_integer(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _kind(x: Any) -> str:
    """An argument in a message: an array's dtype and shape, the value of anything else."""
    if isinstance(x, jax.Array | np.ndarray):
        return f"{x.dtype}[{','.join(map(str, x.shape))}]"
    return repr(x) if isinstance(x, int | float | complex | str | None | Sequence) else type(x).__name__


def missing(name: str, operators: Iterable[str]) -> AttributeError:
    """Return the error for an attribute that `jax_ref.aten` does not have."""
    if name.startswith("__"):
        return AttributeError(f"module 'jax_ref.aten' has no attribute {name!r}", name=name)
    names = {each.removeprefix("aten::").partition(".")[0] for each in operators}
    message = f"jax_ref.aten has no operator {name!r}; "
    if name.endswith("_") and name.rstrip("_") in names:
        return AttributeError(f"{message}a JAX array is not written to: x = aten.{name.rstrip('_')}(x, ...)", name=name)
    if name in NAMES:
        message += f"torch.nn.functional's is jax_ref.functional.{name}; "
    return AttributeError(f"{message}{similar(name, names)}dir(jax_ref.aten) has the names of all", name=name)
