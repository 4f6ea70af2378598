"""Sums and products of many terms: contractions, running sums and products, convolutions."""

from __future__ import annotations

import math

import numpy as np
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives.bound import complex as rounding_complex
from parity_tests.harness.primitives.bound.base import ELEMENTARY, largest_factor, unless_part_of_product_overflows
from parity_tests.harness.primitives.bound.terms import (
    equal_pairs,
    pairs_along,
    pairs_of_contraction,
    pairs_of_convolution,
    unless_part_overflows,
)
from parity_tests.harness.primitives.exact.arrays import as_array, cumulative, reduced
from parity_tests.harness.primitives.field import functions
from parity_tests.harness.primitives.registry import BY_MODULUS, Kind, Terms, primitive
from parity_tests.harness.primitives.value.convolutions import convolved
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.functions import all_floating, along, of_one_real, where
from parity_tests.harness.primitives.value.products import as_matrices, contracted, product


def _along_axes(eqn, x, *, axes):
    return math.prod(x[0].shape[axis] for axis in axes)


def _equal_along_axes(eqn, x, K, p, *, axes):
    return pairs_along(x[0], axes, p.u_acc)


def _of_one_window(eqn, x, *, dimension_numbers):
    """The number of terms of a convolution: the places of a window times the channels of one group."""
    of_features = dimension_numbers.rhs_spec[0]
    return math.prod(size for axis, size in enumerate(x[1].shape) if axis != of_features)


def _equal_in_windows(eqn, x, K, p, *, dimension_numbers):
    features = dimension_numbers.rhs_spec[0], dimension_numbers.out_spec[1]
    return pairs_of_convolution(x[0], x[1], features, p)


_OF_CONTRACTION = Terms(
    lambda eqn, x, *, dimension_numbers: math.prod([x[0].shape[axis] for axis in dimension_numbers[0][0]]),
    lambda eqn, x, K, p, *, dimension_numbers: pairs_of_contraction(x[0], x[1], dimension_numbers, p),
)
_OF_SUM = Terms(_along_axes, _equal_along_axes)
_OF_CUMULATIVE_SUM = Terms(
    lambda eqn, x, *, axis: x[0].shape[axis],
    lambda eqn, x, K, p, *, axis: equal_pairs(x[0], (axis,), p.u_acc),
)
_OF_CONVOLUTION = Terms(_of_one_window, _equal_in_windows)
SUM = Kind.SUM | Kind.LINEAR | Kind.HOMOGENEOUS


def _exact_contraction(mp, eqn, x, y, **params):
    (axes, _), _ = params["dimension_numbers"]
    if not all(x.shape[axis] for axis in axes):
        return as_array(np.full(eqn.outvars[0].aval.shape, mp.zero, object))
    return as_array(contracted(x, y, **params))


@primitive(
    of_jax.dot_general_p,
    kinds=Kind.SUM | Kind.BILINEAR,
    complex=BY_MODULUS,
    terms=_OF_CONTRACTION,
    value=where(all_floating, contracted),
    exact=_exact_contraction,
)
def contraction(eqn, x, e, y, p, *, dimension_numbers):
    (axes, _), _ = dimension_numbers
    K, complex_numbers = math.prod([x[0].shape[axis] for axis in axes]), y.dtype.kind == "c"
    X, Y = np.abs(x[0]), np.abs(x[1])
    layout = as_matrices(X.shape, Y.shape, dimension_numbers)
    magnitude = product(X, Y, layout)
    passed_on = product(X, e[1], layout) + product(e[0], Y + e[1], layout)
    pairs = pairs_of_contraction(x[0], x[1], dimension_numbers, p)
    own = (math.sqrt(2) * p.gamma(2 * K, pairs) if complex_numbers else p.gamma(K, pairs)) * magnitude
    lost = (rounding_complex.PRODUCT if complex_numbers else 1) * K * p.tiny
    if np.count_nonzero(magnitude) < magnitude.size:
        lost = np.where(magnitude == 0, 0.0, lost)
    bound = passed_on + own + p.u * np.abs(y) + lost
    return unless_part_overflows(bound, magnitude, y, p)


# Of NumPy's functions of these names the calls of the ufuncs are all; they take less than half the time.
@primitive(
    of_jax.reduce_sum_p,
    kinds=SUM,
    complex=BY_MODULUS,
    terms=_OF_SUM,
    value=of_one_real(lambda x, axes, **_: np.add.reduce(x, tuple(axes))),
    exact=reduced(lambda mp, a, b: a + b, lambda mp: mp.zero),
)
def sum(eqn, x, e, y, p, *, axes):
    K = math.prod([x[0].shape[axis] for axis in axes])
    magnitude = np.add.reduce(np.abs(x[0]), axes)
    own = p.gamma(K, pairs_along(x[0], axes, p.u_acc)) * magnitude
    return unless_part_overflows(np.add.reduce(e[0], axes) + own + p.u * np.abs(y), magnitude, y, p)


@primitive(
    of_jax.cumsum_p,
    kinds=SUM,
    complex=BY_MODULUS,
    terms=_OF_CUMULATIVE_SUM,
    value=of_one_real(along(np.cumsum)),
    exact=cumulative(lambda mp, a, b: a + b),
)
def cumulative_sum(eqn, x, e, y, p, *, axis):
    def running(a):
        return np.asarray(evaluated(eqn, a))

    magnitude = running(np.abs(x[0]))
    own = p.gamma(x[0].shape[axis], equal_pairs(x[0], (axis,), p.u_acc)) * magnitude
    return unless_part_overflows(running(e[0]) + own + p.u * np.abs(y), magnitude, y, p)


@primitive(
    of_jax.reduce_prod_p,
    kinds=Kind.PRODUCT,
    value=of_one_real(lambda x, axes, **_: np.multiply.reduce(x, tuple(axes))),
    exact=reduced(lambda mp, a, b: a * b, lambda mp: mp.one),
    field=functions.product_along,
)
def product_of_all(eqn, x, e, y, p, *, axes):
    K = math.prod(x[0].shape[axis] for axis in axes)
    grown = (np.abs(x[0]) + e[0]).prod(axes) - np.abs(x[0]).prod(axes)
    # In whatever order: see `rounding.products`.
    lost = np.where((x[0] == 0).any(axes), 0.0, K * p.tiny * np.maximum(np.abs(x[0]), 1.0).prod(axes))
    bound = grown + K * p.u * np.abs(y) + lost
    return unless_part_of_product_overflows(bound, largest_factor(x[0], e[0], p, p.largest).prod(axes), p)


@primitive(
    of_jax.cumprod_p,
    kinds=Kind.PRODUCT,
    value=of_one_real(along(np.cumprod)),
    exact=cumulative(lambda mp, a, b: a * b),
    field=functions.running_product,
)
def cumulative_product(eqn, x, e, y, p, *, axis, reverse):
    def running(a):
        return np.asarray(evaluated(eqn, a))

    terms = along(np.cumsum)(np.ones_like(x[0]), axis, reverse)  # how many factors
    # In whatever order: see `rounding.products`.
    lost = np.where(running((x[0] != 0) * 1.0) == 0, 0.0, p.tiny * running(np.maximum(np.abs(x[0]), 1.0)))
    bound = running(np.abs(x[0]) + e[0]) - np.abs(y) + terms * (p.u * np.abs(y) + lost)
    return unless_part_of_product_overflows(bound, running(largest_factor(x[0], e[0], p, p.largest)), p)


@primitive(of_jax.cumlogsumexp_p, kinds=Kind.MONOTONE)
def cumulative_log_sum_exp(eqn, x, e, y, p, *, axis, reverse):
    def running(a):
        return np.asarray(evaluated(eqn, a))

    passed_on = np.maximum(running(x[0] + e[0]) - y, y - running(x[0] - e[0]))
    # y = m + log Σ exp(x - m), m the running maximum. The exponents round by u |x - m| each, which the sum averages by
    # the weights exp(x - y): to at most log K, since Σ p_i |x_i - m| is the entropy of p less y - m.
    K = x[0].shape[axis]
    m = along(np.maximum.accumulate)(x[0], axis, reverse)
    pairs = equal_pairs(np.exp(x[0] - x[0].max(axis, keepdims=True, initial=-np.inf)), (axis,), p.u_acc)
    of_sum = p.gamma(K, pairs) + 2 * p.u + ELEMENTARY * p.u_acc + p.u * math.log(max(K, 1))
    return passed_on + of_sum + (2 * p.u + ELEMENTARY * p.u_acc) * (np.abs(y - m) + np.abs(y))


@primitive(
    of_jax.conv_general_dilated_p,
    kinds=Kind.SUM | Kind.BILINEAR,
    terms=_OF_CONVOLUTION,
    value=where(all_floating, convolved),
    exact=lambda mp, eqn, x, w, **params: as_array(convolved(x, w, **params)),
)
def convolution(eqn, x, e, y, p, *, dimension_numbers):
    def of(a, b):
        return np.asarray(evaluated(eqn, a, b))

    X, Y = np.abs(x[0]), np.abs(x[1])
    K = int(of(np.ones_like(X), np.ones_like(Y)).max(initial=0))
    magnitude = of(X, Y)
    passed_on = of(X, e[1]) + of(e[0], Y + e[1])
    own = p.gamma(K, _equal_in_windows(eqn, [X, x[1]], K, p, dimension_numbers=dimension_numbers)) * magnitude
    bound = passed_on + own + p.u * np.abs(y) + np.where(magnitude == 0, 0.0, K * p.tiny)
    return unless_part_overflows(bound, magnitude, y, p)
