"""Domains: what they draw, which directions stay inside, and how both sides get what is not differentiated."""

from __future__ import annotations

import itertools
import operator
import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.numbers.formats import FLOAT64, PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.domains import DOMAINS, Domain, EmptyDomain, constant, domain_of, integer
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged, normal, unary_function
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("certified_once")

SHAPES = ((5, 5), (3, 1, 1), (2, 4, 4), (0, 0))
SIZES = {"n": 4, "v": 7}


_ROUNDED = 2.0**-8  # the largest relative change by rounding, in bfloat16


def drawn(domain: Domain, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return domain.draw(np.random.default_rng(seed), shape, SIZES)


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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", DOMAINS)
def test_projections_are_linear_idempotent_and_stay_inside(name, shape):
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


# Integers.


@pytest.mark.parametrize(
    ("low", "high", "values"), [(0, "v", range(7)), (-2, 2, range(-2, 2)), ("n", "v", range(4, 7))]
)
def test_integers_lie_between_their_ends_and_reach_both(low, high, values):
    x = drawn(integer(low, high), (400,))
    assert x.dtype == np.int64
    assert set(x.tolist()) == set(values)


def test_there_may_be_no_integer_to_draw():
    with pytest.raises(EmptyDomain, match="there is no integer from 7 up to 4"):
        drawn(integer("v", "n"), (3,))
    assert drawn(integer("v", "n"), (0, 3)).shape == (0, 3)


def test_a_sample_without_an_integer_to_draw_is_left_out():
    names = {s.name for s in samples(_gather_spec(), 0)}
    assert "zero_v" not in names
    assert {"all_axes_differ", "zero_k", "one_v", "many_k"} <= names


def _gather_spec(**fields: Any) -> OpSpec:
    options = {"signature": "(v,d),(k)->(k,d)", "domains": {"index": integer(0, "v")}}
    return OpSpec("gather", primal=lambda table, index: table[index] ** 2, **(options | fields))


def _gather(table, index):
    return table[index] ** 2


@fast("float64")
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_integers_reach_both_sides_as_integers(dtype):
    seen = []

    def gather(table, index):
        seen.append(index)
        return _gather(table, index)

    assert judged(gather, _gather_spec(), "vjp", dtype).verdict is Verdict.PASS
    assert {x.dtype for x in seen} == {torch.int64}
    assert not any(x.requires_grad for x in seen)


@pytest.mark.parametrize("kind", [np.int32, np.uint8, bool])
def test_integers_that_are_given_keep_their_dtype(kind):
    mask, seen = np.array([1, 0, 1]).astype(kind), []

    def masked(x, mask):
        seen.append((mask.dtype, mask.tolist()))
        return torch.where(mask != 0, x * x, x)

    spec = OpSpec("masked", primal=lambda x, mask: jnp.where(mask != 0, x * x, x), inputs=(normal(3), mask))
    assert judged(masked, spec, "vjp").verdict is Verdict.PASS
    assert set(map(str, seen)) == {str((torch.from_numpy(mask).dtype, mask.tolist()))}


def test_another_index_is_caught():
    def shifted(table, index):
        return _gather(table, (index + 1) % len(table))

    assert judged(shifted, _gather_spec(), "forward").verdict is Verdict.MISMATCH


@pytest.mark.slow
def test_a_gradient_by_another_index_is_caught():
    class Sorted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, table, index):
            ctx.save_for_backward(table, index)
            return table[index] ** 2

        @staticmethod
        def backward(ctx, output_bar):
            table, index = ctx.saved_tensors
            index = index.sort().values
            return torch.zeros_like(table).index_add(0, index, 2 * table[index] * output_bar), None

    assert judged(Sorted.apply, _gather_spec(), "forward").verdict is Verdict.PASS
    assert judged(Sorted.apply, _gather_spec(), "vjp").verdict is Verdict.MISMATCH


def _offsets(rng, shape):
    return rng.integers(-3, 4, shape).astype(np.int32)


def _flags(rng, shape):
    return rng.random(shape) < 0.5


def _shifted_spec(sampler: Any, **fields: Any) -> OpSpec:
    def primal(x, k):
        return jnp.where(k > 0, x**3, x * x) if k.dtype == bool else x * 2.0 ** (k // 2)

    return OpSpec("op", primal, **{"signature": "(n),(n)->(n)", "domains": {"k": sampler}} | fields)


def _shifted(x, k):
    return torch.where(k, x**3, x * x) if k.dtype == torch.bool else x * 2.0 ** (k // 2)


@pytest.mark.parametrize(
    ("sampler", "kind"), [(_offsets, torch.int64), (_flags, torch.bool)], ids=["integers", "booleans"]
)
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_integers_of_a_sampler_reach_both_sides_as_integers(sampler, kind, dtype):
    seen = []

    def shifted(x, k):
        seen.append(k)
        return _shifted(x, k)

    spec = _shifted_spec(sampler)
    assert [domain.differentiable for domain in spec.domains_of_inputs(2)] == [True, False]
    assert judged(shifted, spec, "vjp", dtype).verdict is Verdict.PASS
    assert {x.dtype for x in seen} == {kind}
    assert not any(x.requires_grad for x in seen)


def test_a_mistake_that_only_integers_show_is_caught():
    """Division rounds towards zero instead of downwards: as float64 numbers both sides would divide exactly."""
    row = judged(lambda x, k: x * 2.0 ** torch.div(k, 2, rounding_mode="trunc"), _shifted_spec(_offsets), "forward")
    assert row.verdict is Verdict.MISMATCH


def test_a_sampler_of_integers_is_called_at_whatever_shape_the_signature_asks_for():
    def rows(rng, shape):
        assert shape[-1] == 3
        return rng.integers(0, 2, shape)

    spec = _shifted_spec(rows, signature="(n,3),(n,3)->(n,3)")
    assert all(sample.constants[1].dtype == np.int64 for sample in samples(spec, 0))


def test_integers_that_were_not_expected_are_refused():
    def only_of_four(rng, shape):
        if shape != (4,):
            raise ValueError("four, please")
        return rng.integers(0, 2, shape)

    spec = _shifted_spec(only_of_four)
    with pytest.raises(TypeError, match=r"^the domain 'only_of_four' drew int64, which cannot be differentiated"):
        next(iter(samples(spec, 0))).primals(("x", "k"))
    spec = _shifted_spec(Domain("offsets", lambda rng, shape, sizes: _offsets(rng, shape)))
    with pytest.raises(TypeError, match=r"'offsets' drew int32, .* or give a Domain\(\.\.\., differentiable=False\)$"):
        next(iter(samples(spec, 0))).primals(("x", "k"))


def test_a_sampler_of_something_else_is_refused():
    spec = _shifted_spec(lambda rng, shape: rng.standard_normal(shape) * 1j)
    with pytest.raises(TypeError, match=r"drew complex128; draw real numbers, integers or booleans$"):
        next(iter(samples(spec, 0))).primals(("x", "k"))


def test_integers_alone_have_no_derivative():
    text = r"no input is differentiated \(integers are drawn for k; multiply by 1.0 for real numbers\)"
    with pytest.raises(ValueError, match=text):
        OpSpec("op", lambda k: k * k, "(n)->(n)", domains={"k": _offsets})


def test_a_spec_of_samplers_can_be_pickled():
    spec = pickle.loads(pickle.dumps(OpSpec("op", operator.mul, "(n),(n)->(n)", domains={"b": _offsets})))
    assert [domain.differentiable for domain in spec.domains_of_inputs(2)] == [True, False]


# Constants.

SCALED = OpSpec("scaled", primal=lambda x, scale: jnp.sin(x * scale), signature="(n),(n)->(n)", constants=["scale"])


def test_constants_are_not_differentiated():
    (sample, *_) = samples(SCALED, 0)
    with pinned():
        oracle = Oracle(SCALED, sample)
        assert oracle.inputs == ("x",)
        assert [slot.label for slot in oracle.map("vjp").results] == ["x_bar"]
        assert [slot.label for slot in oracle.map("vjp_of_vjp").arguments] == ["x", "output_bar", "x_bar_bar"]


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_constants_reach_both_sides_in_the_format(dtype):
    seen = []

    def scaled(x, scale):
        seen.append(scale)
        return torch.sin(x * scale)

    assert judged(scaled, SCALED, "vjp", dtype).verdict is Verdict.PASS
    assert {x.dtype for x in seen} == {getattr(torch, dtype)}
    assert not any(x.requires_grad for x in seen)


def test_constants_are_exact_in_every_format():
    x = drawn(constant(DOMAINS["real"]), (200,))
    assert all(np.array_equal(p.rounded(x), x) for p in PRECISIONS.values())
    assert not np.array_equal(PRECISIONS["bfloat16"].rounded(normal(200)), normal(200))


def test_a_constant_stays_in_its_domain():
    spec = OpSpec(
        "log",
        primal=lambda x, c: x * x * jnp.log(c),
        signature="(n),(n)->(n)",
        domains={"c": "positive"},
        constants=["c"],
    )
    assert all((sample.constants[1] > 0).all() for sample in samples(spec, 0))


def test_another_constant_is_caught():
    assert judged(lambda x, scale: torch.sin(x * scale.abs()), SCALED, "forward").verdict is Verdict.MISMATCH


# Parameters.

LEAKY = OpSpec(
    "leaky",
    primal=lambda x, slope=0.5: jnp.where(x > 0, x, slope * x),
    signature="(n)->(n)",
    params={"slope": 0.25},
)


def test_parameters_reach_both_sides():
    seen = []

    def leaky(x, slope=0.5):
        seen.append(slope)
        return torch.where(x > 0, x, slope * x)

    assert judged(leaky, LEAKY, "vjp").verdict is Verdict.PASS
    assert set(seen) == {0.25}


def test_parameters_reach_explicit_formulas():
    def vjp(x, output_bar, slope):
        return (jnp.where(x > 0, 1, slope) * output_bar,)

    spec = OpSpec("leaky", primal=LEAKY.primal, signature="(n)->(n)", params={"slope": 0.25}, vjp=vjp)
    report = crosscheck(lambda x, slope: torch.where(x > 0, x, slope * x), spec, checks=["vjp"], dtypes=["float64"])
    assert report.passed, str(report)


def test_a_parameter_that_is_ignored_is_caught():
    row = judged(lambda x, slope=0.5: torch.where(x > 0, x, 0.5 * x), LEAKY, "forward")
    assert row.verdict is Verdict.MISMATCH


# Derivatives in the directions of the domain, and in no others.


def _logdet(x):
    return 2 * jnp.log(x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0])


LOGDET = {"primal": _logdet, "inputs": (np.array([[2.0, 0.5], [0.5, 1.0]]),)}


def _adjugate(x):
    return torch.stack([torch.stack([x[1, 1], -x[1, 0]]), torch.stack([-x[0, 1], x[0, 0]])])


def _logdet_torch(gradient):
    def forward(x):
        return 2 * torch.log(x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0])

    def backward(x, output_bar):
        return output_bar * 2 * gradient(_adjugate(x) / (x[0, 0] * x[1, 1] - x[0, 1] * x[1, 0]))

    return unary_function(forward, backward)


def _lower_twice(g):
    """The same symmetric part, all of it below the diagonal."""
    return torch.tril(g + g.mT) - torch.diag(torch.diagonal(g))


@pytest.mark.parametrize(("domain", "verdict"), [("symmetric", Verdict.PASS), ("real", Verdict.MISMATCH)])
def test_gradients_with_the_same_symmetric_part_are_the_same_to_a_symmetric_input(domain, verdict):
    spec = OpSpec("logdet", **LOGDET, domains={"x": domain})
    assert judged(_logdet_torch(lambda g: g), spec, "vjp").verdict is Verdict.PASS
    assert judged(_logdet_torch(_lower_twice), spec, "vjp").verdict is verdict


@pytest.mark.parametrize(
    ("name", "gradient"),
    [
        ("symmetric", lambda g: torch.tril(g)),  # what is missing is no antisymmetric part
        ("definite", lambda g: g / 2),
        ("lower", lambda g: torch.triu(g)),
        ("positive", lambda g: -g),
        ("unit", lambda g: 2 * g),
    ],
)
def test_a_gradient_that_is_wrong_inside_the_domain_is_caught(name, gradient):
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,n)->(n,n)", domains={"x": name})
    assert judged(unary_function(lambda x: x * x, lambda x, w: 2 * x * w), spec, "vjp").verdict is Verdict.PASS
    wrong = unary_function(lambda x: x * x, lambda x, w: gradient(2 * x * w))
    assert judged(wrong, spec, "vjp").verdict is Verdict.MISMATCH


class _Inverse(torch.autograd.Function):
    """The inverse of a definite matrix by its lower triangle; its gradient counts the diagonal `times` over."""

    times = 1.0

    @staticmethod
    def forward(a):
        return torch.cholesky_inverse(torch.linalg.cholesky(a))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @classmethod
    def backward(cls, ctx, *output_bars):
        (y,) = ctx.saved_tensors
        g = -y @ output_bars[0] @ y
        return (g + g.mT).tril(-1) + cls.times * g.diagonal().diag()

    @staticmethod
    def jvp(ctx, *a_dots):
        (y,) = ctx.saved_tensors
        a_dot = a_dots[0].tril() + a_dots[0].tril(-1).mT
        return -y @ a_dot @ y


class _DiagonalTwice(_Inverse):
    times = 2.0


@pytest.mark.slow
@pytest.mark.parametrize(("candidate", "verdict"), [(_Inverse, Verdict.PASS), (_DiagonalTwice, Verdict.MISMATCH)])
@pytest.mark.parametrize("check", ["vjp", "adjoint"])
def test_a_candidate_may_read_half_of_a_definite_matrix(check, candidate, verdict):
    spec = OpSpec("inverse", primal=lambda a: jnp.linalg.inv(a), signature="(n,n)->(n,n)", domains={"a": "definite"})
    assert judged(candidate.apply, spec, check).verdict is verdict


def test_the_strict_upper_triangle_is_no_direction_of_a_lower_one():
    spec = OpSpec("square", primal=lambda x: x * x, signature="(n,n)->(n,n)", domains={"x": "lower"})
    with_more = unary_function(lambda x: x * x, lambda x, w: 2 * x * w + torch.triu(w, 1))
    assert judged(with_more, spec, "vjp").verdict is Verdict.PASS


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, Verdict.PASS), (1.0, Verdict.PASS), ("x", Verdict.MISMATCH)])
def test_gradients_of_probabilities_may_differ_by_a_constant(shift, verdict):
    """What no change of probabilities can tell is not compared; everything else is."""
    spec = OpSpec(
        "entropy",
        primal=lambda x: jnp.sum(x * jnp.log(x), -1),
        signature="(n,m)->(n)",
        domains={"x": "probabilities"},
    )
    candidate = unary_function(
        lambda x: torch.sum(x * torch.log(x), -1),
        lambda x, w: w[:, None] * (torch.log(x) + (x if shift == "x" else shift)),
    )
    assert judged(candidate, spec, "vjp").verdict is verdict


@fast("2.0-MISMATCH")
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, Verdict.PASS), (2.0, Verdict.MISMATCH)])
def test_an_operator_of_general_square_matrices(factor, verdict):
    spec = OpSpec("inverse", jnp.linalg.inv, "(n,n)->(n,n)", input_names=("a",), domains={"a": "well-conditioned"})
    candidate = unary_function(torch.linalg.inv, lambda a, w: -factor * a.inverse().mT @ w @ a.inverse().mT)
    for dtype in ("float64", "float32"):
        assert judged(candidate, spec, "vjp", dtype).verdict is verdict


@pytest.mark.parametrize(("domain", "verdict"), [("positive", Verdict.PASS), ("real", Verdict.MISMATCH)])
def test_outside_its_domain_a_candidate_is_not_judged(domain, verdict):
    spec = OpSpec("x |x|", primal=lambda x: x * jnp.abs(x), signature="(n)->(n)", domains={"x": domain})
    assert judged(lambda x: x * x, spec, "forward").verdict is verdict


@fast("jvp")
@pytest.mark.parametrize("check", ["layouts", "vmap", "jvp", "vjp_of_vjp"])
def test_right_code_passes_in_every_domain(check):
    for name in DOMAINS:
        spec = OpSpec("square", primal=lambda x: x * x, signature="(n,n)->(n,n)", domains={"x": name})
        assert judged(lambda x: x * x, spec, check).verdict is Verdict.PASS, name


# What is refused.


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        pytest.param(
            {"domains": {"x": "positiv"}},
            ValueError,
            "OpSpec op: unknown domain 'positiv'; there are real, extended, positive, unit, symmetric, definite, "
            "lower, nonzero, well-conditioned, orthogonal, probabilities, sorted, distinct, complex, "
            "integer(low, high), or a sampler",
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
