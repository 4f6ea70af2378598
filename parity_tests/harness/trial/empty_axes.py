"""Operators of PyTorch that do not treat an empty axis as a sum of no terms.

A convolution of no channels is zero by its definition, of the usual shape. PyTorch's has no channels itself then, on
every device. A candidate that is made of it can do no better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from parity_tests.harness.trial.trial import Trial


def of_another_shape(trial: Trial, outputs: Sequence[torch.Tensor]) -> str | None:
    """Why outputs have another shape than the oracle's, if an operator of PyTorch makes them so."""
    shapes = trial.oracle.shapes(tuple(x.shape for x in trial.primals))
    pairs = [(tuple(y.shape), shapes[name]) for name, y in zip(trial.oracle.outputs, outputs, strict=False)]
    found, expected = next((pair for pair in pairs if pair[0] != pair[1]), ((), ()))
    if found == expected or trial.candidate.framework != "torch":
        return None
    with _Emptied() as emptied:
        trial.candidate.forward(trial.tensors(trial.primals))
    if not emptied.names:
        return None
    return f"PyTorch's {emptied.names[0]} has an empty result there, so that an output is {found} and not {expected}"


class _Emptied(TorchDispatchMode):
    """Notes the operators whose result has an empty axis that does not come from the operands' empty axes.

    Where these have one entry instead, an axis that comes from them has one, too. That of a convolution has as many
    entries as there are filters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.namespace == "aten" and isinstance(result, torch.Tensor) and 0 in result.shape:
            other = _with_entries(func, args, kwargs or {}) or result.shape
            if any(size == 0 and otherwise > 1 for size, otherwise in zip(result.shape, other, strict=False)):
                self.names.append(func.overloadpacket.__name__)
        return result


def _with_entries(func: Callable, args: tuple, kwargs: Mapping[str, Any]) -> Sequence[int] | None:
    """The shape of an operator's result where each empty axis of its operands has one entry; None if that fails."""
    empty: list[torch.Tensor] = []

    def filled(x: torch.Tensor) -> torch.Tensor:
        empty.extend([x] * (0 in x.shape))
        return torch.zeros([size or 1 for size in x.shape], dtype=x.dtype, device="meta")

    others, options = tree_map_only(torch.Tensor, filled, (args, dict(kwargs)))
    if not empty:
        return None
    try:
        return func(*others, **options).shape
    except (RuntimeError, ValueError, IndexError, TypeError):  # it may be told sizes, as `view` is
        return None
