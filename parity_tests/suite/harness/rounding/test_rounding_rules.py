"""The bounds of factorizations, solutions, orders, windows and running products: met by right code, and not idle.

Right code is PyTorch's, in the format, and whatever is exact for inputs that are two roundings off. Every case states
its slack: how many times larger than the worst error of many draws its bound is at most. More than that is noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import FLOAT64, PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.bounds import INPUT
from parity_tests.harness.specs.domains import DOMAINS
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

SEEDS = 25
ALL = tuple(PRECISIONS.values())
LAPACK = (PRECISIONS["float64"], PRECISIONS["float32"])  # the formats that it has
F32 = (PRECISIONS["float32"],)


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


class Case(NamedTuple):
    """A function in JAX and in PyTorch, where its arguments lie, and how many times its bound is too large at most."""

    jax: Callable
    torch: Callable | None  # None where PyTorch has none
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    slack: float
    formats: tuple[Precision, ...] = ALL


def real(*shape):
    return ("real", shape)


def positive(*shape):
    return ("positive", shape)


def _tangent(f):
    return lambda x, x_dot: jax.jvp(f, (x,), (x_dot,))[1]


def _gradient(f):
    return lambda x, y_bar: jax.vjp(f, x)[1](y_bar)[0]


def _gradient_torch(f):
    def gradient(x, y_bar):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(f(x), x, y_bar)[0]

    return gradient


def _pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (3, 2), (2, 1), ((1, 1), (0, 0)))


def _pooled_torch(x):
    return torch.nn.functional.max_pool2d(x[None, None], (3, 2), (2, 1), (1, 0))[0, 0]


def _averaged(x):
    return lax.reduce_window(x, 0.0, lax.add, (2, 3), (2, 3), "VALID") / 6


def _convolved(x, w):
    return lax.conv_general_dilated(x, w, (2, 1), ((1, 1), (0, 1)))


def _convolved_torch(x, w):
    return torch.nn.functional.conv2d(torch.nn.functional.pad(x, (0, 1, 1, 1)), w, stride=(2, 1))


def _inverse(x):
    return jnp.linalg.inv(x)


def _root(a):
    w, v = jnp.linalg.eigh(a)
    return (v * jnp.sqrt(w)) @ v.T


def _root_torch(a):
    w, v = torch.linalg.eigh(a)
    return (v * w.sqrt()) @ v.mT


def _repeated(x, times):
    return lax.while_loop(lambda c: c[1] < times, lambda c: (jnp.sin(c[0]), c[1] + 1), (x, 0))[0]


def _polynomial(x, c):
    """One primitive of JAX 0.11 and later."""
    return jnp.polyval(c[::-1], x)


POLYNOMIAL = (real(4, 6), real(3))
_ROWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)
MATRICES = (("definite", (6, 6)), real(6, 3))
CASES = {
    "sort": Case(jnp.sort, lambda x: torch.sort(x).values, (real(3, 9),), 1.1),
    "sort, its tangent": Case(
        _tangent(lambda x: jnp.sort(x, 0)), lambda x, t: t.take_along_dim(x.argsort(0), 0), (real(9, 3),) * 2, 1.1
    ),
    "median": Case(lambda x: jnp.sort(x)[..., 4], lambda x: x.median(-1).values, (real(3, 9),), 1.1),
    "top_k": Case(lambda x: lax.top_k(x, 3)[0], lambda x: torch.topk(x, 3).values, (real(4, 9),), 1.1),
    "cummax": Case(lambda x: lax.cummax(x, 1), lambda x: torch.cummax(x, 1).values, (real(3, 9),), 1.1),
    "cummin": Case(
        lambda x: lax.cummin(x, 1, reverse=True),
        lambda x: torch.cummin(x.flip(1), 1).values.flip(1),
        (real(3, 9),),
        1.1,
    ),
    "cumprod": Case(lambda x: jnp.cumprod(x, 1), lambda x: torch.cumprod(x, 1), (real(3, 7),), 2),
    "cumlogsumexp": Case(lambda x: lax.cumlogsumexp(x, 1), lambda x: torch.logcumsumexp(x, 1), (real(3, 9),), 10),
    "while": Case(
        lambda x: lax.while_loop(lambda c: c[1] < 3.0, lambda c: (jnp.sin(c[0]), c[1] + 1), (x, jnp.zeros(())))[0],
        lambda x: x.sin().sin().sin(),
        (real(3, 5),),
        1.5,
    ),
    "scatter": Case(
        lambda x, y: x.at[jnp.array([2, 0])].set(y * y),
        lambda x, y: x.index_copy(0, torch.tensor([2, 0]), y * y),
        (real(4, 3), real(2, 3)),
        1.1,
    ),
    "scatter_mul": Case(
        lambda x, y: x.at[jnp.array([2, 0, 2])].mul(y),
        lambda x, y: torch.stack([x[0] * y[1], x[1], x[2] * (y[0] * y[2]), x[3]]),
        (real(4, 3), real(3, 3)),
        2,
    ),
    "rem": Case(lambda x, y: lax.rem(4 * x, y), lambda x, y: torch.fmod(4 * x, y), (real(4, 5), positive(4, 5)), 2),
    "lgamma": Case(jax.scipy.special.gammaln, torch.lgamma, (positive(4, 5),), 25),
    "zeta": Case(
        lambda q: jax.scipy.special.zeta(jnp.full_like(q, 2.5), q),
        lambda q: torch.special.zeta(2.5, q),
        (positive(4, 5),),
        8,
        LAPACK,
    ),
    "polygamma": Case(  # PyTorch's errs by 5e-10 in float64
        lambda x: jax.scipy.special.polygamma(1, x), lambda x: torch.special.polygamma(1, x), (positive(4, 5),), 8, F32
    ),
    "max pooling": Case(_pooled, _pooled_torch, (real(7, 5),), 1.1),
    "max pooling, its gradient": Case(_gradient(_pooled), _gradient_torch(_pooled_torch), (real(7, 5), real(4, 4)), 2),
    "max pooling, its tangent": Case(
        _tangent(_pooled),
        lambda x, t: torch.func.jvp(_pooled_torch, (x,), (t,))[1],
        (real(7, 5),) * 2,
        1.1,
    ),
    "mean pooling": Case(
        _averaged, lambda x: torch.nn.functional.avg_pool2d(x[None, None], (2, 3))[0, 0], (real(6, 9),), 5
    ),
    "convolution": Case(_convolved, _convolved_torch, (real(2, 3, 6, 5), real(4, 3, 3, 2)), 8),
    "convolution, its gradient": Case(
        lambda x, w, y_bar: jax.vjp(_convolved, x, w)[1](y_bar)[1],
        lambda x, w, y_bar: _gradient_torch(lambda w: _convolved_torch(x, w))(w, y_bar),
        (real(2, 3, 6, 5), real(4, 3, 3, 2), real(2, 4, 3, 5)),
        12,
    ),
    "triangular solve": Case(
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
        (("lower", (6, 6)), real(6, 3)),
        4,
        LAPACK,
    ),
    "triangular solve, transposed, from the right": Case(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=False, lower=True, transpose_a=True),
        lambda a, b: torch.linalg.solve_triangular(a.mT, b, upper=True, left=False),
        (("lower", (6, 6)), real(3, 6)),
        4,
        LAPACK,
    ),
    "triangular solve, unit diagonal": Case(
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans="T", unit_diagonal=True),
        lambda a, b: torch.linalg.solve_triangular(a.mT, b, upper=True, unitriangular=True),
        (("lower", (6, 6)), real(6, 3)),
        8,
        LAPACK,
    ),
    "cholesky": Case(jnp.linalg.cholesky, torch.linalg.cholesky, (MATRICES[0],), 8, LAPACK),
    "cholesky, its tangent": Case(
        _tangent(jnp.linalg.cholesky),
        lambda a, t: torch.func.jvp(torch.linalg.cholesky, (a,), (t,))[1],
        (MATRICES[0], ("symmetric", (6, 6))),
        16,
        LAPACK,
    ),
    "solve": Case(jnp.linalg.solve, torch.linalg.solve, MATRICES, 8, LAPACK),
    "inverse": Case(_inverse, torch.linalg.inv, MATRICES[:1], 12, LAPACK),
    "inverse, its gradient": Case(
        _gradient(_inverse), _gradient_torch(torch.linalg.inv), (MATRICES[0], real(6, 6)), 16, LAPACK
    ),
    "logdet": Case(lambda a: jnp.linalg.slogdet(a)[1], torch.logdet, MATRICES[:1], 12, LAPACK),
    "eigenvalues": Case(lambda a: jnp.linalg.eigvalsh(a), torch.linalg.eigvalsh, MATRICES[:1], 8, LAPACK),
    "root of a matrix, by its eigenvectors": Case(_root, _root_torch, MATRICES[:1], 60, LAPACK),
    "singular values": Case(
        lambda a: jnp.linalg.svd(a, compute_uv=False), torch.linalg.svdvals, (real(5, 3),), 8, LAPACK
    ),
    "pseudoinverse": Case(lambda a: jnp.linalg.pinv(a), torch.linalg.pinv, (real(5, 3),), 100, LAPACK),
    "Fourier transform": Case(
        lambda x: jnp.abs(jnp.fft.rfft(x)) ** 2, lambda x: torch.fft.rfft(x).abs() ** 2, (real(3, 12),), 24, LAPACK
    ),
    "Fourier transform, its gradient": Case(
        _gradient(lambda x: jnp.fft.rfft(x).real),
        _gradient_torch(lambda x: torch.fft.rfft(x).real),
        (real(3, 12), real(3, 7)),
        32,
        LAPACK,
    ),
    "incomplete gamma": Case(
        jax.scipy.special.gammainc, torch.special.gammainc, (positive(4, 6), positive(4, 6)), 8, LAPACK
    ),
    "incomplete gamma, complement": Case(
        jax.scipy.special.gammaincc, torch.special.gammaincc, (positive(4, 6), positive(4, 6)), 8, F32
    ),
    "incomplete beta": Case(lambda x: jax.scipy.special.betainc(2.0, 3.0, x), None, (("unit", (4, 6)),), 32, LAPACK),
    "Bessel": Case(
        lambda x: jax.scipy.special.i0e(x) * jax.scipy.special.i1e(x),
        lambda x: torch.special.i0e(x) * torch.special.i1e(x),
        (real(4, 6),),
        16,
        LAPACK,
    ),
    "digamma of positive numbers": Case(jax.scipy.special.digamma, torch.digamma, (positive(4, 6),), 40, LAPACK),
    "tan": Case(jnp.tan, torch.tan, (("unit", (4, 6)),), 8),
    "normal distribution": Case(lambda x: 1 - lax.erfc(x) / 2, lambda x: (1 + torch.erf(x)) / 2, (real(4, 6),), 9),
    "scatter_sub": Case(
        lambda x, y: lax.scatter_sub(x, jnp.array([[2], [0], [2]]), y, _ROWS),
        lambda x, y: x.index_add(0, torch.tensor([2, 0, 2]), -y),
        (real(4, 3), real(3, 3)),
        4,
    ),
    "while, of examples that end one after the other": Case(
        lambda x: jax.vmap(_repeated)(x, jnp.arange(1, 4)),
        lambda x: torch.stack([x[0].sin(), x[1].sin().sin(), x[2].sin().sin().sin()]),
        (real(3, 5),),
        2,
    ),
    "log2": Case(lambda x: jnp.log2(x), torch.log2, (positive(4, 6),), 16),
    "polynomial, by Horner's rule": Case(_polynomial, lambda x, c: (c[2] * x + c[1]) * x + c[0], POLYNOMIAL, 6),
    "polynomial, by powers": Case(_polynomial, lambda x, c: c[0] + c[1] * x + c[2] * x**2, POLYNOMIAL, 6),
    "erf, its gradient": Case(_gradient(lax.erf), _gradient_torch(torch.erf), (real(4, 6),) * 2, 16),
    "sinc": Case(jnp.sinc, torch.sinc, (("unit", (4, 6)),), 24),
    "erfcx": Case(lambda x: jax.scipy.special.erfcx(x), torch.special.erfcx, (positive(4, 6),), 24, LAPACK),
    "quantiles of the normal distribution": Case(
        jax.scipy.special.ndtri, torch.special.ndtri, (("unit", (4, 6)),), 40, LAPACK
    ),
    "det": Case(jnp.linalg.det, torch.linalg.det, MATRICES[:1], 12, LAPACK),
}


def cases(formats: tuple[Precision, ...]) -> pytest.MarkDecorator:
    each = [(name, case, p) for name, case in CASES.items() for p in case.formats if p in formats]
    params = [
        pytest.param(case, p, id=f"{name}-{p.name}", marks=() if p.name == "float32" else pytest.mark.slow)
        for name, case, p in each
    ]
    return pytest.mark.parametrize(("case", "precision"), params)


def arguments(case: Case, precision: Precision, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [precision.rounded(DOMAINS[domain].draw(rng, shape, {})) for domain, shape in case.inputs]


def judged(case: Case, args: list[np.ndarray], precision: Precision) -> Callable[[np.ndarray], Comparison]:
    of_any_choice = precision.with_any_choice  # where two numbers are equal: `kinks` takes no part here
    ((value, bound),) = bounded(jax.make_jaxpr(case.jax)(*args), *args, precision=of_any_choice)
    return lambda y: Comparison("y", y, value, bound)


def moved(case: Case, args: list[np.ndarray], roundings: float, precision: Precision, seed: int) -> np.ndarray:
    """What the function is at arguments that are so many roundings off, each entry by its own sign."""
    rng = np.random.default_rng(seed + 1000)
    signs = [_signs(rng, domain, x) for (domain, _), x in zip(case.inputs, args, strict=True)]
    moved = [jnp.asarray(x * (1 + roundings * precision.u * s)) for x, s in zip(args, signs, strict=True)]
    return np.asarray(case.jax(*moved))


def _signs(rng, domain, x):
    return np.sign(DOMAINS[domain].project(rng.standard_normal(x.shape)))


@rotating(5)
@fast(
    "sort-*",
    "median-*",
    "cummax-*",
    "cumprod-*",
    "max pooling-*",
    "triangular solve-*",
    "tan-*",
    "digamma of positive numbers-*",
)
@cases(ALL)
def test_right_code_meets_the_bound_and_the_bound_is_not_idle(case, precision):
    worst = 0.0
    for seed in range(SEEDS):
        args = arguments(case, precision, seed)
        compared = judged(case, args, precision)
        nearby = compared(moved(case, args, INPUT, precision, seed))
        y = case.torch(*(conversion.to_torch(x, precision, "cpu") for x in args)) if case.torch else None
        in_the_format = nearby if y is None else compared(conversion.to_numpy(y))
        assert in_the_format.error_over_bound <= 1, f"PyTorch, seed {seed}"
        assert nearby.error_over_bound <= 1, f"exact for inputs nearby, seed {seed}"
        assert in_the_format.evidence or precision.u > 1e-4, "the bound is so large that zeros would pass"
        worst = max(worst, in_the_format.error_over_bound, nearby.error_over_bound)
    # The bound of float64 covers the reference's own error, too, which is as large.
    slack = 1 / (worst * (1 + FLOAT64.u / precision.u))
    assert slack <= case.slack


@fast(
    "sort-*",
    "median-*",
    "cummax-*",
    "cumprod-*",
    "max pooling-*",
    "triangular solve-*",
    "tan-*",
    "digamma of positive numbers-*",
)
@cases(LAPACK)  # in 16 bits so many roundings are no small change
def test_a_few_times_what_rounding_explains_is_noticed(case, precision):
    roundings = 4 * case.slack * INPUT
    drawn = [arguments(case, precision, seed) for seed in range(SEEDS)]
    compared = [
        judged(case, args, precision)(moved(case, args, roundings, precision, i)) for i, args in enumerate(drawn)
    ]
    assert not all(comparison.holds for comparison in compared)


def test_a_loop_whose_end_rounding_may_change_is_not_followed():
    def halved(x, limit):
        return lax.while_loop(lambda c: c > limit, lambda c: c / 2, x)

    (at_once,) = bounded(
        jax.make_jaxpr(halved)(1.0, 0.3), np.array(1.0), np.array(0.3), precision=PRECISIONS["float32"]
    )
    assert at_once[0] == 0.25
    with pytest.raises(NoRule, match="while \\(its condition depends on a value that rounding may change\\)"):
        bounded(
            jax.make_jaxpr(halved)(1.0, 0.3), np.array(1.0), np.array(0.5 - 2**-26), precision=PRECISIONS["float32"]
        )


def test_a_matrix_that_is_singular_to_rounding_has_no_bound():
    a = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-24]])
    b = np.ones((2, 1))
    for f, args in ((jnp.linalg.solve, (a, b)), (jnp.linalg.cholesky, (a,)), (jnp.linalg.inv, (a,))):
        ((_, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=PRECISIONS["float32"])
        assert np.isinf(bound).any(), f
        ((_, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=PRECISIONS["float64"])
        assert np.isfinite(bound).all(), f


def test_what_stands_where_rounding_may_send_it_is_bounded_by_all_that_may_stand_there():
    keys, carried = np.array([1.0, 3.0, 1.0 + 2.0**-23]), np.array([10.0, 20.0, 40.0])
    jaxpr = jax.make_jaxpr(lambda x, y: lax.sort((x, y), num_keys=1))(keys, carried)
    (_, (values, bound)) = bounded(jaxpr, keys, carried, precision=PRECISIONS["float32"])
    assert values.tolist() == [10, 40, 20]
    np.testing.assert_allclose(bound, [30, 30, 0], atol=1e-4)
    (_, (_, bound)) = bounded(jaxpr, keys, carried, precision=PRECISIONS["float64"])
    np.testing.assert_allclose(bound, 0, atol=1e-13)


def test_what_is_read_where_rounding_may_point_is_bounded_by_all_between():
    x, y = np.array([1.0, 3.0, 1.0 + 2.0**-23]), np.array([10.0, 11.0, 40.0])
    jaxpr = jax.make_jaxpr(lambda x, y: y[jnp.argsort(x)])(x, y)
    ((_, bound),) = bounded(jaxpr, x, y, precision=PRECISIONS["float32"])
    np.testing.assert_allclose(bound, [30, 30, 0], atol=1e-4)


def test_a_window_whose_winner_rounding_may_change():
    x, y_bar = np.array([1.0, 1.0 + 2.0**-23, 0.5, 4.0]), np.array([3.0, 5.0])

    def pooled(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (2,), (2,), "VALID")

    ((_, bound),) = bounded(jax.make_jaxpr(_gradient(pooled))(x, y_bar), x, y_bar, precision=PRECISIONS["float32"])
    np.testing.assert_allclose(bound, [3, 3, 0, 0], atol=1e-5)


@pytest.mark.parametrize(
    ("f", "truth", "low", "high"),
    [
        pytest.param(lax.log1p, np.log1p, -0.5, 3, id="log1p"),
        pytest.param(lax.atanh, np.arctanh, -0.9, 0.9, id="atanh"),
        pytest.param(lax.sinh, np.sinh, -40, 40, id="sinh"),
        pytest.param(lax.cosh, np.cosh, -40, 40, id="cosh"),
        pytest.param(lax.exp2, np.exp2, -40, 40, id="exp2"),
        pytest.param(lax.tanh, np.tanh, -5, 5, id="tanh"),
        pytest.param(lax.expm1, np.expm1, -40, 5, id="expm1"),
    ],
)
def test_the_reference_itself_is_within_its_bound(f, truth, low, high):
    x = np.random.default_rng(0).uniform(low, high, 2000)
    ((value, _),) = bounded(jax.make_jaxpr(f)(x), x, precision=FLOAT64)
    exact = truth(x.astype(np.longdouble))
    assert (np.abs(value - exact) <= 8 * FLOAT64.u * np.abs(exact)).all()


@pytest.mark.parametrize("precision", ALL, ids=lambda p: p.name)
def test_a_constant_is_off_by_what_the_format_cannot_hold_of_it(precision):
    x = np.array([1.0, 0.0])
    ((value, bound),) = bounded(jax.make_jaxpr(lambda x: jnp.where(x > 0.5, 0.3, 0.25))(x), x, precision=precision)
    exact = np.abs(precision.rounded(value) - value)
    np.testing.assert_allclose(bound, exact, rtol=1e-2)
    assert bound[1] == 0
    assert (bound[0] > 0) == (precision is not FLOAT64)


def test_a_system_without_unknowns():
    a, b = np.zeros((0, 0)), np.zeros((0, 3))
    ((value, bound),) = bounded(jax.make_jaxpr(jnp.linalg.solve)(a, b), a, b, precision=FLOAT64)
    assert value.shape == bound.shape == (0, 3)


def test_what_a_mask_has_made_infinite_is_exact():
    x = np.array([[0.5, -1.0], [2.0, 3.0]])
    mask = np.array([[True, False], [False, False]])
    jaxpr = jax.make_jaxpr(lambda x: jnp.where(mask, 2 * x, -jnp.inf) - 1)(x)
    ((value, bound),) = bounded(jaxpr, x, precision=PRECISIONS["float32"])
    assert np.isneginf(value).tolist() == [[False, True], [True, True]]
    assert (bound[~mask] == 0).all()
    jaxpr = jax.make_jaxpr(lambda x: jax.nn.softmax(jnp.where(mask, x, -jnp.inf)))(x)
    ((value, bound),) = bounded(jaxpr, x, precision=PRECISIONS["float32"])
    assert (value[0], bound[0].tolist()) == (pytest.approx([1, 0]), pytest.approx([0, 0], abs=1e-5))
    assert bound[0, 1] == 0
    assert np.isinf(bound[1]).all()  # a row with everything masked is not defined


def test_equal_eigenvalues_leave_the_vectors_without_a_bound():
    a = np.diag([1.0, 1.0, 2.0])
    (_, of_values), (_, of_vectors) = bounded(jax.make_jaxpr(jnp.linalg.eigh)(a), a, precision=PRECISIONS["float32"])
    assert np.isfinite(of_values).all()
    assert np.isinf(of_vectors).all(0).tolist() == [True, True, False]


def test_a_product_that_float64_cannot_hold_has_underflowed():
    x = np.full(400, 0.1)
    ((value, bound),) = bounded(jax.make_jaxpr(jnp.cumprod)(x), x, precision=FLOAT64)
    assert (bound[value == 0] > 0).all()
