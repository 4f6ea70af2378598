"""The witness in hundreds of bits: it finds a wrong rule of JAX's own, which no other witness can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import primitives
from jax.interpreters import ad

from parity_tests import OpSpec
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.numbers.tolerances import to_tolerance
from parity_tests.harness.oracle.certificate import certify
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.slopes import ExtendedSlopes
from parity_tests.harness.oracle.witness import Place
from parity_tests.harness.specs.samples import samples

NAME = ExtendedSlopes().name


def witnessed(spec: OpSpec, name: str = "vjp") -> list[Finding]:
    """The findings of all witnesses at the samples of a spec."""
    found: list[Finding] = []
    for sample in samples(spec, 0):
        if not sample.first_order_only:
            with pinned():
                found += certify(Oracle(spec, sample), name, sample)
    return found


def own(findings: Sequence[Finding]) -> list[Comparison]:
    return [f for f in findings if isinstance(f, Comparison) and f.circumstance == NAME]


def wave(**given: Any) -> OpSpec:
    return OpSpec("wave", primal=lambda x, y: jnp.sin(x) * y, signature="(n),(n)->(n)", **given)


@pytest.mark.parametrize("name", ["vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp"])
def test_it_confirms_right_derivatives(name):
    found = own(witnessed(wave(), name))
    assert len([f for f in found if f.evidence]) >= 2
    assert all(f.holds for f in found)


def test_a_rule_of_jax_that_is_wrong_in_its_last_digits_is_found_by_nobody_else(monkeypatch):
    right = ad.primitive_jvps[primitives.sin_p]

    def wrong(x: Any, x_dot: Any, **options: Any) -> Any:
        y, y_dot = right(x, x_dot, **options)
        return y, y_dot * (1 + 2.0**-40)

    monkeypatch.setitem(ad.primitive_jvps, primitives.sin_p, wrong)
    jax.clear_caches()
    found = witnessed(wave(), "jvp")
    monkeypatch.undo()
    jax.clear_caches()
    assert not all(f.holds for f in own(found))
    assert {f.circumstance for f in found if not f.holds} == {NAME}


@pytest.mark.parametrize(("chosen", "holds"), [(0.0, True), (-1.0, True), (2.0, False)])
def test_at_a_kink_all_between_the_slopes_is_right(chosen, holds):
    def vjp(x: Any, g: Any) -> Any:
        return g * jnp.where(x == 0, chosen, jnp.sign(x))

    spec = OpSpec("size", primal=lambda x: jnp.abs(x), inputs=[np.array([0.0, 1.5])], vjp=vjp)
    with pinned():
        (sample,) = samples(spec, 0)
        oracle = Oracle(spec, sample)
        (found,) = ExtendedSlopes().findings(Place.of(oracle, "vjp", sample, sample.primals(oracle.inputs)))
    assert found.holds is holds


@jax.custom_jvp
def _approximated(x: jax.Array) -> jax.Array:
    """The sine by the first terms of its series."""
    return x - x**3 / 6 + x**5 / 120


_approximated.defjvps(lambda x_dot, y, x: jnp.cos(x) * x_dot)


@pytest.mark.parametrize(
    "primal",
    [
        lambda x: _approximated(x),
        lambda x: to_tolerance(jnp.sin(x), rtol=1e-8),
        lambda x: jnp.sort(jnp.sin(jnp.tile(x, 200))),
    ],
    ids=["a declared derivative", "a declared tolerance", "too long"],
)
def test_it_is_silent_where_it_cannot_tell(primal: Callable):
    found = witnessed(OpSpec("silent", primal=primal, inputs=[np.array([0.1, -0.25, 0.3])]))
    assert found
    assert not own(found)


def test_it_has_no_say_in_surrogates_and_in_complex_numbers():
    witness, real, z = ExtendedSlopes(), np.array([0.5]), np.array([0.5 + 1j])
    step = OpSpec("step", primal=jnp.sign, inputs=[real], surrogate=lambda x, g: g)
    for spec in (step, OpSpec("square", primal=lambda z: z * z, inputs=[z])):
        with pinned():
            (sample,) = samples(spec, 0)
            oracle = Oracle(spec, sample)
            assert not witness.can_judge(oracle, "vjp")
            assert not witness.can_judge(oracle, "vjp_of_vjp")
