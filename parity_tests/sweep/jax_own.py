"""JAX's own function of an operator: of the same name, and with the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax

from parity_tests.sweep.cases import Case
from parity_tests.sweep.comparison import HALF_OF_THE_DIGITS, differing

_WHERE = (jnp, jax.scipy.special, jax.nn, jnp.linalg, lax)
_PREFIXES = ("special_", "linalg_", "_")
# Of the same function by another name.
_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "rsqrt": "rsqrt", "pow": "power"}


Own = Callable[[Case], Callable[..., Any] | None]


def own_function(cases: Sequence[Case]) -> Own:
    """Return JAX's own function of an elementwise operator, which has PyTorch's values in all of these cases.

    It is returned as a function of a case: None for those that are not entry by entry, or if there is no such function.
    Of what else JAX has under the same name the arguments differ; there the reference is made of JAX's own functions.
    """
    entrywise = [case for case in cases if case.entrywise]
    for function in _of_that_name(entrywise[0].entry.name) if entrywise else ():
        if all(_has_the_values(function, case) for case in entrywise):
            return lambda case, function=function: _of_inputs(function, case) if case.entrywise else None
    return lambda case: None


def _of_inputs(function: Callable[..., Any], case: Case) -> Callable[..., Any]:
    """A function that takes the schema's order as one of the case's inputs."""
    names = list(case.inputs)
    order = [names.index(name) for name in case.call.arguments if name in names]
    return lambda *inputs: (function(*(inputs[i] for i in order)),)


def _has_the_values(function: Callable[..., Any], case: Case) -> bool:
    given = case.call.results[0]
    try:
        found = np.asarray(_of_inputs(function, case)(*case.inputs.values())[0])
    except Exception:  # of whatever kind: a function of that name may be for anything else
        return False
    return found.shape == given.shape and not differing(given, found, HALF_OF_THE_DIGITS, 0.0).any()


def _of_that_name(operator: str) -> Iterator[Callable[..., Any]]:
    name = operator.partition(".")[0].rstrip("_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    for module in _WHERE:
        function = getattr(module, _NAMES.get(name, name), None)
        if callable(function) and not isinstance(function, type):
            yield function
