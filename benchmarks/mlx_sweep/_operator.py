"""The operators of the sweep of MLX: MLX's function, and in JAX what it should compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradparity import OpSpec


@dataclass(frozen=True)
class Operator:
    """An operator.

    Attributes:
        name: its name in MLX.
        call: the function of MLX arrays.
        spec: the reference, its signature, and the domains of its inputs.
    """

    name: str
    call: Callable[..., Any]
    spec: OpSpec


def op(
    name: str, call: Callable[..., Any], primal: Callable[..., Any], signature: str = "(n)->(n)", **options: Any
) -> Operator:
    """An operator whose spec has its name; `options` are the other fields of `OpSpec`."""
    return Operator(name, call, OpSpec(name, primal, signature, **options))


def full(
    name: str, call: Callable[..., Any], primal: Callable[..., Any], signature: str, sizes: str = "", **options: Any
) -> Operator:
    """An operator at axes that have entries: a reduction of MLX over an axis without any may not return.

    Of arrays that are not in rows `get_reduction_plan` leaves such an axis out, and reads the last stride of none.
    """
    axes = dict.fromkeys(re.findall(r"\b[a-z]\b", signature.partition("->")[0]))
    known = {*re.findall(r"\b([a-z]) >=", sizes), *re.findall(r"\b([a-z]) = ", sizes)}
    rules = [*filter(None, [sizes]), *(f"{axis} >= 1" for axis in axes if axis not in known)]
    return op(name, call, primal, signature, sizes=", ".join(rules), **options)


def inside_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers between -1 and 1, away from both."""
    return rng.uniform(-15 / 16, 15 / 16, shape)


def above_one(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers above 1, away from it."""
    return 1.25 + np.exp(rng.standard_normal(shape) / 2)


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers 1 and -1."""
    return rng.integers(0, 2, shape) * 2.0 - 1
