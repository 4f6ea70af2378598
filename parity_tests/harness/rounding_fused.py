"""What a sum loses that has another sum as a term, and that right code adds up in one go.

`c + a @ b` is one instruction of BLAS (addmm, addmv, a linear layer): its accumulator starts at c, so that all partial
sums round relative to c, too. Whoever computes a @ b first and adds c at the end rounds relative to c once. Where c is
large the first loses more, and it is as right. So a sum that has a contraction of K terms among its own is a
contraction of all of them, in the order that is worst:

    E(c + Σ t_k)  is at least  γ_K+1 (|c| + Σ |t_k|)

For every variable that is such a sum, its number of terms, the sum M of their magnitudes, and how much of γ_K M its
bound holds already are carried along: from one sum to the next, through what only moves numbers, through factors, by
which the terms may have been multiplied instead, and through calls.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.precision import Precision
from parity_tests.harness.rounding_elementary import evaluated
from parity_tests.harness.rounding_products import MOVES, SUMS, UNSIGNED

CONTRACTIONS = ("dot_general", "conv_general_dilated", "reduce_sum", "cumsum", "reduce_window_sum")
_CARRIED = ("mul", "div", *MOVES, *UNSIGNED, "select_n")


class Sum:
    """A sum of so many terms: the sum of their magnitudes, and what its bound has been charged of γ for them.

    Most results of contractions are never added to anything, so both are computed when they are first asked for.
    """

    def __init__(self, terms: int, compute: Callable[[], tuple[np.ndarray, np.ndarray]]) -> None:
        self.terms = terms
        self._compute = compute

    @functools.cached_property
    def _sizes(self) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            return self._compute()

    @property
    def magnitude(self) -> np.ndarray:
        return self._sizes[0]

    @property
    def charged(self) -> np.ndarray:
        return self._sizes[1]


class Sums:
    """Those among the variables of one jaxpr: what is not known by its variable is a number by itself."""

    def __init__(self) -> None:
        self._known: dict[core.Var, Sum] = {}

    def entering(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr) -> Sums:
        """Those among the arguments of a jaxpr that an equation calls."""
        inner = Sums()
        inner._take(self, eqn.invars, jaxpr.invars)
        return inner

    def leaving(self, eqn: core.JaxprEqn, jaxpr: core.Jaxpr, inner: Sums) -> None:
        """Remember those among the results of the call."""
        self._take(inner, jaxpr.outvars, eqn.outvars)

    def _take(self, other: Sums, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        for source, target in zip(sources, targets, strict=True):
            known = other._of(source)
            if known is not None:
                self._known[target] = known

    def _of(self, atom: Any) -> Sum | None:
        return None if isinstance(atom, core.Literal) else self._known.get(atom)

    def lost(self, eqn: core.JaxprEqn, read: Callable[[Any], tuple], precision: Precision) -> np.ndarray | float:
        """What the result of an equation may have lost besides what its rule counts; the result is remembered."""
        name = eqn.primitive.name
        known = [self._of(atom) for atom in eqn.invars]
        if name not in CONTRACTIONS and not any(known):
            return 0.0
        x = [read(atom)[0] for atom in eqn.invars]
        if len(eqn.outvars) > 1 or any(a.dtype.kind not in "fc" for a in x[name == "select_n" :]):
            return 0.0
        (result,) = eqn.outvars
        if name in CONTRACTIONS:
            made = _contraction(eqn, x, known[0] if name == "reduce_sum" else None, precision)
        elif name in SUMS:
            made = _added(x, known, precision)
        elif name in _CARRIED and not (name == "div" and known[1]):
            made = _carried(eqn, x, known)
        else:
            return 0.0
        if made.terms <= 1:
            return 0.0
        if not (name in SUMS or (name == "reduce_sum" and known[0])):
            self._known[result] = made
            return 0.0
        charge = _charge(made.terms, made.magnitude, x, precision)
        self._known[result] = Sum(made.terms, lambda: (made.magnitude, np.maximum(charge, made.charged)))
        with np.errstate(invalid="ignore"):
            lost = np.maximum(charge - made.charged, 0.0)
        return np.where(np.isfinite(lost), lost, 0.0)  # an infinite term, as of a mask, is exact


def _charge(terms: int, magnitude: np.ndarray, x: Sequence[np.ndarray], precision: Precision) -> np.ndarray:
    """γ M; a complex product is two real ones in each part: see `rounding_complex`."""
    if any(map(np.iscomplexobj, x)):
        return math.sqrt(2) * precision.gamma(2 * terms) * magnitude
    return precision.gamma(terms) * magnitude


def _magnitudes(x: Sequence[np.ndarray], known: Sequence[Sum | None]) -> list[np.ndarray]:
    return [np.abs(a) if s is None else s.magnitude for a, s in zip(x, known, strict=True)]


def _charged(x: Sequence[np.ndarray], known: Sequence[Sum | None]) -> list[np.ndarray]:
    return [np.zeros(a.shape) if s is None else s.charged for a, s in zip(x, known, strict=True)]


def _contraction(eqn: core.JaxprEqn, x: list[np.ndarray], terms: Sum | None, precision: Precision) -> Sum:
    """What the rules of `rounding_sums` charge; of a sum of sums, what both of them do."""
    params = eqn.params
    if "preferred_element_type" in params:
        params = params | {"preferred_element_type": np.dtype(np.float64)}  # of magnitudes, real in any case

    def summed(*a: np.ndarray) -> np.ndarray:
        return np.asarray(eqn.primitive.bind(*a, **params))

    def sizes() -> tuple[np.ndarray, np.ndarray]:
        magnitude = summed(*map(np.abs, x))
        charged = _charge(K, magnitude, x, precision)
        return (magnitude, charged) if terms is None else (summed(terms.magnitude), charged + summed(terms.charged))

    K = terms_of(eqn, x)
    return Sum(K if terms is None else K * terms.terms, sizes)


def terms_of(eqn: core.JaxprEqn, x: Sequence[np.ndarray]) -> int:
    """How many terms the sums of a contraction have, at most."""
    params = eqn.params
    match eqn.primitive.name:
        case "dot_general":
            return math.prod(x[0].shape[axis] for axis in params["dimension_numbers"][0][0])
        case "reduce_sum":
            return math.prod(x[0].shape[axis] for axis in params["axes"])
        case "cumsum":
            return x[0].shape[params["axis"]]
        case "reduce_window_sum":
            return math.prod(params["window_dimensions"])
        case _:  # of a convolution: a window, of the channels of one group
            dims = params["dimension_numbers"].rhs_spec
            return math.prod(size for axis, size in enumerate(x[1].shape) if axis != dims[0])


def _added(x: Sequence[np.ndarray], known: Sequence[Sum | None], precision: Precision) -> Sum:
    terms = sum(1 if s is None else s.terms for s in known)
    return Sum(terms, lambda: (np.add(*_magnitudes(x, known)), np.add(*_charged(x, known))))


def _carried(eqn: core.JaxprEqn, x: Sequence[np.ndarray], known: Sequence[Sum | None]) -> Sum:
    """Moved to other places, or multiplied by something, which may be multiplied into each of the terms."""
    name = eqn.primitive.name

    def sizes() -> tuple[np.ndarray, np.ndarray]:
        magnitudes, charged = _magnitudes(x, known), _charged(x, known)
        if name == "div":
            return magnitudes[0] / np.abs(x[1]), charged[0] / np.abs(x[1])
        if name == "mul":  # of two sums, whichever is multiplied into the other's terms
            a, b = (np.abs(v) for v in x)
            return np.maximum(magnitudes[0] * b, a * magnitudes[1]), charged[0] * b + a * charged[1]
        if name in UNSIGNED:
            return magnitudes[0], charged[0]
        if name == "select_n":
            magnitudes[0] = charged[0] = x[0]
        return np.asarray(evaluated(eqn, *magnitudes)), np.asarray(evaluated(eqn, *charged))

    return Sum(max(s.terms for s in known if s is not None), sizes)
