"""Where two results differ, and what the slopes say of a number in which they do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from parity_tests.harness.extended.slopes import Slopes
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.sweep.lines import Verdict

# The digits that a witness can have if it knows nothing but values in float64, as `witnesses.by_differences` does: a
# difference over the relative step h is off by u / h for rounding and by h for what is curved, which together are least
# at the square root of u. Extrapolated twice it is off by u / h + h^3, which is least at h = u^(1/4).
HALF, MOST = 1 / 2, 3 / 4
HALF_OF_THE_DIGITS = FLOAT64.u**HALF
MOST_OF_THE_DIGITS = FLOAT64.u**MOST
# What the table's words mean: a number with a third of its digits has lost digits, one with fewer is another number.
DIGITS_OF_A_NUMBER = 1 / 3
SOME_DIGITS = FLOAT64.u**DIGITS_OF_A_NUMBER
EXTREME = FLOAT64.largest ** (1 / 3)  # a derivative has a power more than a square, which overflows beyond, or almost
_UNDERFLOWS = FLOAT64.tiny / FLOAT64.u  # below which what an operation loses to underflow is a rounding or more


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
    size = np.abs(x).astype(np.float64)
    return (size > EXTREME) | ((size > 0) & (size < 1 / EXTREME))


def is_up_to_the_processor(x: np.ndarray) -> bool:
    """Return whether a complex number is not finite: IEEE 754 defines what becomes of real numbers only.

    An operator of matrices has its products and quotients from a library, which has kernels for each processor. Where
    infinity is on the diagonal of a system, oneMKL's ztrsm makes 0 of a number over it by some, and NaN by others. The
    operator and its formula may run different ones, so that NaN in a derivative alone is no convention of PyTorch's.
    """
    return x.dtype.kind == "c" and not np.isfinite(x).all()


def asked(
    found: np.ndarray, other: np.ndarray, differs: np.ndarray, arguments: Sequence[np.ndarray], most: int
) -> list[tuple[int, ...]]:
    """Return where witnesses are asked: at ordinary arguments first, and of these where the sides differ most.

    Args:
        found, other: the numbers of both sides.
        differs: where they are in question.
        arguments: of an elementwise map, which say whether a place is ordinary.
        most: how many places are asked about at most.
    """
    with np.errstate(all="ignore"):
        off = np.abs(found - other) / np.maximum(np.abs(found), np.abs(other))
    off = np.where(differs, np.where(np.isfinite(off), off, np.inf), -1.0).ravel()
    strange = np.zeros(found.shape)
    for x in arguments:
        strange += is_extreme(x) + 2 * ~np.isfinite(x)
    count = min(int(differs.sum()), most)
    chosen = np.lexsort((-off, np.where(differs.ravel(), strange.ravel(), np.inf)))[:count]
    return [tuple(int(i) for i in np.unravel_index(k, found.shape)) for k in chosen]


def decided(
    pytorch: float,
    jax: float,
    slopes: Slopes,
    largest: float,
    scale: float = 1.0,
    of_largest: float = MOST_OF_THE_DIGITS,
    is_first: bool = False,
    rounding: Callable[[], float] = lambda: 0.0,
) -> tuple[Verdict, str]:
    """Return who is right about a number, and the reason in words.

    Args:
        pytorch, jax: real numbers that differ.
        slopes: of the function that is differentiated.
        largest: of the numbers of the same result, divided by `scale`, and of what is differentiated.
        scale: by which the slopes have to be multiplied.
        of_largest: the part of `largest`; what is off by less has lost digits, what is off by more is another number.
        is_first: it is a first derivative, of which PyTorch documents that at a kink it is a subgradient, not NaN.
        rounding: the error that rounding explains where larger numbers cancel, see `rounding.explained`.
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
    pytorch, jax = pytorch / scale, jax / scale
    room = 2 * slopes.error + HALF_OF_THE_DIGITS * size + _UNDERFLOWS
    off = [_off(pytorch, slopes, not is_first), _off(jax, slopes, True)]
    cancels = MOST_OF_THE_DIGITS * largest
    if size <= cancels and all(d <= cancels for d in off) and all(d <= rounding() / scale for d in off):
        return Verdict.AGREES, ""  # a difference of larger numbers
    if all(d <= room for d in off):
        if not slopes.smooth:
            return Verdict.CONVENTION, "the function has a kink there"
        if slopes.error > MOST_OF_THE_DIGITS * size + _UNDERFLOWS:
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
    return all(
        abs(number - slopes.high) <= 2 * FLOAT64.u * abs(value) * scale * min(rate, 1.0) ** 2 for number in numbers
    )


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
    """Return who is wrong by two witnesses whose verdicts differ; UNDECIDED if there is nobody whom both find wrong."""
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
