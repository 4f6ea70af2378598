"""The arguments of a failing call in words: "0.5 e(1, 0)", "ones", or how many numbers they are; and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.trial.trial import Trial

MOST_NUMBERS = 256  # of an argument as data
_FEW = 8  # entries; of more their number and range are told
_LONG = 60  # characters of a parameter


def entries(trial: Trial, wrong: Finding | None = None) -> dict[str, str]:
    """Return the arguments of a trial in words, by label; those that are left out are zero.

    Where a check puts the inputs elsewhere, at a special point, the arguments of the call whose result is wrong are
    told. Constants are told even if they are zero: a target, an index or a mask of zeros is a choice. Of an array that
    is too large to be printed the entry is told that lies where the result is most wrong, if both have one shape.
    """
    where = _place_of(wrong)
    return {label: "None" if x is None else _words(x, where) for label, x in _arguments(trial, wrong).items()}


def _place_of(wrong: Finding | None) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape of a wrong result, and where it is most wrong."""
    if not isinstance(wrong, Comparison) or not wrong.wrong.any():
        return None
    excess = np.where(wrong.wrong, wrong.error, -np.inf)
    return excess.shape, tuple(map(int, np.unravel_index(int(excess.argmax()), excess.shape)))


def numbers(trial: Trial, wrong: Finding | None = None) -> dict[str, Any]:
    """Return the same as data: nested lists, where a complex number is a pair and one that is not finite a text.

    An argument of more than `MOST_NUMBERS` is left out.
    """
    found = _arguments(trial, wrong)
    return {label: _data(x) for label, x in found.items() if x is None or x.size <= MOST_NUMBERS}


def _arguments(trial: Trial, wrong: Finding | None) -> dict[str, np.ndarray | None]:
    found: dict[str, np.ndarray | None] = {**(_of_a_placed_call(trial, wrong) or _of_the_sample(trial))}
    names = trial.oracle.spec.names
    for i, x in trial.sample.constants.items():
        rounds = x is not None and x.dtype.kind in "fc"
        found[names[i]] = trial.precision.rounded(x) if x is not None and rounds else x
    return found


def in_words(params: Mapping[str, object]) -> dict[str, str]:
    """Return the keyword parameters in words, by name; long texts are cut."""
    return {name: _words(x) if isinstance(x, np.ndarray) else _cut(repr(x)) for name, x in params.items()}


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def _of_the_sample(trial: Trial) -> dict[str, np.ndarray]:
    """Return every array that was drawn and is not zero."""
    arrays = {tuple(role.rsplit(" ", 1)): x for role, x in trial.sample.arrays.items() if x.any()}
    several = len({example for _, example in arrays}) > 1
    return {
        f"{label} of call {int(example) + 1}" if several and example != "0" else label: trial.precision.rounded(x)
        for (label, example), x in arrays.items()
    }


def _of_a_placed_call(trial: Trial, wrong: Finding | None) -> dict[str, np.ndarray]:
    """The arguments of a call at other inputs than the sample's; none of a call at the sample's."""
    if not isinstance(wrong, Comparison) or wrong.call is None:
        return {}
    name, args = wrong.call
    count = len(trial.oracle.inputs)
    if all(x is None or _was_drawn(x, of, trial) for x, of in zip(args[:count], trial.oracle.inputs, strict=True)):
        return {}
    labels = [slot.label for slot in trial.oracle.map(name).arguments]
    return {
        label: x
        for i, (label, x) in enumerate(zip(labels, args, strict=True))
        if x is not None and (i < count or x.any())
    }


def _was_drawn(x: np.ndarray, name: str, trial: Trial) -> bool:
    """True if this is what was drawn for the input of this name; a cotangent may have the same numbers by chance."""
    drawn = [y for role, y in trial.sample.arrays.items() if role.rsplit(" ", 1)[0] == name]
    return any(x.shape == y.shape and np.array_equal(x, trial.precision.rounded(y), True) for y in drawn)


def _data(x: Any) -> Any:
    if x is None:
        return None
    if np.iscomplexobj(x):
        x = np.stack([x.real, x.imag], -1)
    if x.ndim:
        return [_data(entry) for entry in x]
    return x.item() if np.isfinite(x) else str(x)


def _words(x: np.ndarray, where: tuple[tuple[int, ...], tuple[int, ...]] | None = None) -> str:
    """Return an array in words: "0.5 e(1, 0)", "ones", "zeros", "[[1, -2]]", or how many numbers of which range.

    `where`: a shape and an index; of a large array of this shape its entry there is told.
    """
    if x.dtype.kind not in "fc":
        return str(x.tolist()) if x.size <= _FEW else _large(x, where)
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
        return _large(x, where)
    return np.array2string(
        x, separator=", ", formatter={"float_kind": "{:.4g}".format, "complex_kind": "{:.4g}".format}
    ).replace("\n", "")


def _large(x: np.ndarray, where: tuple[tuple[int, ...], tuple[int, ...]] | None) -> str:
    """How many entries, and from where to where: "3 x 4 numbers from -1.2 to 2.3, 0.7 at (1, 0)"."""
    kind = {"b": "booleans", "f": "numbers", "c": "complex numbers"}.get(x.dtype.kind, "integers")
    text = f"{' x '.join(map(str, x.shape))} {kind}"
    known = x[~np.isnan(x)]
    if x.dtype.kind == "b":
        text += f", {np.count_nonzero(x)} of them True"
    elif x.dtype.kind != "c" and known.size:
        text += f" from {known.min():.4g} to {known.max():.4g}"
    if where is not None and where[0] == x.shape:
        shown = str(x[where[1]]) if x.dtype.kind == "b" else f"{x[where[1]]:.6g}"
        text += f", {shown} at ({', '.join(map(str, where[1]))})"
    return text
