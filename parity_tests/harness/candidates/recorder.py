"""A candidate that records its last call: the map, its arguments and its results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.numbers import conversion


@dataclass(frozen=True, eq=False)
class Argument:
    """A tensor as it was passed: its values, and, unless it is contiguous, the memory behind them."""

    values: np.ndarray
    requires_grad: bool
    strides: tuple[int, ...]
    offset: int
    memory: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Call:
    """A call of one of the maps. `create_graph`: True if the inner backward of a second-order map was recorded."""

    name: str
    arguments: tuple[Argument | None, ...]
    results: Sequence[torch.Tensor | None]
    create_graph: bool = True


class Recorder(Candidate):
    """A candidate whose `last` is its last call from outside; None if the numbers of that call cannot be read."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__(candidate.call, candidate.name, candidate.limits, candidate.arithmetic)
        self.given, self.constants, self.params = candidate.given, candidate.constants, candidate.params
        self.returns, self.arranged = candidate.returns, candidate.arranged
        self.last: Call | None = None
        self._inside = False

    def forward(self, args):
        """Call `Candidate.forward` and record it."""
        return self._recorded("forward", args, (), False, lambda: Candidate.forward(self, args))

    def vjp(self, primals, cotangents, requires_grad=None):
        """Call `Candidate.vjp` and record it."""
        flags = True if requires_grad is None else requires_grad
        return self._recorded(
            "vjp", primals, cotangents, flags, lambda: Candidate.vjp(self, primals, cotangents, requires_grad)
        )

    def jvp(self, primals, tangents):
        """Call `Candidate.jvp` and record it."""
        return self._recorded("jvp", primals, tangents, False, lambda: Candidate.jvp(self, primals, tangents))

    def vjp_of_vjp(self, count, arguments, cotangents, requires_grad=None):
        """Call `Candidate.vjp_of_vjp` and record it."""
        run = functools.partial(Candidate.vjp_of_vjp, self, count, arguments, cotangents, requires_grad)
        return self._recorded("vjp_of_vjp", arguments, cotangents, requires_grad or True, run)

    def jvp_of_vjp(self, count, arguments, tangents, create_graph=True):
        """Call `Candidate.jvp_of_vjp` and record it."""
        run = functools.partial(Candidate.jvp_of_vjp, self, count, arguments, tangents, create_graph)
        return self._recorded("jvp_of_vjp", arguments, tangents, True, run, create_graph)

    def vjp_of_jvp(self, count, arguments, cotangents):
        """Call `Candidate.vjp_of_jvp` and record it."""
        run = functools.partial(Candidate.vjp_of_jvp, self, count, arguments, cotangents)
        return self._recorded("vjp_of_jvp", arguments, cotangents, True, run)

    def jvp_of_jvp(self, count, arguments, tangents):
        """Call `Candidate.jvp_of_jvp` and record it."""
        run = functools.partial(Candidate.jvp_of_jvp, self, count, arguments, tangents)
        return self._recorded("jvp_of_jvp", arguments, tangents, False, run)

    def _recorded(
        self,
        name: str,
        points: Sequence[torch.Tensor],
        directions: Sequence[torch.Tensor | None],
        requires_grad: bool | Sequence[bool],
        run: Callable[[], Any],
        create_graph: bool = True,
    ) -> Any:
        if self._inside:  # a map that is made of others calls them; only the outermost call is recorded
            return run()
        self._inside, self.last = True, None
        flags = [requires_grad] * len(points) if isinstance(requires_grad, bool) else requires_grad
        try:
            arguments = (
                *(_argument(x, flag) for x, flag in zip(points, flags, strict=True)),
                *(None if x is None else _argument(x, False) for x in directions),
            )
        except RuntimeError:  # under vmap a tensor has no numbers that can be read
            arguments = None
        try:
            results = run()
        finally:
            self._inside = False
        if arguments is not None:
            self.last = Call(name, arguments, results, create_graph)
        return results


def _argument(x: torch.Tensor, requires_grad: bool) -> Argument:
    memory = None
    if not x.is_contiguous():
        whole = x.detach().as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
        memory = conversion.to_numpy(whole)
    return Argument(conversion.to_numpy(x), requires_grad, x.stride(), int(x.storage_offset()), memory)
