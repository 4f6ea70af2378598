"""What NumPy computes of the derivatives of equations is what JAX's own rules say, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.pullbacks import _ENTRY_BY_ENTRY, _MOVING, pullback, pulled_back

X, Y, ROW = (np.random.default_rng(3).normal(size=shape) for shape in ((4, 3), (4, 3), (1, 3)))
PROGRAMS: dict[str, list[tuple[Callable, tuple[np.ndarray, ...], tuple[int, ...]]]] = {
    "add": [(jnp.add, (X, Y), (0, 1)), (jnp.add, (X, X), (1,)), (lambda x: x + 0.5, (X,), (0,))],
    "add_any": [(lambda x, y: jax.vjp(lambda z: jnp.sin(z) + jnp.cos(z), x)[1](y)[0], (X, Y), (0, 1))],
    "sub": [(jnp.subtract, (X, Y), (0, 1)), (lambda x: 0.5 - x, (X,), (1,))],
    "mul": [(jnp.multiply, (X, Y), (0, 1)), (jnp.multiply, (X, X), (0, 1)), (lambda x: x * 3.7, (X,), (0,))],
    "neg": [(jnp.negative, (X,), (0,))],
    "broadcast_in_dim": [
        (lambda x: jax.lax.broadcast_in_dim(x, (4, 5, 3), (0, 2)), (X,), (0,)),
        (lambda x: jax.lax.broadcast_in_dim(x, (4, 3), (0, 1)), (ROW,), (0,)),
        (lambda x: jax.lax.broadcast_in_dim(x, (1, 4, 3), (1, 2)), (X,), (0,)),
        (lambda x: jax.lax.broadcast_in_dim(x[0, 0], (4, 3), ()), (X,), (0,)),
    ],
    "reduce_sum": [(lambda x, a=axes: jnp.sum(x, a), (X,), (0,)) for axes in ((0,), (1,), (0, 1))],
}
CASES = [
    pytest.param(name, *case, id=f"{name}-{i}") for name, cases in PROGRAMS.items() for i, case in enumerate(cases)
]


@pytest.mark.parametrize(("name", "f", "args", "moved"), CASES)
def test_numpy_computes_what_jax_does(
    name: str, f: Callable, args: tuple[np.ndarray, ...], moved: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(4)
    with pinned(), np.errstate(all="ignore"):
        program = jax.make_jaxpr(f)(*args)
        (eqn,) = (eqn for eqn in program.jaxpr.eqns if eqn.primitive.name == name)
        operands = [np.asarray(x.val) if hasattr(x, "val") else rng.normal(size=x.aval.shape) for x in eqn.invars]
        cotangents = [rng.normal(size=(7, *eqn.outvars[0].aval.shape))]
        by_jax = evaluate(pullback(eqn, moved, 7), *operands, *cotangents)
        for ours, theirs in zip(pulled_back(eqn, moved, operands, cotangents), by_jax, strict=True):
            assert ours.shape == theirs.shape
            assert np.array_equal(ours, theirs)


def test_every_primitive_that_numpy_computes_has_a_case() -> None:
    assert {*PROGRAMS} == {*_MOVING, *_ENTRY_BY_ENTRY}
