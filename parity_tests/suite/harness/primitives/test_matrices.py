"""Systems with triangular matrices and factorizations: as JAX has them, and their inverse in a field."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

from parity_tests import OpSpec
from parity_tests.harness.findings import Verdict
from parity_tests.harness.primitives.field.fields import Field
from parity_tests.harness.primitives.field.matrices import (
    Arithmetic,
    factored,
    of_a_field,
    pivoted,
    rooted,
    solved,
)
from parity_tests.harness.primitives.registry import record_of
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast

_FLOATS = Arithmetic(np.multiply, np.subtract, np.divide, np.sqrt)
_P = 2147483647
_FIELD = Field(_P)
_RNG = np.random.default_rng(0)
_A = _RNG.standard_normal((2, 4, 4)) + 3 * np.eye(4)


def _is_run(name: str) -> bool:
    record = record_of(name)
    return record is not None and record.run is not None


def _equation(f, *args):
    """The equation of the factorization, which may have others around it, and the results in float64."""
    with jax.enable_x64(True):
        eqns = jax.make_jaxpr(f)(*args).eqns
        return next(eqn for eqn in eqns if _is_run(eqn.primitive.name)), jax.tree.leaves(f(*args))


@fast("flags0", "flags5", "flags10", "flags15")
@pytest.mark.parametrize("flags", [*itertools.product([False, True], repeat=4)])
def test_a_system_is_solved_as_jax_does(flags: tuple[bool, ...]) -> None:
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    given = dict(zip(names, flags, strict=True))
    b = _RNG.standard_normal((2, 4, 3) if given["left_side"] else (2, 3, 4))
    eqn, (expected,) = _equation(lambda a, b: lax.linalg.triangular_solve(a, b, **given), _A, b)
    (found,) = solved(_FLOATS, _A, b, **eqn.params)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(4, 4), (4, 3), (3, 4)])
def test_factors_and_exchanges_are_those_of_jax(shape: tuple[int, ...]) -> None:
    x = _RNG.standard_normal((2, *shape))
    eqn, expected = _equation(lax.linalg.lu, x)
    found = pivoted(_FLOATS, x, **eqn.params)
    np.testing.assert_allclose(found[0].astype(float), expected[0], rtol=1e-12)
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(factored(_FLOATS, x, found[2]), found[0].astype(float))


def test_the_factor_of_cholesky_is_jax_s() -> None:
    x = _A @ np.swapaxes(_A, -1, -2)
    eqn, (expected,) = _equation(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), x)
    (found,) = rooted(_FLOATS, x, **eqn.params)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x.astype(object) @ y.astype(object) % _P).astype(np.uint64)


def test_in_a_field_the_factors_have_the_matrix_as_their_product() -> None:
    x = _FIELD.random(_RNG, (4, 4))
    a = factored(of_a_field(_FIELD), x, np.array([2, 0, 3, 1]))
    lower = np.where(np.tri(4, k=-1, dtype=bool), a, np.eye(4, dtype=np.uint64))
    np.testing.assert_array_equal(_product(lower, np.triu(a)), x[[2, 0, 3, 1]])


def test_in_a_field_a_root_of_a_matrix_has_it_as_its_square() -> None:
    root = np.tril(_FIELD.power(_FIELD.random(_RNG, (4, 4)), 4))  # a diagonal of squares of squares
    x = _product(root, root.T)
    eqn, _ = _equation(lambda x: lax.linalg.cholesky(x, symmetrize_input=False), np.eye(4))
    (found,) = rooted(of_a_field(_FIELD), x, **eqn.params)
    np.testing.assert_array_equal(found, root)


SOLVE = OpSpec("solve", jnp.linalg.solve, "(n,n),(n,m)->(n,m)")
SYSTEM = OpSpec("system", lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True), "(n,n),(n,m)->(n,m)")


@pytest.mark.slow
def test_a_triangular_system_is_proved() -> None:
    row = judged(lambda a, b: torch.linalg.solve_triangular(a, b, upper=False), SYSTEM, "proof")
    assert row.verdict is Verdict.PROVED, row.reason
    assert row.proofs[0].startswith("forward, vjp, jvp, vjp_of_vjp, jvp_of_vjp proved")


@pytest.mark.slow
@pytest.mark.parametrize("solve", [torch.linalg.solve, lambda a, b: torch.linalg.inv(a) @ b], ids=["solve", "inv"])
def test_a_system_is_proved(solve) -> None:
    row = judged(solve, SOLVE, "proof")
    assert row.verdict is Verdict.PROVED, row.reason


def test_a_term_that_float64_rounds_away_is_told() -> None:
    def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(a, b, upper=False) + 1e-40 * b

    row = judged(solve, SYSTEM, "proof")
    assert row.verdict is Verdict.UNRESOLVED
    assert row.reason.startswith("forward differs at n = 4, m = 3")
