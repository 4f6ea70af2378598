"""Is the oracle a function? Called twice at the same inputs it must return the same.

JAX calls Python once for each shape and map, so that a random number of NumPy's is a constant in one trace and another
constant in the next. Whoever is judged by that disagrees with it, however right.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import jax
import numpy as np
from jax.extend import core

from parity_tests.harness.language import jaxprs
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import Sample


def why_not_a_function(oracle: Oracle, sample: Sample) -> str | None:
    """Return where the primal returns something else when it is called again; None where it does not.

    It is traced twice, from Python. What a `jax.jit` inside of it has traced is not traced again: that is a function.
    """
    oracle, inputs = _without_jit(oracle), sample.primals(oracle.inputs)
    if jaxprs.has_primitive(_traced(oracle, inputs).jaxpr, "random_"):
        return (
            "the oracle draws random numbers with jax.random, which nobody else can draw again; make them an input of "
            "the operator"
        )
    once, twice = (_values(oracle, inputs) for _ in range(2))
    if _agree(once, twice):
        return None
    # The same numbers may be computed in another order by as many threads as there happen to be: rounding is no chance.
    bounds = [truth.bound for truth in oracle.evaluate("forward", inputs, FLOAT64)]
    pairs = zip(oracle.outputs, oracle.returns.real(once), oracle.returns.real(twice), bounds, strict=True)
    for name, first, second, bound in pairs:
        with np.errstate(invalid="ignore"):
            differs = (np.abs(first - second) > 2 * bound) | (np.isnan(first) != np.isnan(second))
        if differs.any():
            where = tuple(int(i) for i in np.argwhere(differs)[0])
            return _sentence(f"{name} {where}", first[where], second[where])
    integers = zip(oracle.integers, oracle.returns.integers(once), oracle.returns.integers(twice), strict=True)
    for name, first, second in integers:
        if not np.array_equal(first, second):
            where = tuple(int(i) for i in np.argwhere(first != second)[0])
            return _sentence(f"{name} {where}", first[where], second[where])
    return None


def _sentence(where: str, first: object, second: object) -> str:
    return (
        f"the oracle is not a function: its primal, called twice at the same inputs, returned {first:.6g} and then "
        f"{second:.6g} for {where}; take out what is random or changes between calls, or make it an input"
    )


def _values(oracle: Oracle, inputs: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return every output, by a new trace of the primal."""
    return tuple(np.asarray(y) for y in evaluate(_traced(oracle, inputs), *inputs))


def _traced(oracle: Oracle, inputs: list[np.ndarray]) -> core.ClosedJaxpr:
    # A new function each time: JAX remembers the traces of those that it knows.
    return jax.make_jaxpr(lambda *args: oracle.every_output(*args))(*inputs)


def _agree(once: tuple[np.ndarray, ...], twice: tuple[np.ndarray, ...]) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(once, twice, strict=True))


def _without_jit(oracle: Oracle) -> Oracle:
    """Return the oracle of the Python function inside a `jax.jit`-ted primal, so that its cache is bypassed."""
    primal = oracle.spec.primal
    if not isinstance(primal, jax.stages.Wrapped):
        return oracle
    plain = copy.copy(oracle)
    plain.spec = replace(oracle.spec, primal=getattr(primal, "__wrapped__", primal))
    return plain
