"""Logarithms of sums of exponentials, y = m + log Σ exp(x - m): what x is off by they pass on once.

The rules pass on an error of x by the exponents and by m, the largest entry, as if these were independent, and a loop
that hands y to its next step, as soft-DTW does from cell to cell, has a bound that triples with each step. But y does
not depend on m, and its derivatives by x are the weights of a mean. So it is off by the largest error of an x, and by
roundings of its own:

    E(y) = e + (E'(y) + 4 u (e + E(m))) exp(2 e)        e = max E(x)

E' is the bound of these equations if x and m were inputs: it has the roundings of right code that computes them in
another way. They go with the weights exp(x - m) / Σ exp(x - m), which are off by the factor exp(2 e) at most, and with
|x - m|, |m| and |log Σ|, which are off by e + E(m).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity_tests.harness.rounding.steps import Plan, Step

Pair = tuple[np.ndarray, np.ndarray]
Run = Callable[[Step, list[Pair]], list[Pair]]


@dataclass(frozen=True)
class LogSum:
    """The steps of one, in their order, the first of which is x - m, and the last of which makes y.

    Attributes:
        steps: these.
        x, m: their variables; m has an axis of size 1 where x is summed.
        axes: along which x is summed.
    """

    steps: tuple[Step, ...]
    x: Any
    m: Any
    axes: tuple[int, ...]

    def bounded(self, pair: Pair, known: Mapping[Any, Pair], run: Run, u: float, inputs: int) -> Pair:
        """The value y and its bound, which is that of `pair` or smaller.

        Args:
            pair: y and what the rules have for its bound.
            known: x and m with theirs.
            run: the result of a step with what it loses, of operands and their bounds.
            u: the roundoff.
            inputs: the roundings of an input.
        """
        (x, of_x), (m, of_m) = known[self.x], known[self.m]
        given = {v: (a, _of_finite(inputs * u * np.abs(a), a)) for v, a in ((self.x, x), (self.m, m))}
        if (of_x <= given[self.x][1]).all():
            return pair  # x is as an input is
        for step in self.steps:
            (given[step.result],) = run(step, [given[v] for v in step.variables])
        (y, bound), e = pair, np.max(of_x, axis=self.axes, keepdims=True)
        narrow = e + (given[self.steps[-1].result][1] + 4 * u * (e + of_m)) * np.exp(2 * e)
        better = np.isfinite(y) & np.isfinite(narrow) & ~(bound <= narrow)
        return (y, np.where(better, narrow, bound)) if better.any() else pair


@functools.lru_cache(maxsize=1024)
def log_sums(plan: Plan) -> Mapping[Any, LogSum]:
    """Return the logarithms of sums of exponentials in a program, by their results."""
    steps = plan.steps
    made = {step.result: step for step in steps if step.plain}
    found = dict[Any, LogSum]()
    for step in steps:
        if step.plain and step.name == "add" and not step.has_literals:
            for total, m in (step.variables, reversed(step.variables)):
                one = _ending(step, total, m, made)
                if one is not None:
                    found[step.result] = one
    return found


def _ending(last: Step, total: Any, m: Any, made: Mapping[Any, Step]) -> LogSum | None:
    """The one that ends with the sum of these two variables; None if they are none."""
    steps, variable = [last], total
    for name in ("log", "broadcast_in_dim", "reduce_sum", "exp", "sub"):
        step = made.get(variable)
        if step is None or step.name != name:
            return None
        steps.insert(0, step)
        variable = step.variables[0]
    _, _, summed, kept, *_ = steps
    axes, x = tuple(summed.eqn.params["axes"]), variable
    if x is None or steps[0].variables[1] is not m:
        return None
    shape = steps[0].eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
    narrow = tuple(1 if i in axes else n for i, n in enumerate(shape))
    others = tuple(i for i in range(len(shape)) if i not in axes)
    fits = x.aval.shape == shape and m.aval.shape == narrow and kept.eqn.outvars[0].aval.shape == narrow  # type: ignore[attr-defined]
    return LogSum(tuple(steps), x, m, axes) if fits and kept.eqn.params["broadcast_dimensions"] == others else None


def _of_finite(e: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), e, 0.0)
