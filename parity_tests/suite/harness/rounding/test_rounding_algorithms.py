"""What another right algorithm than the oracle's may lose: its results are within the bound, and not far within it."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.rounding.analysis import bounded

F16, BF16 = PRECISIONS["float16"], PRECISIONS["bfloat16"]
# Of which (x y) z has no partial product below the normal numbers of float16, and x (y z) has.
LARGE_FIRST = ([2.5], [1e-4], [5e-3])


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def compared(f, args, candidate, precision: Precision) -> Comparison:
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=precision)
    return Comparison("y", np.asarray(candidate, np.float64), value, bound)


def products_in_every_order(factors):
    """In float16, each one a product of two at a time: of any two neighbours of any permutation."""
    halves = [np.float16(x) for x in factors]
    for order in itertools.permutations(halves):
        yield functools.reduce(lambda a, b: np.float16(a * b), order)
    for a, b, c, d in itertools.permutations(halves, 4):
        yield np.float16(np.float16(a * b) * np.float16(c * d))


PRODUCTS = {
    "mul": lambda x: x[0] * x[1] * x[2] * x[3],
    "reduce_prod": lambda x: jnp.prod(x),
    "cumprod": lambda x: jnp.cumprod(x)[-1],
    "derivative of a product": lambda x: jax.grad(lambda y: jnp.prod(jnp.append(x, y)))(1.0),
    "moved between": lambda x: (-x[0] * x[1]).reshape(1)[0] * (x[2] * x[3]) * -1,
    "through calls": lambda x: jnp.where(jnp.isnan(x[0]), 0, x[0] * x[1]) * x[2] * jax.jit(jnp.multiply)(1.0, x[3]),
}
each_product = pytest.mark.parametrize("f", PRODUCTS.values(), ids=PRODUCTS)


@each_product
def test_a_product_may_underflow_in_another_order_than_the_oracles(f):
    worst, of_one_order = 0.0, 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        exponents = rng.permutation(rng.uniform([-13, -13, 3, 3], [-9, -9, 6, 6]))
        x = F16.rounded(2.0**exponents * rng.choice([-1, 1], 4))
        y = np.array([*products_in_every_order(x)], np.float64)
        comparison = compared(f, [x], y, F16)
        assert comparison.holds, x
        worst = max(worst, comparison.error_over_bound)
        # What 4 factors that are two roundings off, and 4 underflows that nothing multiplies, explain.
        alone = 12 * F16.u * np.abs(comparison.oracle) + 4 * F16.tiny
        of_one_order = max(of_one_order, float(np.max(comparison.error / alone)))
    assert worst > 1 / 16  # so that what is not much worse is noticed
    assert of_one_order > 1  # so that this was an alarm


@each_product
def test_a_product_that_fits_and_whose_parts_do_not_may_be_an_infinity(f):
    """The oracle multiplies the small factors first; another order has an infinity where the product is 1 or so."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = F16.rounded(2.0 ** rng.uniform([-9, -9, 8, 8], [-8, -8, 9, 9]) * rng.choice([-1, 1], 4))
        with np.errstate(over="ignore"):
            y = np.array([*products_in_every_order(x)], np.float64)
        comparison = compared(f, [x], y, F16.with_any_order)
        assert comparison.holds, x
        assert np.isinf(y).any() == (abs(x[2] * x[3]) * (1 + F16.u) >= F16.largest * (1 + 2 * F16.u))
        if not np.isinf(y).any():
            continue
        assert np.isinf(comparison.bound)
        if f is not PRODUCTS["moved between"]:  # of which the oracle's own order overflows
            assert not compared(f, [x], np.inf, F16).holds


@each_product
def test_a_product_none_of_whose_parts_overflows_is_no_infinity(f):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = F16.rounded(2.0 ** rng.uniform([-8, -8, 7, 7], [-7, -7, 7.9, 7.9]) * rng.choice([-1, 1], 4))
        for wrong in np.inf, np.nan, 1.1 * np.prod(x):
            assert not compared(f, [x], wrong, F16.with_any_order).holds, x


def test_of_two_factors_there_is_one_order():
    x = [np.array([40.0]), np.array([2.0**-20])]
    ((value, bound),) = bounded(jax.make_jaxpr(lambda a, b: a * b)(*x), *x, precision=F16, inputs=0)
    assert bound <= F16.u * value * 1.001 + F16.tiny


def test_a_zero_factor_makes_an_exact_zero():
    x = [np.array([100.0]), np.array([0.0]), np.array([100.0])]
    ((value, bound),) = bounded(jax.make_jaxpr(lambda a, b, c: a * b * c)(*x), *x, precision=F16)
    assert (value, bound) == (0, 0)


def test_a_zero_factor_of_what_overflows_in_another_order_makes_no_number():
    """(1000 · 0) 1000 is 0 in float16, and (1000 · 1000) 0 is infinity · 0."""
    x = [np.array(a) for a in ([1000.0], [0.0], [1000.0])]
    assert compared(lambda a, b, c: a * b * c, x, [np.nan], F16.with_any_order).holds
    assert not compared(lambda a, b, c: a * b * c, x, [np.nan], BF16.with_any_order).holds


@pytest.mark.parametrize("mask", [-1e9, -F16.largest])
def test_the_constant_of_a_mask_is_no_factor_that_overflows(mask):
    """Of what is masked and then scaled the entries that are kept are judged."""

    def scores(x, y):
        return (x * y + (1 - jnp.ones(1, int)) * mask) * 0.125

    for wrong in np.inf, np.nan:
        assert not compared(scores, [np.array([3.0]), np.array([5.0])], [wrong], F16.with_any_order).holds


def test_an_infinite_factor_makes_an_infinity_in_every_order():
    x = [np.array(a) for a in ([np.inf], [200.0], [400.0])]
    assert compared(lambda a, b, c: a * b * c, x, [np.inf], F16.with_any_order).holds
    assert not compared(lambda a, b, c: a * b * c, x, [0.0], F16.with_any_order).holds


def test_in_float64_the_order_hardly_matters():
    x = [np.array(a) for a in LARGE_FIRST]
    ((value, bound),) = bounded(jax.make_jaxpr(lambda a, b, c: a * b * c)(*x), *x, precision=PRECISIONS["float64"])
    assert bound < 1e-14 * value


def softmax_by_the_logarithm(x: np.ndarray, w: np.ndarray, precision: Precision) -> np.ndarray:
    """w exp(x - logsumexp x), with all that has a name stored in the format, as fused attention has it."""
    t, w_ = (conversion.to_torch(a, precision, "cpu") for a in (x, w))
    return conversion.to_numpy(w_[..., None] * torch.exp(t - torch.logsumexp(t, -1, keepdim=True)))


def logsumexp_vjp(x, w):
    return jax.vjp(lambda x: jax.nn.logsumexp(x, axis=-1), x)[1](w)[0]


@pytest.mark.parametrize("precision", [BF16, F16], ids=lambda p: p.name)
def test_a_derivative_of_a_logarithm_may_divide_by_way_of_it(precision):
    """Of many small numbers the logarithm is 7.6, whose rounding all weights share."""
    worst = 0.0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, w = precision.rounded(np.abs(rng.standard_normal((4, 2049))) / 45), precision.rounded(rng.standard_normal(4))
        y = softmax_by_the_logarithm(x, w, precision)
        comparison = compared(logsumexp_vjp, [x, w], y, precision)
        assert comparison.holds, seed
        worst = max(worst, comparison.error_over_bound)
        wrong = compared(logsumexp_vjp, [x, w], 1.25 * y, precision)
        assert not wrong.holds, seed
    assert worst > 1 / 4


def test_a_quotient_without_its_logarithm_does_not():
    a, s = np.array([1.0, 3.0]), np.array([1e3, 1e-3])
    of_both, alone = (
        bounded(jax.make_jaxpr(f)(a, s), a, s, precision=BF16)[0][1]
        for f in (lambda a, s: (a / s, jnp.log(s)), lambda a, s: (a / s,))
    )
    u = BF16.u
    np.testing.assert_allclose(of_both - alone, a / s * np.expm1(2 * u * np.abs(np.log(s))), rtol=1e-2)
    assert (alone < 7 * u * a / s).all()


def test_a_matrix_that_is_not_finite_has_no_singular_values_and_no_bound():
    x = np.ones((2, 3, 2))
    x[0, 1, 1] = np.inf
    ((_, bound),) = bounded(
        jax.make_jaxpr(lambda a: jnp.linalg.svd(a, compute_uv=False))(x), x, precision=PRECISIONS["float32"]
    )
    assert np.isinf(bound[0]).all()
    assert np.isfinite(bound[1]).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_what_may_change_places_spoils_only_its_own_row(axis: int):
    """The gradient of a sort, where two entries of one row are equal but for rounding."""
    x = np.array([[3.0, 1.0, 2.0], [1.0, 1.0 + BF16.u, 5.0], [7.0, 1.0, 4.0]])
    w = np.arange(1.0, 10.0).reshape(3, 3)
    x, w = (x, w) if axis == 1 else (x.T, w.T)

    def gradient(x, w):
        return jax.vjp(lambda x: jnp.sort(x, axis=axis), x)[1](w)[0]

    ((value, bound),) = bounded(jax.make_jaxpr(gradient)(x, w), x, w, precision=BF16)
    bound = bound if axis == 1 else bound.T
    # 4 and 5 may be in either place; that the place of 5 is off by one says no more than this.
    np.testing.assert_allclose(bound, [[0] * 3, [9, 9, 5], [0] * 3], atol=0.5)
    assert np.array_equal(value if axis == 1 else value.T, [[3, 1, 2], [4, 5, 6], [9, 7, 8]])
