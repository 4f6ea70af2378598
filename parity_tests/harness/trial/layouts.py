"""Layouts of memory: the same values with other strides, at another address, or with their sign left undone.

What lies between and around the values is NaN, and among integers the least of them, so that reading it is seen. None
is flipped: PyTorch has no negative strides, and `flip` copies. What it does put off is the sign: `z.conj().imag` is a
view with a "negative bit", which `data_ptr` and DLPack hand out without it. So it does with the conjugate of a complex
tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

_ALIGNED = 64  # bytes, as PyTorch allocates memory
_GAP = 3  # entries after a row


@dataclass(frozen=True)
class Layout:
    """A layout of memory.

    Attributes:
        name: what findings call it.
        arrange: a contiguous tensor -> one with the same values in this layout.
        ndim: the least number of axes that it takes.
        of_one: must an axis that is no channel have one entry, so that its stride may be any?
        repeat: an array -> the values of that shape that the layout can hold, if it cannot hold all.
        refusal: PyTorch's own words, a regular expression, where it does not hand out such a tensor's memory.
        everywhere: is it worth trying on every sample? The others are, on a generic one.
        remedy: what few kernels know of, and what to do about it, where a candidate is wrong in this layout.
    """

    name: str
    arrange: Callable[[torch.Tensor], torch.Tensor]
    ndim: int = 1
    of_one: bool = False
    repeat: Callable[[np.ndarray], np.ndarray] | None = None
    refusal: str | None = None
    everywhere: bool = False
    remedy: str | None = None

    def takes(self, x: torch.Tensor | np.ndarray) -> bool:
        """Return whether something of this shape can be laid out so."""
        return x.ndim >= self.ndim and 0 not in x.shape and (not self.of_one or 1 in (x.shape[0], *x.shape[2:]))


def _between(x: torch.Tensor) -> float | int | bool:
    """Return the number to put between the entries: NaN, or the least integer, which is an index if the others are."""
    return float("nan") if x.is_floating_point() or x.is_complex() else x.min().item()


def transposed(x: torch.Tensor) -> torch.Tensor:
    """Column-major: the same values, with the strides of a transposed tensor."""
    axes = tuple(reversed(range(x.dim())))
    return x.permute(axes).contiguous().permute(axes)


def _with_gaps(x: torch.Tensor) -> torch.Tensor:
    """The first columns of a wider tensor: the entries of a row are neighbours, the rows are not."""
    wide = x.new_full((*x.shape[:-1], x.shape[-1] + _GAP), _between(x))
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def _transposed_with_gaps(x: torch.Tensor) -> torch.Tensor:
    """Column-major, with a leading dimension that is larger than the number of rows."""
    axes = tuple(reversed(range(x.dim())))
    return _with_gaps(x.permute(axes)).permute(axes)


def _sliced(x: torch.Tensor) -> torch.Tensor:
    """Every other entry of the last axis of a larger tensor, with an offset."""
    wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1] + 1), _between(x))
    wide[..., 1::2] = x
    return wide[..., 1::2]


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    """The second axis innermost; of four axes, `torch.channels_last`."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def _channels_last_of_one(x: torch.Tensor) -> torch.Tensor:
    """Channels last, with another stride of an axis of one entry: that of channels or, of a batch, of pixels."""
    y = _channels_last(x)
    other = (y.shape[1], *[1] * (y.ndim - 1))
    return y.as_strided(y.shape, [s if n != 1 else o for n, s, o in zip(y.shape, y.stride(), other, strict=True)])


def _from(start: int, x: torch.Tensor) -> torch.Tensor:
    """A contiguous part of a longer tensor, from this entry on."""
    long = x.new_full((start + x.numel() + 1,), _between(x))
    long[start : start + x.numel()] = x.flatten()
    return long[start : start + x.numel()].view(x.shape)


def _negated_lazily(x: torch.Tensor) -> torch.Tensor:
    return torch._neg_view(-x)  # pyright: ignore[reportPrivateImportUsage]


def _conjugated_lazily(x: torch.Tensor) -> torch.Tensor:
    return x.conj_physical().conj()


def _at_the_start(x: torch.Tensor, room: int) -> torch.Tensor:
    """The same values at the start of a contiguous memory of so many entries."""
    wide = x.new_full((max(room, x.numel()),), _between(x))
    wide[: x.numel()] = x.flatten()
    return wide[: x.numel()].view(x.shape)


def _expanded(name: str, kept: Callable, ndim: int, everywhere: bool = False) -> Layout:
    """Stride 0 along the axes of which `kept` leaves the first entry; along them all entries are the same.

    Whoever reads it as if it were contiguous reads NaN, since there is room for all entries behind those that are kept.
    """
    return Layout(
        name,
        lambda x: _at_the_start(kept(x), x.numel()).expand(x.shape),
        ndim,
        repeat=lambda x: np.broadcast_to(kept(x), x.shape).copy(),
        everywhere=everywhere,
    )


_PUT_OFF = (
    "PyTorch puts off the {what} of a view such as {view}: it has a {bit}, which data_ptr() and DLPack hand out "
    "without applying it. Kernels that are called through PyTorch's dispatcher never see it; code that reads memory "
    "itself must call torch.Tensor.{remedy}() first"
)
# What few kernels know of comes last.
LAYOUTS = (
    Layout("transposed", transposed, 2, everywhere=True),
    Layout("sliced", _sliced, everywhere=True),
    Layout("with gaps between rows", _with_gaps, 2, everywhere=True),
    _expanded("expanded", lambda x: x[:1], 1, everywhere=True),
    _expanded("expanded along the last axis", lambda x: x[..., :1], 2),
    _expanded("expanded along every axis", lambda x: x[(slice(1),) * x.ndim], 2),  # as `y.sum().backward()` does
    Layout("transposed, with gaps between columns", _transposed_with_gaps, 2),
    Layout("with channels last", _channels_last, 3),
    Layout("with channels last and an axis of one entry", _channels_last_of_one, 3, of_one=True, everywhere=True),
    Layout("offset", lambda x: _from(_ALIGNED // x.element_size(), x), 0),
    Layout("misaligned", lambda x: _from(1, x), 0),
    Layout(
        "negated lazily",
        _negated_lazily,
        0,
        refusal="negative bit",
        remedy=_PUT_OFF.format(what="sign", view="z.conj().imag", bit="negative bit", remedy="resolve_neg"),
    ),
)
OF_COMPLEX = (
    Layout(
        "conjugated lazily",
        _conjugated_lazily,
        0,
        refusal="conjugate bit",
        everywhere=True,
        remedy=_PUT_OFF.format(what="conjugate", view="z.conj()", bit="conjugate bit", remedy="resolve_conj"),
    ),
)
