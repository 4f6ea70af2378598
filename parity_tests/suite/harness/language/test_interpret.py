"""One walk for every number system: loops, branches, solvers and calls give JAX's results in each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core

from parity_tests.harness.extended.evaluation import evaluate as in_many_bits
from parity_tests.harness.language import interpret as language
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.addends import addends
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.simulation import AsItIs, simulated
from parity_tests.suite.harness._ops import normal

X = normal(4, 3)
PROGRAMS: dict[str, Callable[[jax.Array], object]] = {
    "scan": lambda x: lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), x[0], x),
    "scan from the end": lambda x: lax.scan(lambda c, a: (jnp.sin(c) + a, c * a), x[0], x, reverse=True),
    "scan of no steps": lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x[:0]),
    "scan of nothing but steps": lambda x: lax.scan(lambda c, _: (2 * c, c[0]), x, None, length=3),
    "linear recurrence": lambda x: lax.scan(lambda c, a: (0.5 * c + a, c), x[0], x),
    "branch": lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "branch out of range": lambda x: lax.switch(x.size, [jnp.sin, jnp.cos, lambda x: 2 * x], x),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1],
    "while of each example": jax.vmap(lambda a: lax.while_loop(lambda c: jnp.abs(c).max() > 0.5, lambda c: c / 2, a)),
    "calls": lambda x: jax.jit(lambda x: jax.checkpoint(jnp.tanh)(x) + jax.nn.relu(x))(x),
    "loop in a loop": lambda x: lax.fori_loop(0, 2, lambda _, c: lax.fori_loop(0, 2, lambda _, d: jnp.sin(d), c), x),
}
SOLVE: dict[str, Callable[[jax.Array], object]] = {"solver": lambda x: jnp.linalg.solve(x.T @ x + jnp.eye(3), x.T)}


def traced(f: Callable[[jax.Array], object]) -> core.ClosedJaxpr:
    return jax.make_jaxpr(f)(X)


def _in_bits(program: core.ClosedJaxpr) -> Sequence[np.ndarray]:
    import mpmath

    context = mpmath.mp.clone()
    context.prec = 200
    return [y.astype(float) for y in in_many_bits(context, program, [X])]


DOMAINS: dict[str, Callable[[core.ClosedJaxpr], Sequence[np.ndarray]]] = {
    "values": lambda program: evaluate(program, X),
    "bounds": lambda program: [y for y, _ in bounded(program, X, precision=FLOAT64)],
    "simulated": lambda program: simulated(program, [X], AsItIs()),
    "many bits": _in_bits,
    "terms": lambda program: [np.asarray(sum(t.value for t in terms)) for terms in addends(program, [X], ["x"])],
}


def compare(f: Callable[[jax.Array], object], domain: str) -> None:
    with pinned():
        want = [*map(np.asarray, jax.tree.leaves(f(jnp.asarray(X))))]
        found = DOMAINS[domain](traced(f))
    assert len(found) == len(want) > 0
    for y, expected in zip(found, want, strict=True):
        assert np.shape(y) == expected.shape
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_in_every_domain(name: str, domain: str) -> None:
    compare(PROGRAMS[name], domain)


@pytest.mark.parametrize("domain", ["values", "bounds", "simulated", "terms"])  # a factorization takes no mpmath
def test_a_solver_runs(domain: str) -> None:
    compare(SOLVE["solver"], domain)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_scan_in_the_wrong_order_would_be_noticed(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "in_order", lambda params: range(params["length"]))
    with pytest.raises(AssertionError):
        compare(PROGRAMS["scan from the end"], domain)


def test_a_rounded_operand_decides_between_branches() -> None:
    """A condition that rounding may change has a bound that covers both branches."""

    def f(x: jax.Array) -> jax.Array:
        return lax.cond(x.sum() - x.sum() + 1e-17 > 0, lambda x: x, lambda x: x + 1, x)

    with pinned():
        ((y, bound),) = bounded(traced(f), X, precision=FLOAT64)
    np.testing.assert_array_equal(y, X)
    assert (bound >= 1).all()
