"""Slopes of holomorphic functions with hundreds of bits: of mpmath's own functions, which no framework has a part in.

A program of JAX is evaluated with so many bits only if its numbers are real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from parity_tests.harness.extended.adaptive import context
from parity_tests.harness.extended.slopes import Slopes, extended_slopes
from parity_tests.harness.maps import BASES
from parity_tests.sweep.cases import Case
from parity_tests.sweep.comparison import EXTREME, HALF_OF_THE_DIGITS
from parity_tests.sweep.witnesses import Path

_STEP_BITS = 160  # of the central difference that a first derivative is
_MAPS = ("forward", "vjp", "jvp")
_MOST = 1e4  # of the size of a number: an exponential of more takes as many bits for its exponent

Function = Callable[[Any, Any], Any]


def _sinc(mp: Any, z: Any) -> Any:
    return mp.sin(mp.pi * z) / (mp.pi * z) if z else mp.one


FUNCTIONS: Mapping[str, Function] = {
    "exp": lambda mp, z: mp.exp(z),
    "expm1": lambda mp, z: mp.exp(z) - 1,
    "log": lambda mp, z: mp.log(z),
    "log1p": lambda mp, z: mp.log(1 + z),
    "sin": lambda mp, z: mp.sin(z),
    "cos": lambda mp, z: mp.cos(z),
    "tan": lambda mp, z: mp.tan(z),
    "sinh": lambda mp, z: mp.sinh(z),
    "cosh": lambda mp, z: mp.cosh(z),
    "tanh": lambda mp, z: mp.tanh(z),
    "asin": lambda mp, z: mp.asin(z),
    "acos": lambda mp, z: mp.acos(z),
    "atan": lambda mp, z: mp.atan(z),
    "asinh": lambda mp, z: mp.asinh(z),
    "acosh": lambda mp, z: mp.acosh(z),
    "atanh": lambda mp, z: mp.atanh(z),
    "sqrt": lambda mp, z: mp.sqrt(z),
    "rsqrt": lambda mp, z: 1 / mp.sqrt(z),
    "reciprocal": lambda mp, z: 1 / z,
    "sigmoid": lambda mp, z: 1 / (1 + mp.exp(-z)),
    "silu": lambda mp, z: z / (1 + mp.exp(-z)),
    "sinc": _sinc,
}


def holomorphic_slopes(case: Case, mode: str, path: Path) -> Slopes | None:
    """Return the slopes along a path of a number of one entry of a complex function that mpmath has.

    None if mpmath has no such function, or if its value is not PyTorch's, as on a branch cut that is approached from
    the side of the other zero: mpmath has one zero only.

    Args:
        case: of one number.
        mode, path: see `witnesses`.
    """
    function = FUNCTIONS.get(case.call.name.removeprefix("aten::").removesuffix("_"))
    inputs = list(case.inputs.values())
    if function is None or BASES[mode] not in _MAPS or len(inputs) != 1 or inputs[0].dtype.kind != "c":
        return None
    size = abs(path.arguments[0].item())
    if not np.isfinite(size) or size > _MOST or 0 < size < 1 / EXTREME:
        return None
    mp = context()
    base = _base(mp, function, BASES[mode], path.size)
    value, given = _number(mp, path.arguments[0]), case.at([path.arguments[0]]).call.results[0].item()
    try:
        if abs(complex(function(mp, value)) - given) > HALF_OF_THE_DIGITS * abs(given):
            return None
        return extended_slopes(mp, lambda t: _along(mp, base, path, t), path.size)
    except (ZeroDivisionError, ValueError, OverflowError):  # a pole
        return None


def _base(mp: Any, function: Function, base: str, size: float) -> Callable[..., Any]:
    """The map that is differentiated, in PyTorch's convention; a first derivative is a central difference."""

    def derivative(z: Any) -> Any:
        h = mp.ldexp(mp.mpf(size), -_STEP_BITS)
        return (function(mp, z + h) - function(mp, z - h)) / (2 * h)

    maps: dict[str, Callable[..., Any]] = {
        "forward": lambda z: function(mp, z),
        "vjp": lambda z, z_bar: z_bar * mp.conj(derivative(z)),
        "jvp": lambda z, z_dot: z_dot * derivative(z),
    }
    return maps[base]


def _along(mp: Any, base: Callable[..., Any], path: Path, t: Any) -> Any:
    """The number along the path: Re(conj(weight) value)."""
    moved = [_number(mp, x) + t * _number(mp, d) for x, d in zip(path.arguments, path.direction, strict=True)]
    return mp.re(mp.conj(_number(mp, path.weights[0])) * base(*moved))


def _number(mp: Any, x: np.ndarray) -> Any:
    return mp.mpc(complex(x.item()))
