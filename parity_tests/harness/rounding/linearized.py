"""A linearized bound, where the running one has no power: each rounding by the derivative of what follows.

The running analysis passes on the errors of two operands as if they were independent. In r / Σ r they are not: they
cancel, and a program that divides so twenty times (Sinkhorn's steps, a norm in a recurrence, Newton-Schulz) gets a
bound that doubles with each step. Here a program is a list of equations x_j = f_j(...), each of which rounds by ρ_j at
most, and with C_ij = ∂y_i / ∂x_j the derivative of all that follows,

    E(y_i) = Σ_j |C_ij| (ρ_j + 2 u |x_j|) (1 + R)

ρ_j is what the rule of the equation says of exact operands, with what is lost in another order (of 17 factors at most).
An input has 2 u |x|, as in the running analysis, and so has each intermediate, since right code may be another program:
it has the right intermediates of nearly these, as a stable algorithm has. R is the share of second order. It is
measured, not bounded: along the roundings that are worst for the worst entry, all at once, and against them (in
float64, 2^13 times as large). Where R exceeds a half, or an entry is off by more than that, there is no such bound,
nor where

    a comparison or a jump is nearer than its own bound of first order (of a kink, that is added to the roundings);
    a primitive has no derivative, or the program has branches, a `while`, or complex numbers;
    the derivatives take more than 2^24 numbers: of a result that has no power at all, so many entries have one as take
    fewer, drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jax.extend import core

from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.rounding.choices import Choice, choices
from parity_tests.harness.rounding.stored import stored
from parity_tests.harness.rounding.tape import Asked, NotFollowed, Tape
from parity_tests.harness.rounding.unrolled import NotUnrolled

Pair = tuple[np.ndarray, np.ndarray]

MOST_NUMBERS = 2**24
MOST_OF_SECOND_ORDER = 0.5
LARGEST_EXPONENT = math.log(np.finfo(np.float32).max)  # 88.7, of a power that is computed in float32
_ALONG = 2.0**-40  # the smallest roundoff along which the second order is measured


def narrowed(
    program: core.ClosedJaxpr, args: Sequence[np.ndarray], running: Sequence[Pair], precision: Precision, inputs: int
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """The results of a program with their bounds: those of `running`, or linearized ones where these have no power.

    A running bound has power where it leaves half of the format's digits: where it is at most √u times the largest
    entry of its result. No linearized bound is smaller than that, since right code of another structure may lose what
    the roundings of this program do not, as exp(x - log Σ exp x), whose exponent is rounded, too. In 16 bits, where
    that is much of a result, the running bound stays unless no entry of the result could tell a mistake by it. The
    third of each result is its running bound if some bound is another.

    Must run inside `numerics.pinned()` (float64 on).

    Args:
        program: as of `analysis.bounded`.
        args: its arguments.
        running: what `analysis.bounded` finds for them.
        precision: the format and its contract.
        inputs: the roundings of an input that a computation may be equivalent to.
    """
    halves = [_half_of_the_digits(y, precision) for y, _ in running]
    weak = [np.isfinite(y) & (e > half) & (half > 0) for (y, e), half in zip(running, halves, strict=True)]
    if not any(map(np.any, weak)):
        return [(y, e, None) for y, e in running]
    powerless = [bool(each.any() and not (e < np.abs(y)).any()) for each, (y, e) in zip(weak, running, strict=True)]
    if precision.is_short:
        weak = [each & unable for each, unable in zip(weak, powerless, strict=True)]
    bounds = _bounds(program, args, precision, inputs, weak, powerless) if any(map(np.any, weak)) else None
    if bounds is None:
        return [(y, e, None) for y, e in running]
    found = []
    for (y, e), bound, half in zip(running, bounds, halves, strict=True):
        narrow = np.maximum(bound, half)
        found.append((y, np.where(narrow < e, narrow, e), e if (narrow < e).any() else None))
    return found


def _half_of_the_digits(y: np.ndarray, precision: Precision) -> float:
    """√u times the largest entry of a result, or what the rounding of an exponent changes a power by; 0 of integers."""
    if y.dtype.kind != "f":
        return 0.0
    largest = np.maximum.reduce(np.abs(y), axis=None, initial=0.0, where=np.isfinite(y))
    return max(math.sqrt(precision.u), LARGEST_EXPONENT * precision.u) * largest


def _bounds(
    program: core.ClosedJaxpr,
    args: Sequence[np.ndarray],
    precision: Precision,
    inputs: int,
    weak: Sequence[np.ndarray],
    powerless: Sequence[bool],
) -> list[np.ndarray] | None:
    """Linearized bounds for the entries that are `weak`, under the contract of the format; None if there are none.

    Infinite for all others. `powerless`: the results of which a few entries are worth having.
    """
    contract, inside = precision.arithmetic, precision
    if contract.inside == "float32":
        if contract.stored or contract.operands:
            return None
        inside = replace(precision.single, any_choice=precision.any_choice, any_order=precision.any_order)
    try:
        with np.errstate(all="ignore"):
            tape = Tape.of(program, args, inside, inputs)
            found = bounded(tape, [np.flatnonzero(each) for each in weak], powerless)
    except (NotFollowed, NotUnrolled):
        return None
    bounds = [np.full(each.size, np.inf) for each in weak]
    for bound, x, (places, e) in zip(bounds, tape.results, found, strict=True):
        value = tape.value(x).ravel()[places]
        bound[places] = e if inside is precision else stored((value, e), precision)[1]
    return [bound.reshape(each.shape) for bound, each in zip(bounds, weak, strict=True)]


def bounded(tape: Tape, places: Sequence[np.ndarray], powerless: Sequence[bool]) -> list[Pair]:
    """Linearized bounds of these entries of a program's results: for each result the places of those that have one.

    All of them, or a few of those that are `powerless`.

    Must run inside `np.errstate(all="ignore")`.

    Raises:
        NotFollowed: there are none; see the module.
    """
    chosen = list(choices(tape))
    places = _affordable(places, powerless, MOST_NUMBERS // tape.numbers - sum(each.asked.rows for each in chosen))
    asked = [Asked([(x, at, 1.0)], len(at)) for x, at in zip(tape.results, places, strict=True)]
    derivatives = tape.derivatives([*asked, *(each.asked for each in chosen)])
    parts = tape.charged(derivatives, [each.rows for each in (*asked, *(each.asked for each in chosen))])
    if any(not each.is_certain(e) for each, e in zip(chosen, parts[len(asked) :], strict=True)):
        parts = _with_kinks(tape, derivatives, chosen, parts)
    found = [
        np.where(np.isinf(tape.own_of(x).ravel()[at]), np.inf, e)
        for x, at, e in zip(tape.results, places, parts, strict=False)
    ]
    with_rest = _with_second_order(tape, derivatives, places, np.concatenate(found))
    ends = np.cumsum([len(at) for at in places])
    return list(zip(places, np.split(with_rest, ends[:-1]), strict=True))


def _affordable(places: Sequence[np.ndarray], powerless: Sequence[bool], most: int) -> Sequence[np.ndarray]:
    """These places, or as many of the powerless results'."""
    if sum(map(len, places)) <= most:
        return places
    some = [at if each else at[:0] for at, each in zip(places, powerless, strict=True)]
    share = max(0, most) / max(1, sum(map(len, some)))  # the choices alone may take more than all
    rng = np.random.default_rng(0)
    some = [rng.choice(at, min(len(at), int(share * len(at))), replace=False) for at in some]
    if not sum(map(len, some)):
        raise NotFollowed
    return some


def _with_kinks(
    tape: Tape, derivatives: dict[core.Var, np.ndarray], chosen: Sequence[Choice], parts: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The bounds of all that is asked, with what is lost at kinks that rounding may cross, twice as first order has it.

    Raises:
        NotFollowed: rounding may cross a jump, or a kink by more.
    """
    count = len(parts) - len(chosen)
    crossed = [each.crossed(e) for each, e in zip(chosen, parts[count:], strict=True)]
    for each, loss in zip(chosen, crossed, strict=True):
        if loss.any():
            if not each.is_kink or not np.isfinite(loss).all():
                raise NotFollowed
            largest = np.zeros(tape.own[each.result].size)
            np.maximum.at(largest, each.places, 2 * loss)
            tape.own[each.result] = tape.own[each.result] + largest.reshape(tape.own[each.result].shape)
    parts = tape.charged(derivatives, [len(e) for e in parts])
    if any((each.crossed(e) > 2 * loss).any() for each, e, loss in zip(chosen, parts[count:], crossed, strict=True)):
        raise NotFollowed
    return parts


def _with_second_order(
    tape: Tape, derivatives: dict[core.Var, np.ndarray], places: Sequence[np.ndarray], bound: np.ndarray
) -> np.ndarray:
    """These bounds, with the share of second order that the worst roundings of an entry of each result show.

    Infinite where an entry is off by more than that.

    Raises:
        NotFollowed: it is more than `MOST_OF_SECOND_ORDER`.
    """
    times = max(1.0, _ALONG / tape.precision.u)
    share, largest = 0.0, np.zeros(bound.shape)
    for rows in np.split(np.arange(len(bound)), np.cumsum([len(at) for at in places])[:-1]):
        for sign in (times, -times) if rows.size else ():
            row = rows[np.argmax(np.where(np.isfinite(bound[rows]), bound[rows], -1.0))]
            directions = {x: sign * np.where(c[row] < 0, -1.0, 1.0) for x, c in derivatives.items()}
            moved = zip(tape.moved(directions, sign), tape.results, places, strict=True)
            off = np.concatenate([np.abs(y - tape.value(x)).ravel()[at] for y, x, at in moved]) / times
            share = max(share, abs(float(off[row] / bound[row]) - 1) if 0 < bound[row] < np.inf else 0.0)
            largest = np.fmax(largest, np.where(np.isnan(off), np.inf, off))
    if not share <= MOST_OF_SECOND_ORDER:
        raise NotFollowed
    return np.where(largest <= bound * (1 + MOST_OF_SECOND_ORDER), bound * (1 + share), np.inf)
