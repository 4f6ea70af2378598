"""The cotangents with which a VJP is compared: ordinary, large, and those that lie in memory in a special way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

_LARGE = 1e150


@dataclass(frozen=True)
class Cotangent:
    """A way to make a cotangent.

    Attributes:
        name: of it, in words.
        of: makes the cotangent of a result, whose shape and dtype it has. The random numbers are drawn from the
            generator. Two results that are asked for with equal generators get equal numbers.
    """

    name: str
    of: Callable[[np.ndarray, np.random.Generator], torch.Tensor]


def _normal(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> torch.Tensor:
    x = rng.standard_normal(shape)
    numbers = x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x
    return torch.from_numpy(np.asarray(numbers, dtype))


def _ordinary(result: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    return _normal(result.shape, result.dtype, rng)


def _large(result: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    return _ordinary(result, rng) * _LARGE


def _one_number(result: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """All strides are zero: the backward of a sum makes such a cotangent."""
    return _normal((), result.dtype, rng).expand(result.shape)


def _one_row(result: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """The stride of the first axis is zero: the backward of a sum over it makes such a cotangent."""
    return _normal(result.shape[1:], result.dtype, rng).expand(result.shape)


def _transposed(result: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """The first axis is the one along which the memory runs."""
    axes = tuple(reversed(range(result.ndim)))
    return _normal(result.shape[::-1], result.dtype, rng).permute(axes)


ORDINARY = Cotangent("ordinary", _ordinary)
COTANGENTS = (
    ORDINARY,
    Cotangent("of the size 1e150", _large),
    Cotangent("one number, expanded", _one_number),
    Cotangent("one row, expanded along the first axis", _one_row),
    Cotangent("transposed in memory", _transposed),
)
