"""Rounding errors of what depends on the order of its operands: sorting, running and windowed extrema.

These are monotone: x - E <= x' <= x + E gives f(x - E) <= f(x') <= f(x + E) entry by entry, and f itself does not
round. What is carried along (an index, a tangent, a cotangent) goes wherever rounding may send it: its bound covers
every entry that may stand in its place.

Between exactly equal keys the oracle's choice stands: the point is a kink or a jump, and `kinks` says which other
choices are right, which no bound can (each of two equal entries may have the whole gradient of their maximum, but not
both). Keys that are equal in a whole neighborhood, such as the zeros of a relu, make no kink. For those
`Precision.any_choice` asks for a bound that covers every choice.
"""

from __future__ import annotations

import itertools
import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import primitives as of_jax

from parity_tests.harness.primitives.bound.terms import in_place, most_equal, unless_part_overflows
from parity_tests.harness.primitives.exact.arrays import cumulative, larger, smaller
from parity_tests.harness.primitives.field import orders
from parity_tests.harness.primitives.registry import Kind, Terms, primitive
from parity_tests.harness.primitives.value.evaluated import evaluated
from parity_tests.harness.primitives.value.functions import along, of_one_real, where
from parity_tests.harness.primitives.value.indexing import may_combine, may_sort, scattered, sorted_by_one


@primitive(
    of_jax.cummax_p, kinds=Kind.MONOTONE, value=of_one_real(along(np.maximum.accumulate)), exact=cumulative(larger)
)
@primitive(
    of_jax.cummin_p, kinds=Kind.MONOTONE, value=of_one_real(along(np.minimum.accumulate)), exact=cumulative(smaller)
)
@primitive(of_jax.reduce_window_max_p, of_jax.reduce_window_min_p, kinds=Kind.MONOTONE)
@primitive(of_jax.scatter_max_p, kinds=Kind.MONOTONE, value=where(may_combine, scattered(np.maximum)))
@primitive(of_jax.scatter_min_p, kinds=Kind.MONOTONE, value=where(may_combine, scattered(np.minimum)))
def monotone(eqn, x, e, y, p):
    """The rule of a function that is monotone in its floating-point operands, and exact."""
    y, low, high = (
        np.asarray(evaluated(eqn, *(a + sign * b for a, b in zip(x, _of_floats(x, e), strict=True))))
        for sign in (0, -1, 1)
    )
    # An extremum over nothing is infinite, and exactly so.
    return np.where(low == high, 0.0, np.maximum(high - y, y - low))


_OF_WINDOW = Terms(
    lambda eqn, x, *, window_dimensions: math.prod(window_dimensions),
    lambda eqn, x, K, p: float(K * min(K, most_equal(x[0], p.u_acc))),
)


def _of_floats(x, e):
    return [b if a.dtype.kind == "f" else np.zeros(a.shape, a.dtype) for a, b in zip(x, e, strict=True)]


def _sorted(mp, eqn, *x, dimension, num_keys):
    if num_keys != 1:
        raise NotImplementedError("a sort by several keys in extended precision")
    if x[0].dtype == object and (x[0] != x[0]).any():
        raise NotImplementedError("a sort of NaN in extended precision")
    order = np.argsort(x[0], dimension, kind="stable")
    return [np.take_along_axis(a, order, dimension) for a in x]


@primitive(of_jax.sort_p, value=where(may_sort, sorted_by_one), exact=_sorted, field=orders.in_order)
def sort(eqn, x, e, y, p, *, dimension, num_keys):
    if num_keys > 1:  # by several keys in turn: no bound, unless nothing can move
        certain = not any(np.any(b) for b in e[:num_keys])
        return [*y] if certain and not any(map(np.any, e)) else [np.full(a.shape, np.inf) for a in y]
    key, error = (np.moveaxis(a, dimension, -1) for a in (x[0], e[0]))
    low, high = np.sort(key - error), np.sort(key + error)
    bounds = [np.maximum(high - np.sort(key), np.sort(key) - low)]
    may = _may_stand(key, error, low, high, p)
    bounds += [
        _carried(*(np.moveaxis(a, dimension, -1) for a in carried), may=may)
        for carried in zip(x[1:], y[1:], e[1:], strict=True)
    ]
    return [np.moveaxis(b, -1, dimension) for b in bounds]


@primitive(of_jax.top_k_p)
def top_k(eqn, x, e, y, p, *, axis, k):
    key, error = (np.moveaxis(-a if sign else a, axis, -1) for sign, a in ((True, x[0]), (False, e[0])))
    low, high = (np.sort(a)[..., :k] for a in (key - error, key + error))
    values, indices = (np.moveaxis(a, axis, -1) for a in y)
    may = _may_stand(key, error, low, high, p)
    positions = np.broadcast_to(np.arange(key.shape[-1]), key.shape)
    bounds = [np.maximum(high + values, -values - low), _carried(positions, indices, np.zeros(key.shape), may)]
    return [np.moveaxis(b, -1, axis) for b in bounds]


def _may_stand(key, error, low, high, p):
    """[..., k, j] is true if entry j, whose key lies between low and high, may stand in place k.

    No entry is in question where all of those that may stand there have exactly the same key: see above.
    """
    may = ((key - error)[..., None, :] <= high[..., :, None]) & ((key + error)[..., None, :] >= low[..., :, None])
    if p.any_choice or not may.size:
        return may
    stands = np.sort(key)[..., : low.shape[-1], None]
    return may & (may & (key[..., None, :] != stands)).any(-1, keepdims=True)


def _carried(values, stands, error, may):
    """The bound of what stands in each place, if any of the entries that may stand there does."""
    if not values.shape[-1]:
        return np.zeros(stands.shape)
    change = np.abs(values[..., None, :] * 1.0 - stands[..., :, None]) + error[..., None, :]
    return np.where(may, change, 0.0).max(-1)


# Windows: pooling, and its derivatives.


@primitive(of_jax.reduce_window_sum_p, kinds=Kind.SUM, terms=_OF_WINDOW)
def window_sum(eqn, x, e, y, p, *, window_dimensions):
    def summed(a):
        return np.asarray(evaluated(eqn, a))

    K = math.prod(window_dimensions)
    magnitude = summed(np.abs(x[0]))
    bound = summed(e[0]) + in_place(K, x[0], p.u_acc) * magnitude + p.u * np.abs(y)
    return unless_part_overflows(bound, magnitude, y, p)


class _Windows:
    """The entries that each window of an array sees, one array for each place in the window."""

    def __init__(self, shape, size, strides, padding) -> None:
        self.shape, self.size, self.strides, self.padding = shape, size, strides, padding
        self.padded = tuple(n + a + b for n, (a, b) in zip(shape, self.padding, strict=True))
        self.count = tuple((n - w) // s + 1 for n, w, s in zip(self.padded, self.size, self.strides, strict=True))

    def _places(self):
        for start in itertools.product(*map(range, self.size)):
            yield tuple(
                slice(a, a + s * (n - 1) + 1, s) for a, s, n in zip(start, self.strides, self.count, strict=True)
            )

    def seen(self, x, fill):
        """The entries of every window along a new first axis; `fill` where a window lies outside of x."""
        whole = np.asarray(lax.pad(jnp.asarray(x), jnp.asarray(fill, x.dtype), [(a, b, 0) for a, b in self.padding]))
        return np.stack([whole[place] for place in self._places()])

    def gathered(self, parts):
        """The transpose: what each entry gets from all windows that see it."""
        whole = np.zeros(self.padded)
        for place, part in zip(self._places(), parts, strict=True):
            whole[place] += part
        return whole[tuple(slice(a, a + n) for n, (a, _) in zip(self.shape, self.padding, strict=True))]


def _may_win(windows, operand, error, select_prim, p):
    """The entries of each window that may be selected, and the windows in which several may be."""
    sign = 1 if select_prim.name in ("ge", "gt") else -1
    seen, unsure = windows.seen(sign * operand, -np.inf), windows.seen(error, 0.0)
    may = seen + unsure >= (seen - unsure).max(0)
    others = may.sum(0) > 1 if p.any_choice else (may & (seen != seen.max(0))).any(0)
    return may, others


@primitive(of_jax.select_and_gather_add_p)
def select_and_gather_add(
    eqn, x, e, y, p, *, select_prim, window_dimensions, window_strides, padding, base_dilation, window_dilation
):
    (tangents, operand), (e_tangents, e_operand) = x, e
    if {*base_dilation, *window_dilation} != {1}:
        return np.full(y.shape, np.inf)
    windows = _Windows(operand.shape, window_dimensions, window_strides, padding)
    may, open_ = _may_win(windows, operand, e_operand, select_prim, p)
    change = np.where(open_, np.abs(windows.seen(tangents, 0.0) - y), 0.0) + windows.seen(e_tangents, 0.0)
    return np.where(may, change, 0.0).max(0)


@primitive(of_jax.select_and_scatter_add_p)
def select_and_scatter_add(eqn, x, e, y, p, *, select_prim, window_dimensions, window_strides, padding):
    (source, operand), (e_source, e_operand) = x, e
    windows = _Windows(operand.shape, window_dimensions, window_strides, padding)
    may, open_ = _may_win(windows, operand, e_operand, select_prim, p)
    passed_on = windows.gathered(may * (e_source + np.where(open_, np.abs(source), 0.0)))
    # Added up where it is stored, as by scatter-add.
    terms, magnitude = windows.gathered(may), windows.gathered(may * np.abs(source))
    return unless_part_overflows(passed_on + in_place(terms, source, p.u) * magnitude, magnitude, y, p)
