"""Outputs that are integers or booleans, such as the places of the largest entries: equal, or wrong."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jax.extend import core

from parity_tests.harness.findings import Comparison, Fact, Finding
from parity_tests.harness.language.live import live
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.contracts import THROUGHOUT
from parity_tests.harness.primitives.missing import NoRule
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.trial.trial import Trial


def integer_outputs(trial: Trial) -> Iterator[Finding]:
    """The candidate's integers and booleans against the oracle's, where rounding cannot change them."""
    oracle = trial.oracle
    if not oracle.integers:
        return
    returned = oracle.returns.integers(trial.candidate.every_output(trial.tensors(trial.primals)))
    for name, y, (truth, certain) in zip(oracle.integers, returned, _truths(trial), strict=True):
        if tuple(y.shape) != truth.shape:
            yield Fact(name, False, f"has shape {tuple(y.shape)}, the oracle's is {truth.shape}")
        elif y.is_floating_point() or y.is_complex():
            yield Fact(name, False, f"is {y.dtype}, the oracle's is {truth.dtype}: it is no integer")
        else:
            bound = np.where(certain, 0.0, np.inf)
            yield Comparison(name, conversion.to_numpy(y), truth.astype(np.float64), bound)


def _truths(trial: Trial) -> list[tuple[np.ndarray, np.ndarray]]:
    """The oracle's integers, each with a mask of the entries that rounding cannot change.

    None is certain where a rule for rounding tells no entries apart. Of equal values each may be named.
    """
    oracle, primals = trial.oracle, trial.primals
    every = jax.make_jaxpr(lambda *args: oracle.returns.integers(oracle.every_output(*args)))(*primals)
    closed = live(every)
    try:
        truths = bounded(closed, *primals, precision=trial.precision.under(THROUGHOUT).with_any_choice)
    except NoRule:
        values = [np.asarray(y) for y in core.jaxpr_as_fun(closed)(*primals)]
        return [(y, np.zeros(y.shape, bool)) for y in values]
    return [(value, error < 0.5) for value, error in truths]
