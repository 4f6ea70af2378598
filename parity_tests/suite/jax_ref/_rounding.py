"""A bound on the error of attn and its derivatives in low precision, entry by entry, from the roundings alone.

The formulas once more, in float64, on pairs of a value and of how far from it the rounded one may be. No constant is
chosen: u is half the distance of two neighbouring numbers at 1, and the error of tanh is measured on tanh by itself.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np


class Bounded(NamedTuple):
    value: np.ndarray
    error: np.ndarray

    @property
    def largest(self) -> np.ndarray:
        return np.abs(self.value) + self.error


class Rounding:
    """What each operation adds to the error, by the standard model: fl(x op y) = (x op y)(1 + δ) with |δ| ≤ u."""

    def __init__(self, dtype: str):
        self.u = float(jnp.finfo(dtype).eps) / 2  # of storage
        self.u_sum = float(jnp.finfo("float32").eps) / 2  # of arithmetic
        self.underflow = float(jnp.finfo(dtype).smallest_subnormal if dtype == "float16" else jnp.finfo("float32").tiny)

    def stored(self, x: Bounded) -> Bounded:
        extra = self.u * x.largest + self.underflow if self.u > self.u_sum else 0.0
        return Bounded(x.value, x.error + extra)

    def mm(self, subscripts: str, x: Bounded, y: Bounded) -> Bounded:
        terms = np.shape(x.value)[subscripts.index((set(subscripts[:2]) - set(subscripts[6:])).pop())]
        gamma = terms * self.u_sum / (1 - terms * self.u_sum)  # a sum of products, added in any order
        value = np.einsum(subscripts, x.value, y.value)
        largest = np.einsum(subscripts, x.largest, y.largest)
        factors = largest - np.einsum(subscripts, np.abs(x.value), np.abs(y.value))
        return Bounded(value, factors + gamma * largest)

    def add(self, *terms: Bounded) -> Bounded:
        total = terms[0]
        for x in terms[1:]:
            inherited = Bounded(total.value + x.value, total.error + x.error)
            total = Bounded(inherited.value, inherited.error + self.u_sum * inherited.largest)
        return total

    def mul(self, x: Bounded, y: Bounded) -> Bounded:
        largest = x.largest * y.largest
        return Bounded(x.value * y.value, largest - np.abs(x.value * y.value) + self.u_sum * largest)

    def tanh(self, x: Bounded) -> Bounded:
        value = np.tanh(x.value)
        # The slope is largest where the interval around x is nearest to 0.
        slope = 1 - np.tanh(np.maximum(np.abs(x.value) - x.error, 0)) ** 2
        inherited = Bounded(value, slope * x.error)
        return Bounded(value, inherited.error + tanh_error() * inherited.largest)

    # (1) to (18) of derivation/attn.md, as in jax_ref: where a factor or a result is stored, it is rounded.

    def D(self, A: Bounded) -> Bounded:
        one = Bounded(np.ones_like(A.value), np.zeros_like(A.value))
        return self.mul(self.add(one, Bounded(-A.value, A.error)), self.add(one, A))

    def primal(self, q, k, v):
        A = self.stored(self.tanh(self.mm("nd,md->nm", q, k)))
        return self.stored(self.mm("nm,me->ne", A, v)), A

    def jvp(self, q, k, v, q_dot, k_dot, v_dot):
        _, A = self.primal(q, k, v)
        T = self.add(self.mm("nd,md->nm", q_dot, k), self.mm("nd,md->nm", q, k_dot))
        A_dot = self.stored(self.mul(self.D(A), T))
        return self.stored(self.add(self.mm("nm,me->ne", A_dot, v), self.mm("nm,me->ne", A, v_dot))), A_dot

    def vjp(self, q, k, v, output_bar, attn_bar):
        _, A = self.primal(q, k, v)
        G = self.add(attn_bar, self.mm("ne,me->nm", output_bar, v))
        P = self.stored(self.mul(self.D(A), G))
        bars = self.mm("nm,md->nd", P, k), self.mm("nm,nd->md", P, q), self.mm("nm,ne->me", A, output_bar)
        return tuple(map(self.stored, bars))

    def jvp_of_vjp(self, q, k, v, output_bar, attn_bar, q_dot, k_dot, v_dot, output_bar_dot, attn_bar_dot):
        _, A = self.primal(q, k, v)
        _, A_dot = self.jvp(q, k, v, q_dot, k_dot, v_dot)
        D = self.D(A)
        G = self.add(attn_bar, self.mm("ne,me->nm", output_bar, v))
        P = self.stored(self.mul(D, G))
        G_dot = self.add(attn_bar_dot, self.mm("ne,me->nm", output_bar_dot, v), self.mm("ne,me->nm", output_bar, v_dot))
        AA_dot = self.mul(A, A_dot)
        D_dot = Bounded(-2 * AA_dot.value, 2 * AA_dot.error)
        P_dot = self.stored(self.add(self.mul(D_dot, G), self.mul(D, G_dot)))
        bars_dot = (
            self.add(self.mm("nm,md->nd", P_dot, k), self.mm("nm,md->nd", P, k_dot)),
            self.add(self.mm("nm,nd->md", P_dot, q), self.mm("nm,nd->md", P, q_dot)),
            self.add(self.mm("nm,ne->me", A_dot, output_bar), self.mm("nm,ne->me", A, output_bar_dot)),
        )
        return tuple(map(self.stored, bars_dot))


@functools.cache
def tanh_error() -> float:
    """The relative error of JAX's float32 tanh, measured on tanh; doubled, for what lies between the points."""
    x = np.geomspace(2.0**-20, 16.0, 200_001).astype("float32")
    exact = np.tanh(x.astype("float64"))
    return 2 * float(np.max(np.abs(np.asarray(jnp.tanh(x), "float64") - exact) / exact))


def error_over_bound(results: tuple, truth: tuple, bounds: tuple[Bounded, ...]) -> float:
    """The largest ratio of an entry's error to its bound, over all results."""
    ratios = []
    for x, reference, bound in zip(results, truth, bounds, strict=True):
        reference = np.asarray(reference)
        assert np.any(reference)
        np.testing.assert_allclose(bound.value, reference, rtol=1e-10, atol=1e-10 * np.max(np.abs(reference)))
        ratios.append(np.max(np.abs(np.asarray(x).astype("float64") - reference) / bound.error))
    return float(max(ratios))
