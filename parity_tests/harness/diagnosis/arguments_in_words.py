"""The arguments of a failing call in words: "0.5 e(1, 0)", "ones", or a count of numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.trial.trial import Trial

_FEW = 8  # entries; of more their number is told
_LONG = 60  # characters of a parameter


def entries(trial: Trial, wrong: Finding | None = None) -> dict[str, str]:
    """Return the arguments of a trial in words, by label; those that are left out are zero.

    Where a check puts the inputs elsewhere, at a special point, the arguments of the call whose result is wrong are
    told. Constants are told even if they are zero: a target, an index or a mask of zeros is a choice.
    """
    words = _of_a_placed_call(trial, wrong) or _of_the_sample(trial)
    names = trial.oracle.spec.names
    for i, x in trial.sample.constants.items():
        words[names[i]] = "None" if x is None else _words(trial.precision.rounded(x) if x.dtype.kind in "fc" else x)
    return words


def in_words(params: Mapping[str, object]) -> dict[str, str]:
    """Return the keyword parameters in words, by name; long texts are cut."""
    return {name: _words(x) if isinstance(x, np.ndarray) else _cut(repr(x)) for name, x in params.items()}


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def _of_the_sample(trial: Trial) -> dict[str, str]:
    """Return every array that was drawn and is not zero, in words."""
    arrays = {tuple(role.rsplit(" ", 1)): x for role, x in trial.sample.arrays.items() if x.any()}
    several = len({example for _, example in arrays}) > 1
    return {
        f"{label} of call {int(example) + 1}" if several and example != "0" else label: _words(
            trial.precision.rounded(x)
        )
        for (label, example), x in arrays.items()
    }


def _of_a_placed_call(trial: Trial, wrong: Finding | None) -> dict[str, str]:
    """The arguments of a call at other inputs than the sample's; none of a call at the sample's."""
    if not isinstance(wrong, Comparison) or wrong.call is None:
        return {}
    name, args = wrong.call
    count = len(trial.oracle.inputs)
    if all(x is None or _was_drawn(x, of, trial) for x, of in zip(args[:count], trial.oracle.inputs, strict=True)):
        return {}
    labels = [slot.label for slot in trial.oracle.map(name).arguments]
    return {
        label: _words(x)
        for i, (label, x) in enumerate(zip(labels, args, strict=True))
        if x is not None and (i < count or x.any())
    }


def _was_drawn(x: np.ndarray, name: str, trial: Trial) -> bool:
    """True if this is what was drawn for the input of this name; a cotangent may have the same numbers by chance."""
    drawn = [y for role, y in trial.sample.arrays.items() if role.rsplit(" ", 1)[0] == name]
    return any(x.shape == y.shape and np.array_equal(x, trial.precision.rounded(y), True) for y in drawn)


def _words(x: np.ndarray) -> str:
    """Return an array in words: "0.5 e(1, 0)", "ones", "zeros", "[[1, -2]]", or a count of its numbers."""
    if x.dtype.kind not in "fc":
        kind = "booleans" if x.dtype.kind == "b" else "integers"
        return str(x.tolist()) if x.size <= _FEW else f"{' x '.join(map(str, x.shape))} {kind}"
    hot = np.argwhere(x)
    if x.size > 1 and len(hot) == 1:
        (index,) = hot
        factor = "" if x[tuple(index)] == 1 else f"{x[tuple(index)]:.4g} "
        return f"{factor}e({', '.join(map(str, index))})"
    if x.size > 1 and (x == 1).all():
        return "ones"
    if x.size > 1 and not len(hot):
        return "zeros"
    if x.size > _FEW:
        return f"{' x '.join(map(str, x.shape))} numbers"
    return np.array2string(
        x, separator=", ", formatter={"float_kind": "{:.4g}".format, "complex_kind": "{:.4g}".format}
    ).replace("\n", "")
