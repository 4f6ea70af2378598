"""The arguments that a `torch.autograd.Function` is applied to, read from the frame of its `apply`."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch._functorch import utils

_APPLY = torch.autograd.Function.apply.__func__.__code__


@dataclass(frozen=True)
class Applied:
    """A Function as it is applied.

    Attributes:
        function: its class.
        args: its arguments.
        kwargs: its keyword arguments.
    """

    function: type[torch.autograd.Function]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]

    @property
    def named(self) -> dict[str, Any]:
        """Its arguments by the names that its forward has for them, those of `*args` with numbers."""
        parameters = [*inspect.signature(self.function.forward).parameters.values()]
        takes_context = self.function.setup_context is torch.autograd.Function.setup_context
        signature = inspect.Signature(parameters[1:] if takes_context else parameters)
        found = dict[str, Any]()
        for name, value in signature.bind(*self.args, **self.kwargs).arguments.items():
            if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                found |= {f"{name}[{i}]": each for i, each in enumerate(value)}
            elif signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                found |= value
            else:
                found[name] = value
        return found


def applied_in(frame: FrameType | None) -> Applied | None:
    """Return the Function whose forward has a frame, the innermost one; None if there is none."""
    while frame is not None:
        if frame.f_code is _APPLY:
            variables = frame.f_locals
            return Applied(variables["cls"], variables["args"], variables["kwargs"])
        frame = frame.f_back
    return None


@contextlib.contextmanager
def before_each(call: Callable[[], None]) -> Iterator[None]:
    """Call something before the forward of each Function that is applied in this context.

    A Function's `apply` may be bound already, so that it is in the first thing which that calls.
    """
    unwrap = utils.unwrap_dead_wrappers

    def called_and_unwrapped(args: tuple[Any, ...]) -> tuple[Any, ...]:
        call()
        return unwrap(args)

    utils.unwrap_dead_wrappers = called_and_unwrapped
    try:
        yield
    finally:
        utils.unwrap_dead_wrappers = unwrap
