"""Where two results differ, and what the slopes say of a number in which they do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.sweep.lines import Verdict

HALF_OF_THE_DIGITS = 2.0**-26  # of float64: what agrees in these may differ by rounding that the problem forces
MOST_OF_THE_DIGITS = 2.0**-40  # what agrees in these has lost no digits
_ROUNDING = 2.0**-46  # relative: what a few operations may lose
SOME_DIGITS = 2.0**-18  # relative: what is off by less has lost digits, what is off by more is another number
EXTREME = 1e100  # beyond which, or below whose inverse, squares overflow or vanish, or almost
_UNDERFLOWS = 1e-290  # below which intermediate results may have lost digits to underflow


def differing(
    found: np.ndarray, other: np.ndarray, relative: float, of_largest: float, floor: float | np.ndarray = 0.0
) -> np.ndarray:
    """Return where two results differ by more than rounding may; two NaN, or equal infinities, do not.

    Args:
        found, other: of the same shape.
        relative: the part of a number's own size by which it may be off.
        of_largest: the part of the largest finite number of `other` by which all may be off.
        floor: by which all may be off, since they may be differences of numbers of another size; or each.
    """
    finite = np.isfinite(found) & np.isfinite(other)
    largest = np.abs(np.where(finite, other, 0)).max(initial=0)
    with np.errstate(all="ignore"):
        room = relative * np.maximum(np.abs(found), np.abs(other)) + of_largest * largest + floor + _UNDERFLOWS
        near = finite & (np.abs(found - other) <= room)
        return ~(near | (found == other) | (np.isnan(found) & np.isnan(other)))


def largest_of(x: np.ndarray) -> float:
    """The size of the largest finite number."""
    return float(np.abs(np.where(np.isfinite(x), x, 0)).max(initial=0))


def floor_of(arguments: Sequence[np.ndarray]) -> np.ndarray:
    """Return how far two values of an elementwise map may differ at each place.

    It is most of the digits of the smallest argument that is not 0. Values in a tail may differ, as those of gelu do.
    Neither other places nor a large number in another argument count: next to 1e77 any root were rounding.
    """
    sizes = [np.where(np.isfinite(x) & (x != 0), np.abs(x), np.inf) for x in arguments]
    least = np.min(sizes, axis=0)
    return MOST_OF_THE_DIGITS * np.where(np.isfinite(least), least, 0)


def differing_values(found: np.ndarray, other: np.ndarray, floor: np.ndarray | None) -> np.ndarray:
    """Where two values differ, or two derivatives that are differentiated again; `floor` of what is elementwise."""
    if floor is not None:
        return differing(found, other, HALF_OF_THE_DIGITS, 0.0, floor)
    return differing(found, other, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS)


def is_extreme(x: np.ndarray) -> np.ndarray:
    """Return where the square of a number that is not 0 overflows or vanishes, or almost."""
    size = np.abs(x)
    return (size > EXTREME) | ((size > 0) & (size < 1 / EXTREME))


def is_up_to_the_processor(x: np.ndarray) -> bool:
    """Return whether a complex number is not finite: IEEE 754 defines what becomes of real numbers only.

    An operator of matrices has its products and quotients from a library, which has kernels for each processor. Where
    infinity is on the diagonal of a system, oneMKL's ztrsm makes 0 of a number over it by some, and NaN by others. The
    operator and its formula may run different ones, so that NaN in a derivative alone is no convention of PyTorch's.
    """
    return x.dtype.kind == "c" and not np.isfinite(x).all()


def decided(
    pytorch: float,
    jax: float,
    slopes: Slopes,
    largest: float,
    scale: float = 1.0,
    of_largest: float = MOST_OF_THE_DIGITS,
    is_first: bool = False,
) -> tuple[Verdict, str]:
    """Return who is right about a number, and the reason in words.

    Args:
        pytorch, jax: real numbers that differ.
        slopes: of the function that is differentiated.
        largest: of the numbers of the same result and of what is differentiated.
        scale: by which the slopes have to be multiplied.
        of_largest: the part of `largest`; what is off by less has lost digits, what is off by more is another number.
        is_first: it is a first derivative, of which PyTorch documents that at a kink it is a subgradient, not NaN.
    """
    both_undefined = math.isnan(pytorch) and math.isnan(jax)
    if any(map(math.isinf, (slopes.behind, slopes.ahead))):
        why = "the function has no finite derivative there"
        return (Verdict.AGREES, "") if both_undefined else (Verdict.CONVENTION, why)
    if not slopes.known:
        if both_undefined:
            return Verdict.AGREES, ""
        return Verdict.UNDECIDED, "differences do not converge"
    size = max(abs(slopes.low), abs(slopes.high))
    if math.isinf(size * scale) and not (math.isfinite(pytorch) or math.isfinite(jax)):
        return Verdict.AGREES, ""  # no format holds the right number
    pytorch, jax, largest = pytorch / scale, jax / scale, largest / scale
    room = 2 * slopes.error + HALF_OF_THE_DIGITS * size + _UNDERFLOWS
    off = [_off(pytorch, slopes, not is_first), _off(jax, slopes, True)]
    if size <= MOST_OF_THE_DIGITS * largest and all(d <= _ROUNDING * largest for d in off):
        return Verdict.AGREES, ""  # a difference of larger numbers that cancels
    if all(d <= room for d in off):
        if not slopes.smooth:
            return Verdict.CONVENTION, "the function has a kink there"
        if slopes.error > MOST_OF_THE_DIGITS * size:
            settled = abs(pytorch - jax) <= 4 * HALF_OF_THE_DIGITS * size
            return (Verdict.AGREES, "") if settled else (Verdict.UNDECIDED, "differences are not exact enough")
    # NaN is not small, but where there is no derivative it says so
    lost = room + max(SOME_DIGITS * size, of_largest * largest)
    wrong = [not d <= lost for d in off]
    if any(wrong):
        which = {(True, False): Verdict.WRONG_IN_PYTORCH, (False, True): Verdict.WRONG_IN_JAX}
        return which.get((wrong[0], wrong[1]), Verdict.WRONG_IN_BOTH), ""
    return _digits(dict(zip(("PyTorch", "JAX"), off, strict=True)), slopes, size)


def is_below_rounding(
    value: complex, slope: float, weights: Sequence[float], order: int, slopes: Slopes, numbers: Sequence[float]
) -> bool:
    """Return whether a higher derivative is off by no more than a rounding of the function's value moves it, in a tail.

    A formula that has the result only, as those of tanh and of elu in place, makes each derivative of it. If the value
    moves by a rounding, the second derivative does by as much times the third one over the first, which in a tail is
    about the square of the second one over the first; beside a zero of the first one, where that is large, it is not.

    Args:
        value: of the function.
        slope: the size of its first derivative.
        weights: the sizes of the cotangents and tangents.
        order: of the derivative.
        slopes: the right number.
        numbers: of the frameworks.
    """
    scale = max(weights, default=1.0) ** order
    if not slopes.known or not slope or not scale:
        return False
    rate = max(abs(slopes.low), abs(slopes.high)) / scale / slope
    return all(abs(number - slopes.high) <= 2.0**-52 * abs(value) * scale * min(rate, 1.0) ** 2 for number in numbers)


def _off(value: float, slopes: Slopes, may_be_undefined: bool) -> float:
    """How far a number is from the slopes, or from all between them; NaN at a kink is not off if it may be undefined.

    Between two finite slopes there is a subgradient, or a supergradient, of least norm. PyTorch documents under
    "Gradients for non-differentiable functions" that this is its derivative; nobody documents a second one, and JAX
    documents none.
    """
    if math.isnan(value) and not slopes.smooth and may_be_undefined:
        return 0.0
    return max(slopes.low - value, value - slopes.high, 0.0)


def accused_by_both(first: Verdict, second: Verdict) -> Verdict:
    """Return who is wrong by two witnesses whose verdicts differ; UNDECIDED if there is nobody whom both accuse."""
    accused = {
        Verdict.WRONG_IN_PYTORCH: {"PyTorch"},
        Verdict.WRONG_IN_JAX: {"JAX"},
        Verdict.WRONG_IN_BOTH: {"PyTorch", "JAX"},
    }
    both = accused.get(first, set()) & accused.get(second, set())
    return next((verdict for verdict, who in accused.items() if who == both), Verdict.UNDECIDED)


def _digits(off: Mapping[str, float], slopes: Slopes, size: float) -> tuple[Verdict, str]:
    """Return the verdict on lost digits, and a reason that names each side that loses them and how many it has."""
    allowed = MOST_OF_THE_DIGITS * size + 2 * slopes.error + _UNDERFLOWS
    described = [
        f"{name} has {max(0, math.floor(-math.log10(d / size))) if size else 0} digits"
        for name, d in off.items()
        if d > allowed
    ]
    return (Verdict.LOSES_DIGITS, " and ".join(described)) if described else (Verdict.AGREES, "")
