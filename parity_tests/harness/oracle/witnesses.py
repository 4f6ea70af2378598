"""The witnesses of the harness: autodiff, transpose, Taylor remainder, slopes; and what is known of a choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from parity_tests.harness.findings import Comparison, Fact, Finding
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.slopes import ExtendedSlopes
from parity_tests.harness.oracle.taylor import TaylorTest, taylor_test
from parity_tests.harness.oracle.witness import Place, paired, register


@dataclass(frozen=True)
class Autodiff:
    """JAX autodiff of the plain primal, against an explicit formula of the spec."""

    name: str = "autodiff"

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        """Return whether a formula takes part in the map, so that autodiff is a second way."""
        return not oracle.is_surrogate(name) and oracle.has_formula(name)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield comparisons of every result of the formula with that of autodiff."""
        oracle = place.oracle
        for explicit, autodiff in zip(place.results, place.results_by_autodiff, strict=True):
            left, right = (oracle.compared(place.name, y.like, y.value) for y in (explicit, autodiff))
            error = oracle.compared_errors(place.name, autodiff.like, explicit.bound + autodiff.bound, autodiff.value)
            yield Comparison(autodiff.label, left, right, error, "explicit formula against autodiff of the primal")


@dataclass(frozen=True)
class Transposition:
    """A VJP against the JVP of the same map, by ⟨w, J p⟩ = ⟨Jᵀ w, p⟩; real of complex arrays, see `complex_parts`."""

    name: str = "transposition"

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        """Return whether the map is a VJP; JVPs are what VJPs are compared with."""
        return not oracle.is_surrogate(name) and ORDERS[name][-1] == "vjp"

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield the comparison of the two inner products."""
        jvp = _jvp_beside(place.name)
        left, left_error = paired(place.weights, place.results)
        pushed = place.oracle.evaluate(jvp, [*place.x, *place.weights], FLOAT64)
        right, right_error = paired(place.directions, pushed)
        error = np.array([left_error + right_error])
        yield Comparison(f"⟨{place.name}, p⟩", np.array([left]), np.array([right]), error, f"⟨w, {jvp}⟩")


@dataclass(frozen=True)
class TaylorRate:
    """The derivative against the Taylor remainder of the map that it differentiates."""

    name: str = "Taylor rate"

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        """Return whether the map is a derivative; a surrogate gradient is none."""
        return not oracle.is_surrogate(name)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield whether the Taylor remainder is that of a right derivative."""
        if any(d.size for d in place.directions) and any(w.size for w in place.weights):
            test = taylor_test(place.oracle, place.name, None, [*place.x, *place.directions], place.weights)
            if test is not None:
                yield Fact(f"Taylor rate of {place.name}", test.right, _violation(test))


@dataclass(frozen=True)
class Linearity:
    """The linearity of a surrogate gradient in its cotangents, the one property that it must have."""

    name: str = "linearity"

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        """Return whether the map is a surrogate gradient or its transpose."""
        return oracle.is_surrogate(name)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield comparisons for sums and multiples of two random directions."""
        m, inputs = place.map, place.x
        p, q = (place.draw(m.arguments[m.base :], which) for which in ("first", "second"))
        of_p, of_q = (place.oracle.evaluate(place.name, [*inputs, *directions], FLOAT64) for directions in (p, q))
        for scale in (1.0, -(2.0**10)):
            together = [scale * a + b for a, b in zip(p, q, strict=True)]
            of_both = place.oracle.evaluate(place.name, [*inputs, *together], FLOAT64)
            for a, b, both in zip(of_p, of_q, of_both, strict=True):
                apart = scale * a.value + b.value
                rounding = 2 * FLOAT64.u * (np.abs(scale * a.value) + np.abs(b.value))
                error = abs(scale) * a.bound + b.bound + both.bound + rounding
                text = f"of the sum {scale:g} p + q, against {scale:g} times that of p, plus that of q"
                yield Comparison(both.label, both.value, apart, error, f"OpSpec.surrogate must be linear: {text}")


@dataclass(frozen=True)
class Detachment:
    """The gradient of a detached input, which is exactly 0 although the values may depend on it."""

    name: str = "detachment"

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        """Return whether the map has such a gradient."""
        return name == "vjp" and any(x in oracle.spec.detached for x in oracle.inputs)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield whether each such gradient is 0, by the formula that judges."""
        text = "is not 0, although OpSpec.detached names its input; put lax.stop_gradient around that in the primal"
        for y in place.results:
            if y.like in place.oracle.spec.detached:
                yield Fact(y.label, not y.value.any(), text, evidence=0)


def _jvp_beside(name: str) -> str:
    """Return the JVP of the map that `name` is the VJP of."""
    order = (*ORDERS[name][:-1], "jvp")
    return next(other for other, o in ORDERS.items() if o == order)


def _violation(test: TaylorTest) -> str:
    if test.shows_in_rate:
        return f"is {test.rate:.2f}; it is 2 for a right derivative"
    return f"is {test.rate:.2f}, but the derivative is off by {test.relative_error:.1g} of its size"


register(Autodiff())
register(Transposition())
register(TaylorRate())
register(Linearity())
register(Detachment())
register(ExtendedSlopes())
