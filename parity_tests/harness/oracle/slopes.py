"""The witness that knows no rule of differentiation: differences of the oracle's values, in hundreds of bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jax.extend import core

from parity_tests.harness.extended.slopes import can_be_exact, exact_slopes
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.language import jaxprs
from parity_tests.harness.maps import BASES, ORDERS
from parity_tests.harness.numbers.tolerances import TO_TOLERANCE
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.oracle.witness import Place, paired


@dataclass(frozen=True)
class ExtendedSlopes:
    """The derivative against the slope of the map that it differentiates, which has hundreds of bits.

    It sees what `TaylorRate` cannot: a mistake in the last digits. It is silent where the oracle declares a tolerance
    or a derivative of its own (`jax.custom_jvp`), as JAX does for functions that it approximates: the slope of an
    approximation is not the derivative of the function that it stands for.
    """

    name: str = "slope in hundreds of bits"

    def can_judge(self, oracle: Oracle, name: str) -> bool:
        """Return whether the map is a derivative of what is real; a surrogate gradient is none."""
        return not (oracle.is_surrogate(name) or oracle.is_surrogate(BASES[name]) or oracle.is_complex)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield the comparison of ⟨w, F'(x) p⟩ with the slope of ⟨w, F(x + t p)⟩, or with the nearer one at a kink.

        Nothing if the program of F is too long for many bits, or if the slope grows without bound.
        """
        oracle, base = place.oracle, BASES[place.name]
        forward = oracle.traced("forward", place.x[: len(oracle.inputs)], by_autodiff=False).closed
        program, absent = oracle.traced(base, place.x, by_autodiff=False)
        if _declares(forward) or _declares(program) or not can_be_exact(program):
            return
        p, w = place.directions, place.weights
        if ORDERS[place.name][-1] == "vjp":
            p, w = w, p
        sizes = [np.abs(x[(d != 0) & (x != 0)]).min(initial=np.inf) for x, d in zip(place.x, p, strict=True)]
        size = min(sizes, default=np.inf)
        present = [y for y, is_absent in zip(w, absent, strict=True) if not is_absent]
        slopes = exact_slopes(program, place.x, p, present, size if np.isfinite(size) else 1.0)
        if not slopes.known:
            return
        said, error = paired(place.weights, place.results)
        right = float(np.clip(said, slopes.low, slopes.high))
        yield Comparison(f"slope of {base}", np.array([said]), np.array([right]), np.array([error + slopes.error]))


def _declares(program: core.ClosedJaxpr) -> bool:
    """Whether a program has a tolerance by declaration, or a derivative that is not that of its own steps."""
    names = {jaxprs.name_of(eqn) for eqn in jaxprs.equations(program.jaxpr)}
    return TO_TOLERANCE in names or any(name.startswith("custom_") for name in names)
