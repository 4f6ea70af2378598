"""The value of a JAX primitive at float64 arguments, in NumPy where that is as good.

JAX compiles an equation that runs by itself anew for every shape, and an operator is judged at dozens of shapes. The
primitives of most programs are therefore evaluated by NumPy and SciPy: the same IEEE operations, and elementary
functions of the same accuracy or a better one. All others are run by JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.primitives.registry import record_of
from parity_tests.harness.primitives.value.movements import broadcaster


def evaluated(eqn: core.JaxprEqn, *operands: Any) -> Any:
    """The value of a primitive at its operands, or the values if it has several.

    Must run inside `np.errstate(all="ignore")`: infinity less infinity is NaN in JAX, without a warning. It is entered
    once for a whole program, since that takes as long as the operation itself.

    Args:
        eqn: an equation of the primitive, whose parameters are used.
        operands: arrays as in the equation, or others of the same shapes, such as their magnitudes.
    """
    record = record_of(eqn.primitive.name)
    if record is not None and record.value is not None:
        compute, applies, takes_parameters, _ = record.value
        x = [np.asarray(a) for a in operands]
        if applies(eqn, x):
            return compute(*x, **eqn.params) if takes_parameters else compute(*x)
    return eqn.primitive.bind(*operands, **eqn.params)


def evaluator(eqn: core.JaxprEqn, real: bool) -> Callable[..., Any]:
    """Return the function of its operands that `evaluated` finds for an equation: now, or with each operands anew.

    Args:
        eqn: the equation.
        real: True if all its operands and results are float64, as their values will be.
    """
    if eqn.primitive.name == "broadcast_in_dim" and len(eqn.invars) == 1:
        of = getattr(eqn.invars[0].aval, "shape", ())
        return broadcaster(of, *map(tuple, (eqn.params["shape"], eqn.params["broadcast_dimensions"])))
    record = record_of(eqn.primitive.name)
    if real and record is not None and record.value is not None and record.value.wherever_real(eqn):
        value = record.value
        return functools.partial(value.compute, **eqn.params) if value.takes_parameters else value.compute
    return functools.partial(evaluated, eqn)
