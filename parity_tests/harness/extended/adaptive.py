"""The value of a jaxpr with as many bits as it needs."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.extend import core
from mpmath.ctx_mp import MPContext

from parity_tests.harness.extended.evaluation import evaluate

_FIRST, _MOST = 256, 4096  # bits
_AGREE = 96  # bits in which two results must agree: float64 has 53
_BELOW = 256  # bits more than the smallest number has zeros: enough for intermediates up to 2^256


@functools.cache
def context() -> Any:
    """The project's own mpmath context; that of everybody, `mpmath.mp`, stays as it is."""
    return MPContext()


@dataclass(frozen=True, eq=False)
class Exact:
    """The exact results of a program.

    Attributes:
        values: arrays of mpmath's numbers; NaN where there is none, or where it took too many bits.
        bits: with which they are known to `_AGREE` bits. With as many, other arguments nearby can be evaluated.
    """

    values: list[np.ndarray]
    bits: int


def exact(program: core.ClosedJaxpr, args: Sequence[np.ndarray], smallest: float) -> Exact:
    """The exact results of a program at float64 arguments: the bits are doubled until two evaluations agree.

    Two results that agree may be wrong in the same way if something has cancelled completely, as 1 - tanh(x)² does for
    large x: both are 0. A 0 is therefore believed only with more bits than the smallest number of a format has zeros.

    Args:
        program: all of whose primitives have a record, see `evaluation.missing`.
        args: arrays of float64, integers or booleans.
        smallest: the smallest number that matters; what is less may come out as 0.
    """
    mp, bits = context(), _FIRST
    zeros_need = _BELOW - math.log2(smallest)
    with mp.workprec(bits):
        values = evaluate(mp, program, args)
    while True:
        before, bits = values, 2 * bits
        with mp.workprec(bits):
            values = evaluate(mp, program, args)
            agreed = [_agree(mp, x, y, bits >= zeros_need) for x, y in zip(before, values, strict=True)]
        if bits >= _MOST or all(a.all() for a in agreed):
            known = [np.where(a, y, mp.nan) for a, y in zip(agreed, values, strict=True)]
            return Exact(known, bits)


def _agree(mp: Any, x: np.ndarray, y: np.ndarray, believes_zeros: bool) -> np.ndarray:
    """Where two evaluations agree; integers are as they are."""
    if y.dtype != object:
        return np.ones(y.shape, bool)

    def agree(x: Any, y: Any) -> bool:
        if not mp.isfinite(y):
            return mp.isnan(y) if mp.isnan(x) else bool(x == y)
        if y == 0:
            return bool(x == 0) and believes_zeros
        return bool(abs(x - y) <= mp.ldexp(abs(y), -_AGREE))

    return np.asarray(np.frompyfunc(agree, 2, 1)(x, y), bool)
