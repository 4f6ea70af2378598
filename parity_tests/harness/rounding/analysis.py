"""The rounding-error analysis of a program, which the docstring of `parity_tests.harness.rounding` derives."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import interpret
from parity_tests.harness.language.live import live
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.rounding import integer_jumps as rounding_jumps
from parity_tests.harness.rounding import scales as rounding_scales
from parity_tests.harness.rounding.bounds import INPUT, Bounds
from parity_tests.harness.rounding.stored import Stored, stored


def bounded(
    closed: core.ClosedJaxpr,
    *args: np.ndarray,
    precision: Precision,
    inputs: int = INPUT,
    values: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values and error bounds of a jaxpr's outputs at float64 arguments that are exact in the format.

    `inputs` counts the roundings of an input that a computation may be equivalent to; 0 where none can be. `values`:
    the operator's outputs by name, for a contract (`precision.arithmetic`) by which some are stored.

    Must run inside `numerics.pinned()` (float64 on). The bound covers the format's computation and that of the
    float64 values themselves.

    Raises:
        NoRule: the jaxpr has a primitive without a rule.
        NotFloat64: it computes in a lower precision than its arguments have.
    """
    contract = precision.arithmetic
    if contract.inside == "float32":
        rounds = contract.stored or contract.operands
        kept = Stored.of(precision, closed, args, values) if rounds else None
        single = replace(precision.single, any_choice=precision.any_choice, any_order=precision.any_order, stored=kept)
        return [stored(pair, precision) for pair in bounded(closed, *args, precision=single, inputs=inputs)]
    # An infinite or undefined input is exact.
    with np.errstate(all="ignore"):  # an infinity or a NaN is a result here, as it is in JAX
        pairs = [(np.asarray(x), np.where(np.isfinite(x), inputs * precision.u * np.abs(x), 0.0)) for x in args]
        outputs = rounding_jumps.on_every_side(functools.partial(_analysed, live(closed), pairs), precision)
        # The bound is proportional to the roundoff to first order, so the reference's own error is u64 / u of it.
        return [(x, e * (1 + FLOAT64.u / precision.u)) for x, e in outputs]


def _analysed(closed: core.ClosedJaxpr, pairs: Sequence[tuple], p: Precision) -> list[tuple]:
    """The outputs; where a constant beyond the format has left them without a bound, by `rounding.scales`."""
    outputs = interpret(closed, pairs, Bounds(p))
    unknown = any(np.isinf(e[np.abs(x) <= p.largest]).any() for x, e in outputs)
    if not unknown or not rounding_scales.has_constants_beyond(closed, p):
        return outputs
    scaled = interpret(closed, pairs, Bounds(p, scaled=True))
    bounds = [rounding_scales.itself(pair, p)[1] for pair in scaled]
    return [(x, np.where(np.isinf(e), other, e)) for (x, e), other in zip(outputs, bounds, strict=True)]
