"""Descriptions of a wrong result. One is given only where the data fit it, to rounding, and hardly by accident.

Explanations come in families (`explanations`, `what_if`), the simplest first. Of the first family in which one fits,
its text is printed, unless another one fits as well: then it is not known which is true, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from parity_tests.harness.diagnosis import patterns
from parity_tests.harness.diagnosis.explanations import (
    by_any_factor,
    by_complex_values,
    by_values,
    less_specific,
    right_to_some_digits,
)
from parity_tests.harness.diagnosis.fit import unique_fit
from parity_tests.harness.diagnosis.remark import Remark
from parity_tests.harness.diagnosis.what_if import WhatIf
from parity_tests.harness.findings import Comparison
from parity_tests.harness.trial.trial import Trial


def pattern(comparison: Comparison, trial: Trial | None = None) -> str:
    """Which entries are wrong, as `patterns.pattern` says it; of a candidate, by the values of its arguments, too."""
    return patterns.pattern(comparison, _named(trial, comparison) if trial else None)


@np.errstate(all="ignore")  # a bound may be infinite, and what is tried may overflow
def looks_like(trial: Trial, findings: Sequence[Comparison], wrong: Comparison) -> Remark | None:
    """Return a remark on what a wrong result is equal to; None if nothing known fits, or more than one explanation."""
    what_if = None if wrong.call is None else WhatIf(trial, wrong, *wrong.call)
    text = _equal_to(trial, findings, wrong, what_if)
    if text is not None:
        return Remark(text)
    narrower = what_if.in_lower_precision() if what_if and not np.iscomplexobj(wrong.oracle) else None
    if narrower is not None:
        return Remark(
            narrower, f"Compute in {trial.precision.name}, the dtype of the inputs, from the first step to the last"
        )
    digits = right_to_some_digits(wrong)
    return None if digits is None else Remark(digits)


def _equal_to(trial: Trial, findings: Sequence[Comparison], wrong: Comparison, what_if: WhatIf | None) -> str | None:
    finite = np.isfinite(wrong.candidate)
    if not finite.all():
        text = f"{int((~finite).sum())} entries of {wrong.label} are not finite"
        where = (
            None
            if np.array_equal(~finite, wrong.wrong)
            else patterns.rule(~finite, _significant(wrong), _named(trial, wrong))
        )
        return f"{text}, {where}" if where else text
    if not (np.abs(wrong.oracle) > wrong.bound).any():
        return None
    if not wrong.candidate.any():
        return f"{wrong.label} = 0"
    if np.iscomplexobj(wrong.oracle):
        families = (
            by_complex_values(wrong, findings, trial.sample.sizes),
            what_if.complex_families(findings) if what_if else (),
            (by_any_factor(wrong),),
        )
    else:
        families = (
            by_values(wrong, findings, trial.sample.sizes),
            what_if.families(findings) if what_if else (),
            less_specific(wrong),
        )
    for family in chain.from_iterable(families):
        text, found = unique_fit(wrong, family)
        if found:
            return text
    if np.count_nonzero(wrong.wrong) > 1 and not wrong.candidate[wrong.wrong].any():
        return f"the wrong entries of {wrong.label} are 0"
    return None


_PLAIN_FACTORS = {0.5: "half of", 2.0: "twice", -1.0: "minus"}


def plain_factor(wrong: Comparison) -> str | None:
    """ "half of the oracle's", of a result that may have a single wrong entry; None if no such factor fits.

    One entry proves little, so that only the factors are tried that mistakes make most, and none that is 1 to rounding.
    """
    part = wrong.wrong & np.isfinite(wrong.candidate) & np.isfinite(wrong.oracle)
    if not part.any() or not np.array_equal(part, wrong.wrong) or not (np.abs(wrong.oracle) > wrong.bound)[part].all():
        return None
    for factor, text in _PLAIN_FACTORS.items():
        if (np.abs(wrong.candidate - factor * wrong.oracle) <= abs(factor) * wrong.bound)[part].all():
            return f"{text} the oracle's"
    return None


def _significant(wrong: Comparison) -> np.ndarray:
    return np.isfinite(wrong.bound) & (np.abs(wrong.oracle) > wrong.bound) | ~np.isfinite(wrong.candidate)


def _named(trial: Trial, wrong: Comparison) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The arguments at which a result was computed, and the operator's outputs there, with their bounds."""
    if wrong.call is None:
        return {}
    name, args = wrong.call
    slots, primals = trial.oracle.map(name).arguments, args[: len(trial.oracle.inputs)]
    named = {slot.label: (x, np.zeros(x.shape)) for slot, x in zip(slots, args, strict=True) if x is not None}
    named |= {y.label: (y.value, y.bound) for y in trial.truth("forward", primals)}
    return {label: pair for item in named.items() for label, pair in _real(*item)}


def _real(label: str, pair: tuple[np.ndarray, np.ndarray]) -> list[tuple[str, tuple[np.ndarray, np.ndarray]]]:
    """A real array as it is, and a complex one by its parts, which have signs."""
    x, bound = pair
    if not np.iscomplexobj(x):
        return [(label, pair)]
    return [(f"{label}.real", (np.real(x), bound)), (f"{label}.imag", (np.imag(x), bound))]
