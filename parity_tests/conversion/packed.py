"""Packed sequences, whose layout follows from known lengths: selections of rows, and recurrences step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions

from parity_tests.conversion.plainly import plainly

_PACK, _PAD = "_pack_padded_sequence", "_pad_packed_sequence"
_RECURRENCES = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def layout_of(name: str, args: Sequence[Any]) -> Tensor | None:
    """The lengths of sequences, or the sizes of the batches of their steps, in a call that has packed sequences."""
    of_steps = name in _RECURRENCES and not isinstance(args[3], bool)  # of padded ones, whether there are biases
    return args[1] if name in (_PACK, _PAD) or of_steps else None


def called(func: Callable, name: str, args: Sequence[Any], layout: Tensor) -> tuple[Any, Tensor | None]:
    """Return what such a call computes, with the numbers of the layout at hand, and the other layout, if it returns it.

    Args:
        func, name, args: the call.
        layout: the numbers of `layout_of`.

    Raises:
        RuntimeError: the layout is none of these sequences.
    """
    x, rest = args[0], args[2:]
    if name in _RECURRENCES:
        return _by_steps(name)(x, layout.tolist(), *rest), None
    if name == _PACK:
        positions, sizes = _numbers(func, torch.arange, x.shape[0] * x.shape[1], x.shape[:2], layout, *rest)
        return x.flatten(0, 1).index_select(0, positions[..., 0]), sizes
    batch_first, padding, steps = rest
    positions, lengths = _numbers(func, _from_one, len(x), (len(x),), layout, batch_first, 0, steps)
    rows = torch.cat([x.new_full((1, *x.shape[1:]), padding), x])
    return rows.index_select(0, positions.flatten()).unflatten(0, positions.shape[:2]), lengths


def _numbers(
    func: Callable, count: Callable[[int], Tensor], rows: int, shape: Sequence[int], *args: Any
) -> tuple[Tensor, Tensor]:
    """Return the function's result for the positions of rows as its first argument."""
    with plainly():
        return func(count(rows).view(*shape, 1), *args)


def _from_one(rows: int) -> Tensor:
    return torch.arange(1, rows + 1)  # 0 is that of the padding


def _by_steps(name: str) -> Callable:
    """PyTorch's own decomposition of a recurrence into the operations of each step."""
    (decomposition,) = get_decompositions([getattr(torch.ops.aten, name).data]).values()
    return decomposition
