"""nonfinite_cotangents: a cotangent that is infinite or NaN leaves something in a gradient that is no number.

Loss scaling multiplies a loss until float16 overflows, and relies on seeing it: `torch.amp.GradScaler` looks for any
infinity or NaN in any gradient, skips the step and halves the factor. A backward that puts numbers in their place
trains on them. Where in a gradient they are differs between right codes, since 0 times infinity is NaN: not asked.

An entry of a cotangent w reaches an entry g of a gradient if dg/dw, which is the VJP of a unit cotangent, is larger
than the bound of its rounding, and the candidate's own is not 0 either, as it may be at a kink. Then right code
multiplies w by a number other than 0, of which an infinity makes an infinity, or NaN where others are added. Where no
entry of w reaches anything, nothing is asked. An exception is as good as NaN: linear algebra raises of matrices with
NaN in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact, Finding, NotApplicable
from parity_tests.harness.numbers import conversion
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.trial.trial import Trial

_TRIED = 4  # entries of each cotangent, until one reaches a gradient
_RAISED = (RuntimeError, ValueError)


def _run(trial: Trial) -> Iterator[Finding]:
    args, count = trial.arguments("vjp"), len(trial.primals)
    asked = False
    for i in range(count, len(args)):
        at = _reaching(trial, args, i)
        if at is None:
            continue
        asked, label = True, trial.oracle.map("vjp").arguments[i].label
        for name, number in (("infinite", np.inf), ("NaN", np.nan)):
            yield _looked_at(trial, args, i, at, number, f"one entry of {label} is {name}: {list(at)}")
    if not asked:
        raise NotApplicable("no entry of a cotangent that was tried reaches a gradient beyond rounding")


def _reaching(trial: Trial, args: Sequence[np.ndarray], i: int) -> tuple[int, ...] | None:
    """An entry of the cotangent i by which an entry of a gradient surely changes; None if none that is tried does."""
    size, count = args[i].size, len(trial.primals)
    for flat in dict.fromkeys(size * (2 * k + 1) // (2 * _TRIED) for k in range(_TRIED if size else 0)):
        at = tuple(int(k) for k in np.unravel_index(flat, args[i].shape))
        unit = [*args[:count], *(np.zeros_like(w) for w in args[count:])]
        unit[i][at] = 1
        effects = [_clear(trial, truth) for truth in trial.truth("vjp", unit)]
        if any(effect.any() for effect in effects):
            own = zip(effects, trial.evaluate("vjp", unit), strict=True)
            if any(x is not None and (conversion.to_numpy(x)[effect] != 0).any() for effect, x in own):
                return at
    return None


def _clear(trial: Trial, truth: Truth) -> np.ndarray:
    """Which entries of a derivative are surely not 0 in what right code computes, along the directions of a domain."""
    effect = trial.oracle.directed(truth.like, truth.value)
    bound = trial.oracle.directed_errors(truth.like, truth.bound, truth.value)
    return np.isfinite(effect) & (np.abs(effect) > bound)


def _looked_at(
    trial: Trial, args: Sequence[np.ndarray], i: int, at: tuple[int, ...], number: float, where: str
) -> Fact:
    spoilt = list(args)
    spoilt[i] = args[i].copy()
    spoilt[i][at] = number
    try:
        with under(where):
            results = trial.evaluate("vjp", spoilt)
    except _RAISED:
        return Fact("gradients", True, "", where)  # of a unit cotangent it has a gradient
    seen = any(x is not None and not np.isfinite(conversion.to_numpy(x)).all() for x in results)
    return Fact("gradients", seen, "are all finite: whoever scales a loss does not see that it overflowed", where)


CHECK = Check(
    "nonfinite_cotangents",
    "an infinite or NaN cotangent that becomes a number: a nan_to_num, which hides an overflow from GradScaler",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
)
