"""The bounds of what signs, indices and branches are made of, and of partial sums that overflow."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.formats import COMPLEX, PRECISIONS, Precision
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.primitives.bits import logic
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.suite.marks import fast

F32, F16 = PRECISIONS["float32"], PRECISIONS["float16"]
SEEDS = 25
formats = pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


def bound_of(f: Callable, *args: np.ndarray, precision: Precision = F32) -> tuple[np.ndarray, np.ndarray]:
    ((value, bound),) = bounded(jax.make_jaxpr(f)(*args), *args, precision=precision)
    return value, bound


def largest_error(f: Callable, in_torch: Callable, args: list[np.ndarray], precision: Precision) -> float:
    """Of PyTorch's result, over the bound."""
    y = conversion.to_numpy(in_torch(*(conversion.to_torch(x, precision, "cpu") for x in args)))
    return Comparison("y", y, *bound_of(f, *args, precision=precision)).error_over_bound


def _twice_if_negative(x):
    return jnp.where(jnp.signbit(x), 2 * x, jnp.exp(x))


REAL = {
    "signbit": (_twice_if_negative, lambda x: torch.where(torch.signbit(x), 2 * x, x.exp()), 10),
    "copysign": (lambda x: jnp.copysign(jnp.exp(x), x), lambda x: torch.copysign(x.exp(), x), 10),
    "an index": (
        lambda x: x[jnp.int32(2 + jnp.floor(0.25 * x[0] / (1 + x[0] * x[0])))] ** 2,
        lambda x: x[(2 + torch.floor(0.25 * x[0] / (1 + x[0] * x[0]))).long()] ** 2,
        4,
    ),
}


@fast("signbit-bfloat16", "copysign-bfloat16")
@formats
@pytest.mark.parametrize("name", REAL)
def test_right_code_meets_the_bound_and_the_bound_is_not_idle(name: str, precision: Precision):
    f, in_torch, slack = REAL[name]
    worst = 0.0
    for seed in range(SEEDS):
        x = precision.rounded(np.random.default_rng(seed).standard_normal(8))
        error = largest_error(f, in_torch, [x], precision)
        assert error <= 1, seed
        # The function itself, for inputs that are two roundings off.
        nearby = np.asarray(f(jnp.asarray(x * (1 + 2 * precision.u))))
        moved = Comparison("y", nearby, *bound_of(f, x, precision=precision)).error_over_bound
        assert moved <= 1, seed
        worst = max(worst, error, moved)
        assert not Comparison("y", -nearby, *bound_of(f, x, precision=precision)).holds
    assert 1 / worst <= slack


@pytest.mark.parametrize("precision", COMPLEX.values(), ids=COMPLEX)
def test_the_sign_of_complex_numbers(precision: Precision):
    def f(z):
        return jnp.sign(z * z)

    worst = 0.0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        z = precision.rounded(rng.standard_normal(8) + 1j * rng.standard_normal(8))
        error = largest_error(f, lambda z: torch.sgn(z * z), [z], precision)
        assert error <= 1, seed
        u = precision.u
        moved = Comparison("y", np.asarray(f(jnp.asarray(z * (1 + 2j * u)))), *bound_of(f, z, precision=precision))
        assert moved.holds, seed
        worst = max(worst, error, moved.error_over_bound)
        wrong = Comparison("y", np.conj(np.sign(z * z)), *bound_of(f, z, precision=precision))
        assert not wrong.holds
    assert 1 / worst <= 16


def test_a_complex_number_that_may_be_zero_may_have_any_sign():
    z = np.array([1.0 + 1j, 0.0])
    _, bound = bound_of(lambda z: jnp.sign((z + 1) - 1), z, precision=COMPLEX["complex64"])
    assert bound[0] < 1e-5
    assert bound[1] == pytest.approx(2)


def test_a_sign_that_rounding_may_change_is_not_certain():
    x = np.array([1.0, 1.0 + 2.0**-23, 2.0])
    value, bound = bound_of(lambda x: jnp.copysign(3.0, (x - 1 / 3) - 2 / 3), x)
    assert np.abs(value).tolist() == [3, 3, 3]
    np.testing.assert_allclose(bound, [6, 6, 0], atol=1e-5)


def test_a_fraction_that_is_cut_off():
    def f(x):
        return (0.1 * x).astype(jnp.int32).astype(x.dtype)

    _, bound = bound_of(f, np.array([25.0, 30.0 + 1e-7, -19.999999]))
    np.testing.assert_allclose(bound, [0, 1, 1], rtol=1e-6)
    _, bound = bound_of(lambda x: jnp.where((x - 1).astype(bool), 1.0, 0.0), np.array([2.0, 1 + 2.0**-23]))
    np.testing.assert_allclose(bound, [0, 1], rtol=1e-6)


@pytest.mark.parametrize("n", [4, 8, 25])
def test_a_quantile_between_two_entries(n: int):
    def f(x):
        return jnp.quantile(x, 0.3, axis=-1)

    for seed in range(SEEDS):
        x = F32.rounded(np.random.default_rng(seed).standard_normal((3, n)))
        _, bound = bound_of(f, x)
        assert np.isfinite(bound).all()
        assert largest_error(f, lambda x: torch.quantile(x, 0.3, dim=-1), [x], F32) <= 1


def test_the_bits_of_an_uncertain_number_are_not_masked():
    with pytest.raises(NoRule, match="of the bits of an integer"):
        bound_of(lambda x: (lax.bitcast_convert_type(x, jnp.int64) & 1).astype(x.dtype), np.array([0.5]))


# Branches.


def _branches(x):
    return lax.cond(x[0] * x[1] > x[2], jnp.sin, lambda x: 2 * jnp.sin(x), x)


def test_of_two_branches_that_rounding_may_choose_both_are_right():
    near = np.array([0.5, 0.5 + 1e-7, 0.25])
    value, bound = bound_of(_branches, near)
    for factor in 1, 2:
        assert Comparison("y", factor * np.sin(near), value, bound).holds
    for factor in -1, 3:
        assert not Comparison("y", factor * np.sin(near), value, bound).holds
    value, bound = bound_of(_branches, np.array([0.5, 0.5, 3.0]))
    assert (bound < 1e-6).all()


def test_of_several_branches_only_those_that_rounding_may_choose():
    def f(x, y):
        constants = [lambda y, c=c: c * y for c in (1.0, 2.0, 4.0, 8.0)]
        return lax.switch(jnp.int32(jnp.floor(x / 3 * 3)), constants, y)

    y = np.array([1.0])
    for x, low, high in ((0.5, 1, 1), (1.0, 1, 2), (2.5, 4, 4), (3.5, 8, 8)):
        value, bound = bound_of(f, np.array(x), y)
        near = [c for c in (1, 2, 4, 8) if Comparison("y", np.array([c * 1.0]), value, bound).holds]
        assert low in near
        assert high in near
        assert max(near) <= 2 * high


# Partial sums.


SUMS = {
    "sum": lambda x: x.sum(),
    "dot": lambda x: x @ jnp.ones_like(x),
    "cumsum": lambda x: jnp.cumsum(x)[-1],
    "convolution": lambda x: jnp.convolve(x, jnp.ones_like(x), "valid")[0],
    "scatter-add": lambda x: jnp.zeros(2).at[jnp.zeros(4, int)].add(x)[0],
    "window": lambda x: lax.reduce_window(x, 0.0, lax.add, (4,), (1,), "VALID")[0],
    "sum of sums": lambda x: x[:2].sum() + x[2:].sum(),
}


@pytest.mark.parametrize("f", SUMS.values(), ids=SUMS)
def test_a_sum_that_fits_and_whose_parts_do_not_cannot_be_judged(f: Callable):
    x = np.array([3e4, -2e4, 4e4, -3e4])
    value, bound = bound_of(f, x, precision=F16)
    assert value == 2e4
    assert np.isinf(bound)
    in_turn = np.float16(0)
    with np.errstate(over="ignore"):
        for entry in np.sort(x)[::-1]:  # a right order, of which the first two overflow
            in_turn = np.float16(in_turn + np.float16(entry))
    assert np.isinf(in_turn)
    assert Comparison("y", np.asarray(in_turn, np.float64), value, bound).error_over_bound <= 1
    for other, precision in ((x / 2, F16), (x, F32)):
        _, bound = bound_of(f, other, precision=precision)
        assert np.isfinite(bound)


def test_a_number_read_as_an_integer_is_off_by_its_spacings():
    """Of 2⁵² and more, which a float64 does not tell apart."""
    x = np.array([1.0, -3.0])
    (value, bound), *_ = bounded(
        jax.make_jaxpr(lambda x: lax.bitcast_convert_type(x, np.uint64))(x), x, precision=PRECISIONS["float64"]
    )
    moved = np.array([1 + 2.0**-52, -3 - 2.0**-51]).view(np.uint64) - value
    assert (moved.astype(float) <= bound).all()
    assert moved.all()
    assert (bound <= 8).all()


def test_a_mask_of_the_last_bits_rounds_a_number_to_fewer():
    kept = np.uint64(2**64 - 2**27)

    def halved(x):
        bits = lax.bitcast_convert_type(x, np.uint64)
        return lax.bitcast_convert_type(bits & kept, x.dtype)

    x = np.array([1.0, 1 + 2.0**-25, -1.0, 0.7])
    value, bound = bound_of(halved, x, precision=PRECISIONS["float64"])
    np.testing.assert_array_equal(value, (x.view(np.uint64) & kept).view(float))
    # Only what ends with zeros may be rounded to less than itself.
    np.testing.assert_array_equal(bound > 0, [True, True, True, False])
    nearby = (np.nextafter(x, 0).view(np.uint64) & kept).view(float)
    assert (np.abs(nearby - value) <= bound).all()
    _, bound = bound_of(halved, x, precision=F32)
    assert (bound < 2**-21).all()
    assert (bound >= 2**-24).all()


@pytest.mark.parametrize("mask", [0x7FF0000000000000, 0xF], ids=["exponent", "last bits"])
def test_other_masks_of_what_rounding_may_change_have_no_bound(mask):
    def masked(x):
        return (lax.bitcast_convert_type(x, np.uint64) & np.uint64(mask)).astype(float)

    with pytest.raises(NoRule, match="of the bits of an integer that rounding may change"):
        bound_of(masked, np.array([0.7]))


def test_bits_of_a_number_whose_sign_is_unknown_are_no_number():
    _, bound = bound_of(
        lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type((x + 1) - 1, np.int64), np.float64),
        np.array([0.0, 2.0]),
    )
    assert bound[0] == np.inf
    assert bound[1] < 1e-5


def test_integers_that_are_exact_have_exact_bits():
    x = np.array([3.0, 5.0])
    _, bound = bound_of(lambda x: x * (jnp.arange(1, 3) << 2), x)
    assert (bound < 1e-5).all()
    with pytest.raises(NoRule, match="shift_left"):
        bound_of(lambda x: (jnp.floor(x * x).astype(int) << 2) * x, np.array([1 / 3, 3**0.5]))


def test_the_next_number_is_one_spacing_of_the_format_away():
    x = np.array([1.0, 0.7])
    value, bound = bound_of(lambda x: lax.nextafter(x, jnp.full(2, 9.0)), x)
    in_float32 = np.nextafter(x.astype(np.float32), np.float32(9)).astype(float)
    assert Comparison("y", in_float32, value, bound).holds
    assert not Comparison("y", x + 1e-5, value, bound).holds


def test_masks_of_which_one_is_broadcast():
    """As in jnp.fmax of a matrix and a row; a mask that is true for certain settles the result."""
    mask, row = np.array([[True, False, True]] * 2), np.array([[False, False, True]])
    (eqn,) = jax.make_jaxpr(lax.bitwise_or)(mask, row).eqns
    may_change = [np.ones(mask.shape), np.zeros(row.shape)]
    assert logic(eqn, [mask, row], may_change, mask | row, F32).tolist() == [[1.0, 1.0, 0.0]] * 2
