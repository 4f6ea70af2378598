"""The cost of evaluating a program of the oracle with its bounds: how many entries all of its arrays have."""

from __future__ import annotations

import math

from jax.extend import core

from parity_tests.harness.language.jaxprs import subprograms


def entries_of(jaxpr: core.Jaxpr) -> float:
    """The entries of all arrays that a program makes, one after the other; infinite if a loop has no known length.

    The windows of a convolution count, since it is evaluated as a product with the matrix of them.
    """
    total = 0.0
    for eqn in jaxpr.eqns:
        inner = [entries_of(sub) for sub in subprograms(eqn)]
        if eqn.primitive.name == "while":
            return math.inf
        total += sum(inner) * (eqn.params["length"] if eqn.primitive.name == "scan" else 1)
        if not inner:
            total += sum(math.prod(getattr(x.aval, "shape", ())) for x in eqn.outvars)
        if eqn.primitive.name == "conv_general_dilated":
            total += _windows(eqn)
    return total


def _windows(eqn: core.JaxprEqn) -> int:
    """The entries of all windows that a convolution looks at."""
    shapes: list[tuple[int, ...]] = [getattr(x.aval, "shape", ()) for x in (eqn.invars[1], eqn.outvars[0])]
    weights, result = shapes
    features = result[eqn.params["dimension_numbers"].out_spec[1]]
    return math.prod(result) * math.prod(weights) // max(1, features) ** 2 * eqn.params["feature_group_count"]
