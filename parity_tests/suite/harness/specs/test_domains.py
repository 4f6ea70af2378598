"""Domains: what they draw, which directions stay inside, and which domains are refused."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.numbers.formats import FLOAT64, PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.domains import DOMAINS, EmptyDomain, domain_of, integer
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged, normal
from parity_tests.suite.harness.specs._drawn import drawn

pytestmark = pytest.mark.usefixtures("certified_once")

SHAPES = ((5, 5), (3, 1, 1), (2, 4, 4), (0, 0))


_ROUNDED = 2.0**-8  # the largest relative change by rounding, in bfloat16


def _belongs(name: str, x: np.ndarray) -> bool:
    """What each name says, in other words than the sampler's."""
    if name == "complex":
        return np.iscomplexobj(x)
    if name == "positive":
        return bool((x > 0).all())
    if name == "nonzero":
        return bool((x != 0).all())
    if name == "distinct":
        return len(np.unique(x)) == x.size
    if name == "sorted":
        return bool((np.diff(x) >= 0).all())
    if name == "probabilities":
        return bool((x > 0).all()) and bool((np.abs(x.sum(-1) - 1) <= _ROUNDED * x.shape[-1]).all())
    if name == "orthogonal":
        return bool((np.abs(x.mT @ x - np.eye(x.shape[-1])) <= 4 * _ROUNDED * x.shape[-1]).all())
    if name == "well-conditioned":
        return bool((np.linalg.cond(x) <= 2.2).all()) if x.size else True
    if name == "unit":
        return bool(((x > 0) & (x < 1)).all())
    if name in ("symmetric", "definite") and not np.array_equal(x, x.mT):
        return False
    if name == "definite":
        return bool((np.linalg.eigvalsh(x) >= 0.99).all()) if x.size else True
    if name == "lower":
        diagonal = np.diagonal(x, axis1=-2, axis2=-1)
        return not np.triu(x, 1).any() and bool((diagonal >= 1).all())
    return bool(np.isfinite(x).all())


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_draws_what_it_says(name):
    for shape, seed in itertools.product(SHAPES, range(5)):
        x = drawn(DOMAINS[name], shape, seed)
        assert x.shape == shape
        assert x.dtype == (np.complex128 if name == "complex" else np.float64)
        assert _belongs(name, x), (shape, seed)
        # Every format's rounding stays inside, so that the candidate is judged at a point of the domain.
        assert all(_belongs(name, p.rounded(x)) for p in PRECISIONS.values()), (shape, seed)


@pytest.mark.parametrize("name", [name for name in DOMAINS if name not in ("real", "extended")])
def test_what_is_drawn_from_elsewhere_does_not_belong(name):
    x = drawn(DOMAINS["real"], (5, 5))
    assert not _belongs(name, np.where(x > 0, x, 0.0))


@pytest.mark.parametrize("name", DOMAINS)
def test_draws_differ_by_their_seed(name):
    assert not np.array_equal(drawn(DOMAINS[name], (4, 4), 0), drawn(DOMAINS[name], (4, 4), 1))


@pytest.mark.parametrize("name", DOMAINS)
def test_projections_are_linear_idempotent_and_stay_inside(name, subtests):
    for shape in SHAPES:
        with subtests.test(shape=shape):
            _check_projections(name, shape)


def _check_projections(name, shape):
    project = DOMAINS[name].project
    x, y = normal(*shape), normal(*shape, seed=1)
    np.testing.assert_allclose(project(2 * x - 3 * y), 2 * project(x) - 3 * project(y), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(project(project(x)), project(x), rtol=0, atol=1e-15)
    here, there = drawn(DOMAINS[name], shape), drawn(DOMAINS[name], shape, seed=1)
    # The domain is a part of an affine space: the way from one of its points to another is a direction.
    np.testing.assert_allclose(project(there - here), there - here, rtol=0, atol=1e-15)
    # The nearest one: what is left out is orthogonal to what stays.
    assert np.vdot(x - project(x), project(y)) == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("name", ["symmetric", "definite", "lower", "probabilities"])
def test_directions_off_the_domain_are_left_out(name):
    assert not np.array_equal(DOMAINS[name].project(normal(4, 4)), normal(4, 4))


@pytest.mark.parametrize("name", ["definite", "lower", "well-conditioned"])
@pytest.mark.parametrize("shape", [(3, 4), (3,), ()], ids=str)
def test_a_matrix_must_be_square(name, shape):
    with pytest.raises(ValueError, match=rf"domain '{name}' is of square matrices, got the shape .* write \(n,n\)"):
        drawn(DOMAINS[name], shape)


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        (
            "orthogonal",
            (3,),
            r"domain 'orthogonal' is of matrices, got the shape \(3,\); write \(n,m\) in the signature",
        ),
        ("probabilities", (), "domain 'probabilities' is of vectors, got a scalar"),
        ("sorted", (), "domain 'sorted' is of vectors, got a scalar"),
    ],
)
def test_a_domain_of_arrays_has_no_others(name, shape, text):
    with pytest.raises(ValueError, match=text):
        drawn(DOMAINS[name], shape)


def test_columns_are_orthonormal_and_at_most_as_many_as_their_entries():
    assert _belongs("orthogonal", drawn(DOMAINS["orthogonal"], (7, 3)))
    with pytest.raises(EmptyDomain, match="4 columns of 3 entries"):
        drawn(DOMAINS["orthogonal"], (3, 4))


@pytest.mark.parametrize("seed", range(5))
def test_as_many_numbers_as_16_bits_can_tell_apart_stay_distinct(seed):
    x = drawn(DOMAINS["distinct"], (2049,), seed)
    assert all(len(np.unique(p.rounded(x))) == 2049 for p in PRECISIONS.values())
    few = drawn(DOMAINS["distinct"], (100,), seed)
    assert 0.25 < np.median(np.abs(few)) < 4  # of ordinary size, as long as they are not nearly all


# What is refused.


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        pytest.param(
            {"domains": {"x": "positiv"}},
            ValueError,
            "OpSpec op: unknown domain 'positiv'; there are real, extended, positive, unit, symmetric, definite, "
            "lower, nonzero, well-conditioned, orthogonal, probabilities, sorted, distinct, complex, "
            "boolean, integer(low, high), or a sampler",
            id="unknown domain",
        ),
        pytest.param(
            {"domains": {"x": 3}},
            TypeError,
            "OpSpec op: a domain is a name, a Domain or a sampler (generator, shape) -> array, got 3",
            id="number as domain",
        ),
        pytest.param(
            {"domains": {"z": "positive"}},
            ValueError,
            "OpSpec op: domains names 'z'; the inputs are x, y",
            id="domain of an unknown input",
        ),
        pytest.param(
            {"constants": ["z"]},
            ValueError,
            "OpSpec op: constants names 'z'; the inputs are x, y",
            id="unknown constant",
        ),
        pytest.param(
            {"constants": ["x", "y"]},
            ValueError,
            "OpSpec op: no input is differentiated; an operator without one has no derivative",
            id="constants only",
        ),
        pytest.param(
            {"constants": ["x"], "domains": {"y": integer(0, 3)}},
            ValueError,
            "OpSpec op: no input is differentiated; an operator without one has no derivative",
            id="a constant and integers only",
        ),
    ],
)
def test_a_field_that_cannot_be_used(fields, error, text):
    with pytest.raises(error) as refusal:
        OpSpec("op", primal=lambda x, y: x * y, signature="(n),(n)->(n)", **fields)
    assert str(refusal.value) == text


def test_a_sampler_of_ones_own():
    def angles(rng, shape):
        return rng.uniform(0, 2 * np.pi, shape)

    domain = domain_of(angles)
    assert domain.name == "angles"
    assert not domain.elementwise
    spec = OpSpec("sin", primal=lambda x: jnp.sin(x), signature="(n)->(n)", domains={"x": angles})
    assert all((sample.primals(("x",))[0] >= 0).all() for sample in samples(spec, 0))
    assert judged(torch.sin, spec, "vjp").verdict is Verdict.PASS
    assert judged(torch.cos, spec, "vjp").verdict is Verdict.MISMATCH


def test_a_sampler_of_another_shape_is_refused_with_its_name():
    def one_row(rng, shape):
        return rng.standard_normal(shape[-1:])

    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,m)->(n,m)", domains={"x": one_row})
    (sample, *_) = samples(spec, 0)
    with pytest.raises(ValueError, match=r"^the domain 'one_row' drew an array of shape \(3,\), asked for \(4, 3\)$"):
        sample.primals(("x",))


def test_given_inputs_stay_in_their_domain_when_more_examples_are_made():
    spec = OpSpec("log", primal=lambda x: jnp.log(x), inputs=(np.abs(normal(3)) + 0.1,), domains={"x": "positive"})
    (sample,) = samples(spec, 0)
    assert all((sample.primals(("x",), example)[0] > 0).all() for example in range(3))
    with pinned():
        assert Oracle(spec, sample).evaluate("forward", sample.primals(("x",)), FLOAT64)[0].value.shape == (3,)
