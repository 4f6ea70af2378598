"""JAX's own function of an operator: of the same name, and with the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def own_function(case: Case) -> Callable[..., Any] | None:
    """Return JAX's own function of an elementwise operator; None if there is none with the same values.

    Of what else JAX has under the same name the arguments differ; there the reference is made of JAX's own functions.
    """
    if not case.entrywise:
        return None
    names = list(case.inputs)
    order = [names.index(name) for name in case.call.arguments if name in names]  # the schema's, as JAX takes them
    given, inputs = case.call.results[0], list(case.inputs.values())
    for function in _of_that_name(case.entry.name):
        try:
            found = np.asarray(function(*(inputs[i] for i in order)))
        except Exception:
            continue
        if found.shape == given.shape and not differing(given, found, HALF_OF_THE_DIGITS, 0.0).any():
            return lambda *x, function=function: (function(*(x[i] for i in order)),)
    return None


def _of_that_name(operator: str) -> Iterator[Callable[..., Any]]:
    name = operator.partition(".")[0].rstrip("_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    for module in _WHERE:
        function = getattr(module, _NAMES.get(name, name), None)
        if callable(function) and not isinstance(function, type):
            yield function
