"""The special points of each domain, and equal inputs: each has a mistake that it alone catches, and right versions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict
from parity_tests.harness.numbers.formats import FORMATS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.points import placements
from parity_tests.harness.specs.domains import DOMAINS, Domain
from parity_tests.harness.specs.samples import samples
from parity_tests.operators.operator import function
from parity_tests.suite.harness._ops import judged
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

pytestmark = pytest.mark.usefixtures("certified_once")

FLOATS = ("float64", "float32", "bfloat16", "float16")


def of(domain: str | Domain, primal, signature: str = "(n,m)->(n)", **fields) -> OpSpec:
    """An operator of x, or of x and y, all of this domain."""
    names = ("x", "y")[: signature.partition("->")[0].count("(")]
    return OpSpec("op", primal, signature, input_names=names, domains=dict.fromkeys(names, domain), **fields)


# Of one input.


def _spread(x):
    return jnp.sum((x - jnp.mean(x, -1, keepdims=True)) ** 2, -1)


def _spread_torch(x):
    return (x - x.mean(-1, keepdim=True)).square().sum(-1)


def _spread_by_a_root(x):
    return (x - x.mean(-1, keepdim=True)).square().sum(-1).sqrt().square()


def _logits(x):
    return jnp.sum(jnp.log(x) - jnp.log1p(-x), -1)


def _logits_torch(x):
    return (x.log() - torch.log1p(-x)).sum(-1)


def _gaps_with(slope):
    """log(1 + gap) of neighbours, with a factor on the slope by the gaps."""

    def backward(x, w):
        d = torch.diff(x)
        p = w * slope(d) / (1 + d)
        zero = torch.zeros_like(x[..., :1])
        return torch.cat([zero, p], -1) - torch.cat([p, zero], -1)

    return function(lambda x: torch.log1p(torch.diff(x)), backward)


def _one(d):
    return torch.ones_like(d)


def _wrong_of_constant_rows(d):
    return _one(d) * torch.where((d == 0).all(-1, keepdim=True), 2, 1)


def _wrong_of_some_ties(d):
    return torch.where((d == 0) & (d > 0).any(-1, keepdim=True), 2, 1)


def _product_over_x(x, w):
    return (w * x.prod(-1))[..., None] / x


def _squares_unless(has_order):
    """x², whose gradient is forgotten where the differences of all neighbours have this property."""

    def backward(x, w):
        is_special = len(x) > 2 and x.shape[-1] > 2 and bool(has_order(x.diff(dim=-1)).all())
        return 0 * x if is_special else 2 * x * w[..., None]

    return function(lambda x: x.square().sum(-1), backward)


def _sum_of_squares(x):
    return jnp.sum(x * x, -1)


# Of matrices.

MATRIX = "(n,n)->(n,n)"


def _product_backward(x, w):
    return w @ x.mT + x.mT @ w


def _square_by_gaps(x, w):
    """A term that cancels, by the reciprocals of the differences of eigenvalues."""
    a = torch.linalg.eigvalsh(x)
    return _product_backward(x, w) + 0 * (1 / a.diff()).sum()


def _square_of_scaled(x, w):
    """A multiple of the identity is taken for the identity."""
    is_scaled = (x == x[0, 0] * torch.eye(len(x), dtype=x.dtype)).all()
    return torch.where(is_scaled, 2 * w, _product_backward(x, w))


def _square_of_diagonal(x, w):
    """The gradient at a diagonal matrix is taken for a diagonal one."""
    beside = x - torch.diag_embed(torch.diagonal(x))
    is_short = (beside == 0).all() & (torch.diagonal(x).unique().numel() == len(x))
    return torch.where(is_short, torch.diag_embed(torch.diagonal(2 * x * w)), _product_backward(x, w))


def _square(x):
    return x @ x


def _right_square(x):
    return x @ x


def _of_columns(q):
    return jnp.sum(q**3, 0)


# Of two inputs, that may be equal.


def _triangular(x, y):
    return jnp.sum((x - y) ** 2 / (x + y), -1)


def _triangular_torch(x, y):
    return ((x - y) ** 2 / (x + y)).sum(-1)


def _triangular_by_a_root(x, y):
    return ((x - y).square().sqrt().square() / (x + y)).sum(-1)


def _distances(x, y):
    return jnp.sum((x - y) ** 2 + x, -1)


def _distances_torch(x, y):
    return ((x - y).square() + x).sum(-1)


def _normalized_difference(x, y, w):
    d = x - y
    y_bar = -2 * d.abs() * (d / d.abs()) * w[..., None]
    return w[..., None] - y_bar, y_bar


def _nothing_to_learn(x, y, w):
    """The gradient is taken for 0 where x is the target y."""
    return torch.where(x == y, 0.0, (2 * (x - y) + 1) * w[..., None]), None


def _in_order(rng, shape):
    """A user's own sampler, of which nothing is known."""
    return np.cumsum(rng.uniform(0.5, 1, shape), -1)


def _from_one_to_two(rng, shape, sizes):
    return rng.uniform(1, 2, shape)


BANDED = Domain("banded", _from_one_to_two, elementwise=True)

OPERATORS = {  # the operator, a right version, one that is wrong at the point only, and what reports say of the point
    "uniform probabilities": (
        of("probabilities", _spread, sizes="m >= 2"),
        _spread_torch,
        _spread_by_a_root,
        "x is uniform",
    ),
    "nearly one-hot": (
        of("probabilities", _logits, sizes="m >= 2"),
        _logits_torch,
        lambda x: (x.clamp(1e-6).log() - torch.log1p(-x)).sum(-1),
        "x is nearly one-hot",
    ),
    "one half": (
        of("unit", lambda x: (jnp.log(x) - jnp.log1p(-x)) ** 2, "(n)->(n)"),
        lambda x: (x.log() - torch.log1p(-x)).square(),
        lambda x: (x.log() - torch.log1p(-x)).square().sqrt().square(),
        "x is 1/2",
    ),
    "rows of one number": (
        of("sorted", lambda x: jnp.log1p(jnp.diff(x)), "(n,m)->(n,k)", sizes="m >= 2, k = m - 1"),
        _gaps_with(_one),
        _gaps_with(_wrong_of_constant_rows),
        "x is 0",
    ),
    "ties among sorted numbers": (
        of("sorted", lambda x: jnp.log1p(jnp.diff(x)), "(n,m)->(n,k)", sizes="m >= 2, k = m - 1"),
        _gaps_with(_one),
        _gaps_with(_wrong_of_some_ties),
        "x has equal neighbours",
    ),
    "a zero among distinct numbers": (
        of("distinct", lambda x: jnp.prod(x, -1)),
        lambda x: x.prod(-1),
        function(lambda x: x.prod(-1), _product_over_x),
        "x has a zero",
    ),
    "distinct numbers in order": (
        of("distinct", _sum_of_squares),
        lambda x: x.square().sum(-1),
        _squares_unless(lambda d: d > 0),
        "x is sorted",
    ),
    "distinct numbers in descending order": (
        of("distinct", _sum_of_squares),
        lambda x: x.square().sum(-1),
        _squares_unless(lambda d: d < 0),
        "x is in descending order",
    ),
    "equal eigenvalues": (
        of("definite", _square, MATRIX),
        _right_square,
        function(_right_square, _square_by_gaps),
        "x is the identity",
    ),
    "equal eigenvalues that are not 1": (
        of("definite", _square, MATRIX, sizes="n >= 2"),
        _right_square,
        function(_right_square, _square_of_scaled),
        "x is twice the identity",
    ),
    **{
        f"a diagonal {domain} matrix": (
            of(domain, _square, MATRIX, sizes="n >= 2"),
            _right_square,
            function(_right_square, _square_of_diagonal),
            "x is diagonal",
        )
        for domain in ("symmetric", "definite", "well-conditioned")
    },
    "a triangle with nothing beside the diagonal": (
        of("lower", _square, MATRIX, sizes="n >= 2"),
        _right_square,
        function(_right_square, lambda x, w: _product_backward(x, w) * torch.where(x == 2, 0.5, 1.0)),
        "x is twice the identity",
    ),
    "pivots that are 0": (
        of("well-conditioned", jnp.linalg.det, "(n,n)->()", sizes="n >= 1"),
        torch.linalg.det,
        lambda x: torch.linalg.det(x) * (x[0, 0] / x[0, 0]),  # scaled by its first pivot and back
        "x is a permutation",
    ),
    "zeros of orthonormal columns": (
        of("orthogonal", _of_columns, "(n,m)->(m)", sizes="m <= n, m >= 1"),
        lambda q: (q**3).sum(0),
        function(lambda q: (q**3).sum(0), lambda q, w: 3 * q**3 / q * w),
        "x is the identity",
    ),
    "the modulus of a complex number": (
        of("complex", lambda x: jnp.real(x * jnp.conj(x)), "(n)->(n)"),
        lambda x: (x * x.conj()).real,
        lambda x: x.abs().square() if bool((x != 0).all()) else (x / x * x * x.conj()).real,
        "x is 0",
    ),
    "entries that an author's domain allows to be equal": (
        of(BANDED, _spread, sizes="m >= 2"),
        _spread_torch,
        _spread_by_a_root,
        "x has equal entries",
    ),
    **{
        f"a loss at x = y of {domain}": (
            of(domain, _triangular, "(n,m),(n,m)->(n)", sizes="m >= 2"),
            _triangular_torch,
            _triangular_by_a_root,
            where,
        )
        for domain, where in (
            ("probabilities", "each of x, y is uniform"),
            ("unit", "each of x, y is 1/2"),
            ("positive", "each of x, y is 1"),
        )
    },
    "a distance at x = y of orthonormal columns": (
        of("orthogonal", _distances, "(n,m),(n,m)->(n)", sizes="m < n, m >= 1"),
        _distances_torch,
        function(_distances_torch, _normalized_difference),
        "each of x, y is the identity",
    ),
    "a distance at x = y of a sampler": (
        OpSpec("op", _distances, "(n,m),(n,m)->(n)", input_names=("x", "y"), domains={"x": _in_order, "y": _in_order}),
        _distances_torch,
        function(_distances_torch, _normalized_difference),
        "each of x, y is the same",
    ),
    "a distance at its target": (
        of("real", _distances, "(n,m),(n,m)->(n)", constants=["y"]),
        _distances_torch,
        function(_distances_torch, _nothing_to_learn),
        "x is equal to y",
    ),
}


@fast("uniform probabilities", "a distance at x = y of a sampler")
@pytest.mark.parametrize("name", OPERATORS)
def test_a_mistake_is_caught_at_its_point_alone(name):
    operator, _, wrong, where = OPERATORS[name]
    row = judged(wrong, operator, "points")
    assert row.verdict is Verdict.MISMATCH, row
    assert row.failure is not None
    assert where in row.failure.wrong[0].circumstance
    assert judged(wrong, operator, "vjp").verdict is Verdict.PASS


@pytest.mark.slow
@rotating(5, by="name")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_right_one_raises_no_alarm(name, dtype):
    operator, right, *_ = OPERATORS[name]
    for check in ("points", "points_second_order"):
        row = judged(right, operator, check, dtype)
        assert row.verdict in (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.SKIPPED), row
        assert check != "points" or dtype != "float64" or row.verdict is Verdict.PASS, row


# The table itself.


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", DOMAINS)
def test_every_domain_has_special_points_that_stay_in_it(name, dtype):
    """Of what is drawn, the project asks at most: see the docstring of `specs/domains.py`."""
    is_square = name in ("symmetric", "definite", "lower", "well-conditioned", "orthogonal")
    signature = "(n,n),(n,n)->(n,n)" if is_square else "(n,m),(n,m)->(n,m)"
    operator = of(name, lambda x, y: jnp.real(x * y), signature)
    sample = next(sample for sample in samples(operator, 0) if sample.generic)
    precision = FORMATS[dtype]
    with pinned():
        places = list(placements(Oracle(operator, sample), sample, precision))
    assert any(place.kind == "is the same" for place in places)
    assert len({place.kind for place in places}) >= 3
    for place in places:
        for x in place.primals:
            assert BELONGS[name](x, precision.u), place.name


def _is_symmetric(x, u):
    return np.array_equal(x, np.swapaxes(x, -1, -2))


BELONGS = {  # is an array in the domain, up to the rounding of its entries?
    "real": lambda x, u: True,
    "extended": lambda x, u: True,
    "complex": lambda x, u: True,
    "positive": lambda x, u: (~(x <= 0)).all(),  # a NaN is in every domain of single entries
    "unit": lambda x, u: (~((x <= 0) | (x >= 1))).all(),
    "nonzero": lambda x, u: (x != 0).all(),
    "symmetric": _is_symmetric,
    "definite": lambda x, u: _is_symmetric(x, u) and np.linalg.eigvalsh(x).min() > 0.5,
    "lower": lambda x, u: np.array_equal(x, np.tril(x)) and np.abs(np.diagonal(x, axis1=-2, axis2=-1)).min() > 0,
    "well-conditioned": lambda x, u: np.linalg.cond(x) < 4,
    "orthogonal": lambda x, u: np.abs(np.swapaxes(x, -1, -2) @ x - np.eye(x.shape[-1])).max() < 2**-5,
    "probabilities": lambda x, u: (x > 0).all() and np.abs(x.sum(-1) - 1).max() < 2**-5,
    "sorted": lambda x, u: (np.diff(x) >= 0).all(),
    "distinct": lambda x, u: np.unique(x).size == x.size,
}
