"""Tensors that a candidate's code detaches, or computes under its own `torch.no_grad`: recorded, and held constant."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

_HARNESS = str(Path(__file__).parents[1])


class Detached(TorchFunctionMode):
    """Notes the tensors that the candidate's code in Python detaches, or computes with gradients turned off.

    In the forward of a `torch.autograd.Function` PyTorch has turned them off already: a `detach` there decides nothing.

    Attributes:
        found: copies of these tensors, in the order of the calls.
        repeats: whether the calls are those of the recording so far; see `held`.
    """

    def __init__(self, recorded: Sequence[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.found: list[torch.Tensor] = []
        self.repeats = True
        self._recorded: Iterator[torch.Tensor] | None = None if recorded is None else iter(recorded)
        self._off = self._on_again = False

    def held(self) -> Detached:
        """Return a mode in which each of these calls has the value it had here, as a constant has."""
        return Detached(self.found)

    def __torch_function__(self, func: Callable, types, args=(), kwargs=None):
        """Call the function; the result of what detaches is noted, or what it was when it was recorded."""
        if sys._getframe(1).f_code.co_filename.startswith(_HARNESS):
            return func(*args, **(kwargs or {}))
        if func is torch._C._set_grad_enabled:
            self._turned(bool(args[0]))
            return func(*args, **(kwargs or {}))
        enabled = torch.is_grad_enabled()
        of_data = getattr(func, "__self__", None) is torch.Tensor.data
        detaches = (of_data or func in (torch.Tensor.detach, torch.detach)) if enabled else self._off
        result = func(*args, **(kwargs or {}))
        if not detaches:
            return result
        written = args[0] if result is None and args and isinstance(args[0], torch.Tensor) else None
        given = {id(x) for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if written is not None:
                self._one(written, in_place=True)
            return tree_map_only(torch.Tensor, lambda y: self._one(y, in_place=id(y) in given), result)

    def _turned(self, on: bool) -> None:
        """Note whether the candidate turns gradients off, unless PyTorch has done so, around a Function's forward."""
        if on:
            self._on_again = not torch.is_grad_enabled() and not self._off
            self._off = False
        else:
            self._off = self._off or (torch.is_grad_enabled() and not self._on_again)
            self._on_again = False

    def _one(self, y: torch.Tensor, in_place: bool) -> torch.Tensor:
        if self._recorded is None:
            self.found.append(y.detach().clone())
            return y
        before = next(self._recorded, None)
        if before is None or (before.shape, before.dtype) != (y.shape, y.dtype):
            self.repeats = False
            return y
        if in_place:
            return y.copy_(before)
        return before.clone().requires_grad_(y.requires_grad)
