"""Functions that JAX holds as hijax primitives, as candidates and within a primal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.experimental import hijax

from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.harness.language.jaxprs import has_custom_vjp, is_hijax, name_of
from parity_tests.harness.oracle.oracle import OracleError
from parity_tests.suite.harness._ops import PAIR, rows
from parity_tests.suite.harness.candidates._jax_functions import custom_vjp, pair_vjp

pytestmark = pytest.mark.skipif(
    not hasattr(jax.config, "jax_custom_vjp3"), reason="this JAX has no custom_vjp that is a hijax primitive"
)
FORWARD = {"jvp", "adjoint", "vjp_of_jvp", "jvp_of_jvp"}


@pytest.fixture
def third_custom_vjp() -> Iterator[None]:
    """Within it a `jax.custom_vjp` is a hijax primitive, as it is announced to be by default."""
    before = jax.config.jax_custom_vjp3
    jax.config.update("jax_custom_vjp3", True)
    try:
        yield
    finally:
        jax.config.update("jax_custom_vjp3", before)


def _judged(f: Callable, spec: OpSpec = PAIR):
    return crosscheck(JaxCandidate(f), spec, dtypes=["float64"], checks=["forward", "vjp", "vjp_of_vjp", *FORWARD])


def test_a_custom_vjp_is_a_hijax_primitive_here(third_custom_vjp):
    program = jax.make_jaxpr(custom_vjp(pair_vjp))(np.ones(3), np.ones(3)).jaxpr
    assert [name_of(eqn) for eqn in program.eqns if is_hijax(eqn)] == ["CustomVJPTraced"]
    assert has_custom_vjp(program)


@pytest.mark.slow
def test_a_right_one_passes_and_has_no_forward_mode(third_custom_vjp):
    report = _judged(custom_vjp(pair_vjp))
    assert report.passed, str(report)
    assert {row.check for row in rows(report) if row.verdict is Verdict.UNSUPPORTED} == FORWARD, str(report)


@pytest.mark.slow
def test_a_wrong_one_fails_in_reverse_mode(third_custom_vjp):
    report = _judged(custom_vjp(lambda *inputs: tuple(1.001 * x_bar for x_bar in pair_vjp(*inputs))))
    assert not report.passed
    verdicts = {row.check: row.verdict for row in rows(report)}
    assert verdicts["forward"] is Verdict.PASS
    assert verdicts["vjp"] is Verdict.MISMATCH


def test_a_primal_that_goes_through_one_is_refused(third_custom_vjp):
    with pytest.raises(OracleError, match=r"goes through a jax\.custom_vjp"):
        crosscheck(torch.sin, OpSpec("pair", primal=custom_vjp(pair_vjp), inputs=PAIR.inputs), dtypes=["float64"])


def _cube() -> Callable:
    """x ** 3, a hijax primitive with a JVP of its own."""

    class Cube(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return x * x * x

        def jvp(self, primals, tangents):
            return self(*primals), 3 * primals[0] ** 2 * tangents[0]

        vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp

    return lambda x: Cube(jax.typeof(x))(x)


@pytest.mark.skipif(not hasattr(hijax, "HiPrim"), reason="a JAX before 0.11 lets nobody write hijax primitives")
def test_a_hijax_primitive_within_a_primal_has_bounds():
    cube = _cube()
    spec = OpSpec("cube", primal=lambda x: jnp.sin(cube(x)), signature="(n)->(n)")
    checks = ["forward", "vjp", "jvp"]
    right = crosscheck(lambda x: torch.sin(x**3), spec, checks=checks)
    assert right.passed, str(right)
    assert {row.verdict for row in rows(right)} == {Verdict.PASS}, str(right)
    wrong = crosscheck(lambda x: torch.sin(x**3 + 1e-3 * x.detach()), spec, checks=checks, dtypes=["float64"])
    assert not wrong.passed


@pytest.mark.slow
def test_sorted_places_are_judged():
    spec = OpSpec("bucket", primal=lambda x: x * jnp.searchsorted(jnp.array([-0.5, 0.1, 0.9]), x), signature="(n)->(n)")
    edges = torch.tensor([-0.5, 0.1, 0.9], dtype=torch.float64)

    def bucket(x: torch.Tensor) -> torch.Tensor:
        return x * torch.searchsorted(edges, x.detach().double())

    report = crosscheck(bucket, spec, checks=["forward", "vjp", "jvp"])
    assert report.passed, str(report)
