"""Inputs, parameters and comparisons that the tests of torch_impl share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

Attn: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

PRIMALS = ("q", "k", "v")
TANGENTS = ("q_dot", "k_dot", "v_dot")
OUTPUTS = ("output", "attn")
COTANGENTS = ("output_bar", "attn_bar")
SIZES = (3, 2, 4, 5)  # n, d, m, e; all differ, so that a transposed or swapped axis cannot pass

implementations = pytest.mark.parametrize("attn", ["composite", "function", "native_implicit", "native"], indirect=True)
native_implementations = pytest.mark.parametrize("attn", ["native_implicit", "native"], indirect=True)
explicit_formulas = pytest.mark.parametrize("attn", ["function", "native"], indirect=True)
all_but_the_composite = pytest.mark.parametrize("attn", ["function", "native_implicit", "native"], indirect=True)


def shape_of(name: str, sizes: Sequence[int] = SIZES) -> tuple[int, int]:
    """The shape of an argument or a result; `q_dot`, `output_bar` and so on are shaped like their primal."""
    n, d, m, e = sizes
    return {"q": (n, d), "k": (m, d), "v": (m, e), "output": (n, e), "attn": (n, m)}[name.split("_")[0]]


def draw(
    names: Iterable[str],
    sizes: Sequence[int] = SIZES,
    *,
    dtype: torch.dtype = torch.float64,
    batch: tuple[int, ...] = (),
    requires_grad: Collection[str] = (),
    seed: int = 0,
) -> list[Tensor]:
    """Random tensors, one a name, of a size that leaves tanh neither linear nor saturated."""
    rng = np.random.default_rng(seed)
    tensors = []
    for name in names:
        real, imaginary = 0.7 * rng.standard_normal((2, *batch, *shape_of(name, sizes)))
        # Complex is half as large: tanh has poles at ±iπ/2.
        values = torch.from_numpy((real + 1j * imaginary) / 2 if dtype.is_complex else real)
        values = values.to(dtype)
        # requires_grad_(False) would do nothing, but torch.func refuses it.
        tensors.append(values.requires_grad_() if name in requires_grad else values)
    return tensors


def subsets_of(names: Sequence[str], *, empty: bool = False) -> list[tuple[str, ...]]:
    """Every subset of the names."""
    chosen = itertools.chain.from_iterable(itertools.combinations(names, r) for r in range(len(names) + 1))
    return [s for s in chosen if s or empty]


def subsets(names: Sequence[str], *, empty: bool = False) -> list[Any]:
    """Every subset of the names as a pytest parameter, with its members as the id."""
    return [pytest.param(s, id="-".join(s) or "none") for s in subsets_of(names, empty=empty)]


def only(chosen: Collection[str], names: Sequence[str], tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """The tensors whose names are chosen, `None` in place of the others."""
    return [x if name in chosen else None for name, x in zip(names, tensors, strict=True)]


def pull(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor | None], **options: Any
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs, by way of the outputs that have a cotangent; `None` where nothing flows."""
    used = [(y, y_bar) for y, y_bar in zip(outputs, cotangents, strict=True) if y_bar is not None and y.requires_grad]
    if not used:
        return (None,) * len(inputs)
    return torch.autograd.grad([y for y, _ in used], inputs, [y_bar for _, y_bar in used], allow_unused=True, **options)


def loss(attn: Attn, sizes: Sequence[int] = SIZES) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A scalar of both outputs, linear in neither, so that no second or third derivative vanishes."""
    output_weight, attn_weight = draw(OUTPUTS, sizes, seed=5)

    def scalar(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output, attn_matrix = attn(q, k, v)
        return (output_weight * output.sin()).sum() + (attn_weight * attn_matrix.exp()).sum()

    return scalar


def zeros_for_none(tensors: Iterable[Tensor | None], like: Iterable[Tensor]) -> list[Tensor]:
    """The tensors, with zeros in place of `None`."""
    return [torch.zeros_like(y) if x is None else x for x, y in zip(tensors, like, strict=True)]


def assert_same(actual: Any, expected: Any, *, atol: float = 1e-12, zeros: bool = False) -> None:
    """Every leaf equals its reference within atol, in shape and dtype; `None` equals `None` only.

    Sums of at most 8 terms leave about 1e-15; a mistake leaves about 1. Zeros in the reference would be no evidence, so
    they are an error unless the caller expects them.
    """
    leaves = [x for x in tree_leaves(expected) if x is not None]
    assert leaves, "nothing to compare"
    assert zeros or all(x.numel() == 0 or bool(x.any()) for x in leaves), "a reference is zero"
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)
