"""What a wrong result looks like. A diagnosis is printed only where the data fit it, to rounding."""

from __future__ import annotations

import numpy as np

from parity_tests.harness.findings import Comparison
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.trial import Trial

_DECISIVE = 30  # times its bound: an error from which one explanation can be told from another


def pattern(comparison: Comparison) -> str:
    """Which entries are wrong: "12/20 entries wrong, all in rows 32 to 34", ..."""
    wrong = comparison.wrong
    text = f"{int(wrong.sum())}/{wrong.size} entries wrong"
    if wrong.all() or wrong.ndim == 0:
        return text
    for axis, plural in zip(range(wrong.ndim), ("rows", "columns", "axis 2", "axis 3"), strict=False):
        others = tuple(i for i in range(wrong.ndim) if i != axis)
        hit = np.flatnonzero(wrong.any(axis=others))
        if len(hit) < wrong.shape[axis]:
            run = (
                f"{hit[0]} to {hit[-1]}" if np.all(np.diff(hit) == 1) and len(hit) > 1 else ", ".join(map(str, hit[:6]))
            )
            return f"{text}, all in {plural} {run} of {wrong.shape[axis]}"
    return text


def looks_like(trial: Trial, name: str | None, findings: list[Comparison], wrong: Comparison) -> str | None:
    """What a wrong result is equal to; None if nothing known fits."""
    candidate, oracle, bound = wrong.candidate, wrong.oracle, wrong.bound
    if not np.isfinite(candidate).all():
        return f"{int((~np.isfinite(candidate)).sum())} entries of {wrong.label} are not finite"
    telling = (np.abs(oracle) > bound).any()
    if not telling:
        return None
    if not candidate.any():
        return f"{wrong.label} = 0"
    if wrong.error_over_bound < _DECISIVE or np.count_nonzero(np.abs(oracle) > bound) < 2:
        return None  # so little is wrong, or so little is known, that several explanations would fit
    factor = float(np.sum(candidate * oracle) / np.sum(oracle * oracle))
    if factor != 0 and (np.abs(candidate - factor * oracle) <= bound * (1 + abs(factor))).all():
        rounded = float(f"{factor:.3g}")
        return f"{wrong.label} = {rounded:g} * oracle" if rounded != -1 else f"{wrong.label} = -oracle (the sign)"
    if oracle.ndim >= 2 and oracle.shape[-1] == oracle.shape[-2]:
        transposed = np.swapaxes(oracle, -1, -2)
        if (np.abs(candidate - transposed) <= bound + np.swapaxes(bound, -1, -2)).all():
            return f"{wrong.label} = the oracle's, transposed"
    for other in findings:
        if (
            other.label != wrong.label
            and other.circumstance == wrong.circumstance
            and other.oracle.shape == oracle.shape
            and (np.abs(candidate - other.oracle) <= bound + other.bound).all()
        ):
            return f"{wrong.label} = the oracle's {other.label}"
    return _without_a_cotangent(trial, name, wrong)


def _without_a_cotangent(trial: Trial, name: str | None, wrong: Comparison) -> str | None:
    if name != "vjp" or wrong.circumstance:
        return None
    args, count = trial.arguments("vjp"), len(trial.primals)
    labels = [slot.label for slot in trial.oracle.map("vjp").results]
    for i, output in enumerate(trial.oracle.outputs):
        without = [None if j == count + i else x for j, x in enumerate(args)]
        value, bound = trial.truth("vjp", without)[labels.index(wrong.label)]
        if value.shape == wrong.oracle.shape and (np.abs(wrong.candidate - value) <= bound + wrong.bound).all():
            return f"{wrong.label} ignores the cotangent of {output}"
    return None


def first_order(name: str) -> bool:
    """Is the map the operator itself or its first derivative?"""
    return len(ORDERS.get(name, ())) <= 1
