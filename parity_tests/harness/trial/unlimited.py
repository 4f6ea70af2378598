"""Derivatives where squares of the inputs leave a format's range, and the results do not.

The derivative of x / y by y is -x / y^2. As -x / (y * y) it is 0 or infinite where y^2 is beyond the largest or below
the smallest number of the format; as -(x / y) / y it is right. JAX has the first form, and in its bounds all of that
would be rounding. Where nothing of the value of an operator with one quotient leaves the range a derivative need not,
either: there it is judged by the bound of a format with the same digits whose range has no end, with room for results
that underflow. Of quotients of quotients nothing is said: in 1 / (1 / x + 1 / y) the cotangent of the sum is beyond the
range where those of x and y are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.oracle.oracle import Arrays
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.trial.trial import Trial

_ROOM = 8  # results that underflow, in a product of a few factors, each below the largest cotangent


def truths_of_any_range(trial: Trial, name: str, args: Arrays) -> list[Truth]:
    """A derivative's truths as if the range of the format had no end.

    Nothing has a bound where the operator's value leaves the range on its way, nor what itself exceeds it.
    """
    count, format_ = len(trial.oracle.inputs), trial.precision
    unlimited = replace(format_, name=f"{format_.name} of any range", tiny=0.0, smallest=0.0, largest=math.inf)
    room = _ROOM * format_.tiny * max([1.0, *(float(np.abs(w).max(initial=0)) for w in args[count:] if w is not None)])
    inputs = args[:count]
    within = _in_range(trial.truth("forward", inputs), trial.oracle.ask("forward", inputs, unlimited), room)
    return [
        replace(y, bound=np.where(within & (np.abs(y.value) + y.bound <= format_.largest), y.bound + room, np.inf))
        for y in trial.oracle.ask(name, args, unlimited)
    ]


def _in_range(truths: Sequence[Truth], unlimited: Sequence[Truth], room: float) -> bool:
    """True if the range of the format adds nothing to the error of a value."""
    pairs = zip(truths, unlimited, strict=True)
    return all(np.isfinite(y.value).all() and (y.bound <= 2 * free.bound + room).all() for y, free in pairs)
