"""The base class of candidates that keep a function of their framework's arrays with the constants it is bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch

from parity_tests.harness.candidates.base import AnyCandidate, Tensors
from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.own_arrays import Writes
from parity_tests.harness.numbers.contracts import Arithmetic, check_arithmetic


@dataclass(frozen=True)
class BoundCandidate(AnyCandidate):
    """A subclass calls the function with these constants and parameters, and says what of it a `Writes` watches."""

    call: Callable
    name: str = ""
    limits: Mapping[str, str] | None = None
    arithmetic: Arithmetic | None = None
    constants: Mapping[int, torch.Tensor | None] = field(default_factory=dict, repr=False)
    params: Mapping[str, object] = field(default_factory=dict, repr=False)
    returns: Outputs | None = field(default=None, repr=False)
    arranged: Callable[[Sequence], Sequence] | None = field(default=None, repr=False)
    writes: Writes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_arithmetic(f"{type(self).__name__} {self.name}".rstrip(), self.arithmetic)

    @property
    def source(self) -> Callable:
        """The function that the author wrote."""
        return self.call

    def named(self, name: str, limits: Mapping[str, str] | None, arithmetic: Arithmetic | None = None) -> Self:
        """Return the same candidate under this name, with these limits, and this arithmetic if it is given."""
        return replace(self, name=name, limits=limits, arithmetic=arithmetic or self.arithmetic)

    def bound(
        self,
        constants: Mapping[int, torch.Tensor | None],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> Self:
        """Return the candidate as a function of the differentiated inputs alone; see `AnyCandidate.bound`."""
        returns = self.returns if returns is None or returns.is_plain else returns
        return replace(self, constants=constants, params=params, returns=returns, arranged=arranged or self.arranged)

    def with_constants(self, constants: Mapping[int, torch.Tensor | None]) -> Self:
        """Return the same candidate, bound to these constants."""
        return replace(self, constants=constants)

    def watching(self, writes: Writes) -> Self:
        """Return the same candidate, which notes in `writes` the inputs that the function writes to."""
        return replace(self, writes=writes)

    def forward(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return the outputs that are differentiable."""
        outputs = self.every_output(args)
        return outputs if self.returns is None else self.returns.real(outputs)

    def _with_gaps(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the differentiated inputs at their places among all inputs, with None for each constant."""
        inputs = list(arrays)
        for i in sorted(self.constants):
            inputs.insert(i, None)
        return inputs
