"""Numbers at which derivatives are often wrong: zeros of both signs, ties, the ends of domains, branch cuts, tails."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_TINY = float(np.finfo(np.float64).tiny)
_OF_BOTH_SIGNS = (
    *(0.0, _TINY, 1e-160, 1e-8, 0.5, np.nextafter(1, 0), 1.0, np.nextafter(1, 2), 1.5, 2.0, 2.5, 3.0, 6.0),
    *(20.0, 40.0, 700.0, 1e10, 1e154, 1e300),
)
REAL = tuple(sign * x for x in _OF_BOTH_SIGNS for sign in (1.0, -1.0))
_OF_TWO = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, _TINY, 20.0, -700.0, 1e154, -1e154, 1e300)
_OF_THREE = (0.0, -0.0, 1.0, -1.0, 2.0, 1e154)
_OF_MORE = (0.0, 1.0, -1.0)

_ZEROS = [complex(x, y) for x in (0.0, -0.0) for y in (0.0, -0.0)]
_CUTS = [complex(x, y) for x in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0) for y in (0.0, -0.0)]
_IMAGINARY = [complex(y, x) for x in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0) for y in (0.0, -0.0)]
_CIRCLE = [complex(np.cos(t), np.sin(t)) for t in np.pi * np.array([1, 2, 3, 5, 7, 9, 11]) / 6]
_SIZES = [s * (1 + 1j) for s in (1e-160, 1e-8, 20.0, -20.0, 1e10, 1e154)]
COMPLEX = (*_ZEROS, *_CUTS, *_IMAGINARY, *_CIRCLE, *_SIZES, 3 + 4j, 700 + 1j, -700 + 1j, 1 - 700j)
_COMPLEX_OF_TWO = (0j, 1 + 0j, complex(-1, -0.0), -2 + 0j, 0.5j, -1j, 3 + 4j, _CIRCLE[0], 1e-8 - 1e-8j, 1e154 + 1e154j)
_COMPLEX_OF_THREE = (0j, 1 + 0j, -1j, 3 + 4j, 1e154 + 1e154j)
_COMPLEX_OF_MORE = (0j, 1 + 0j, -1j)


def numbers_of(options: Mapping[str, Any]) -> list[float]:
    """The numbers among an operator's options, such as bounds: where its function may have a kink."""
    found: list[float] = []
    for value in options.values():
        if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
            found.append(float(value))
    return [x for x in dict.fromkeys(found) if abs(x) < 1e300]


def points(inputs: int, is_complex: bool, kinks: Sequence[float]) -> list[tuple[complex, ...]]:
    """The points at which an elementwise function of so many inputs is judged.

    Of one input they are all numbers of a long list, with the kinks and their neighbours. Of more they are all
    combinations of a shorter list, and the numbers of the long one in all inputs at once: ties.
    """
    whole: list[Any] = list(COMPLEX if is_complex else REAL)
    of_kinks = [sign * x for x in kinks[:4] for sign in (1, -1)]
    near = [np.nextafter(x, to) for x in of_kinks for to in (-np.inf, np.inf)]
    if inputs == 1:
        return [(x,) for x in (*whole, *of_kinks, *near)]
    if inputs > 5:
        return [(x,) * inputs for x in (*whole, *of_kinks)]
    lists = (_COMPLEX_OF_TWO, _COMPLEX_OF_THREE, _COMPLEX_OF_MORE) if is_complex else (_OF_TWO, _OF_THREE, _OF_MORE)
    short: list[Any] = [*lists[min(inputs, 4) - 2], *(of_kinks[:4] if inputs < 4 else [])]
    return [*itertools.product(short, repeat=inputs), *((x,) * inputs for x in whole)]
