"""What every candidate offers, in whatever framework: the maps that the checks call, on tensors.

A framework is one file with a class that inherits from `AnyCandidate`: it writes `bound`, `named`, `forward` and `vjp`.
Whatever else it leaves out is refused in its name, which makes a row UNSUPPORTED and no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, Self, runtime_checkable

import torch

from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.torch_refusals import Refused

Tensors = tuple[torch.Tensor, ...]
MaybeTensors = tuple[torch.Tensor | None, ...]
InDims = Sequence[int | None]  # the axis of each argument that vmap takes for the batch; None: it is in every example


class Recorded(Protocol):
    """A call of a candidate whose backward may run later, and more than once."""

    @property
    def inputs(self) -> Sequence[torch.Tensor]: ...

    @property
    def outputs(self) -> Tensors: ...

    def vjp(self, cotangents: Sequence[torch.Tensor | None], retain_graph: bool = False) -> MaybeTensors:
        """The gradients of the inputs."""
        ...


@runtime_checkable
class AnyCandidate(Protocol):
    """A candidate in any framework. Tensors go in and come out; a class converts them to its framework's arrays.

    Attributes:
        name: its name in reports.
        limits: the checks that it is known to fail, each with the reason; `None`: those that it refuses itself.
        framework: the framework's name in messages; checks that are about PyTorch run where it is "torch".
        batch_axes: the axes of an input along which the check `vmap` batches.
    """

    name: str
    limits: Mapping[str, str] | None
    framework: str
    batch_axes: tuple[int, ...] = (0,)

    @property
    def source(self) -> Callable:
        """What its author wrote, for names and reproducers."""
        ...

    def named(self, name: str, limits: Mapping[str, str] | None) -> Self:
        """The same under this name, with these limits."""
        ...

    def bound(
        self,
        constants: Mapping[int, torch.Tensor],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> Self:
        """The same as a function of the differentiated inputs alone.

        Args:
            constants: the other inputs, by their positions among all of them.
            params: keyword parameters.
            returns: what the operator returns, if that is more than a tuple of numbers; None for what is known already.
            arranged: takes the inputs to the arguments that the callable takes; None for what is known already.
        """
        ...

    def with_constants(self, constants: Mapping[int, torch.Tensor]) -> Self:
        """The same, bound to these constants in another format; by default it keeps those that it has."""
        return self

    def forward(self, args: Sequence[torch.Tensor]) -> Tensors:
        """The outputs that are differentiable.

        Raises:
            BadOutput: they are not arrays, or not as many as the operator has.
            Refused: the candidate, or the framework for it, says that it does not support this.
        """
        ...

    def every_output(self, args: Sequence[torch.Tensor]) -> Tensors:
        """All outputs, integers included, in the order of the oracle's; by default all are differentiable."""
        return self.forward(args)

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Reverse mode: a gradient for each input, or None for a zero.

        `cotangents`: one for each output, None where it takes no part. `requires_grad`: which inputs need a gradient;
        by default all.
        """
        ...

    def vjp_undefined(self, primals: Sequence[torch.Tensor]) -> MaybeTensors | None:
        """Reverse mode when every cotangent is absent; None if nothing can be differentiated."""
        return self.vjp(primals, [None] * len(self.forward(primals)))

    def record(self, primals: Sequence[torch.Tensor], requires_grad: Sequence[bool] | None = None) -> Recorded:
        """The forward alone, with a backward that may follow; by default `vjp`, which calls the forward again."""
        return Recalled(self, primals, self.forward(primals), requires_grad)

    def jvp(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> MaybeTensors:
        """Forward mode: a tangent for each output."""
        self._refuse("forward mode")

    def vjp_of_vjp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over reverse; `count` is the number of the operator's inputs."""
        self._refuse("reverse over reverse mode")

    def jvp_of_vjp(
        self,
        count: int,
        arguments: Sequence[torch.Tensor],
        tangents: Sequence[torch.Tensor],
        create_graph: bool = True,
    ) -> MaybeTensors:
        """Forward over reverse; without `create_graph` the inner backward is not recorded itself."""
        self._refuse("forward over reverse mode")

    def vjp_of_jvp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over forward."""
        self._refuse("reverse over forward mode")

    def jvp_of_jvp(
        self, count: int, arguments: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Forward over forward."""
        self._refuse("forward over forward mode")

    def vjp_of_vjp_of_vjp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over reverse over reverse."""
        self._refuse("third order")

    def vmap(self, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None) -> Tensors:
        """The outputs for a batch, which is the first axis of each. `outer`: those of a vmap around the first."""
        self._refuse("vmap")

    def vmap_of_vjp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """The gradients of every example; `in_dims` has an axis for each of the `count` inputs and each cotangent."""
        self._refuse("vmap")

    def vmap_of_jvp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """The tangents of every example; `in_dims` has an axis for each of the `count` inputs and each tangent."""
        self._refuse("vmap")

    def vjp_of_vmap(self, in_dims: InDims, args: Sequence[torch.Tensor]) -> MaybeTensors:
        """The gradients of a vmapped call; of an input that is not batched, the sum over the examples."""
        self._refuse("vmap")

    def _refuse(self, what: str) -> NoReturn:
        raise Refused(f"{self.name}, a candidate in {self.framework}, has no {what}", declared=True)


@dataclass(frozen=True)
class Recalled:
    """A call whose backward calls the candidate again: for frameworks that keep no graph."""

    candidate: AnyCandidate
    inputs: Sequence[torch.Tensor]
    outputs: Tensors
    requires_grad: Sequence[bool] | None

    def vjp(self, cotangents: Sequence[torch.Tensor | None], retain_graph: bool = False) -> MaybeTensors:
        """The gradients, as often as one likes."""
        return self.candidate.vjp(self.inputs, cotangents, self.requires_grad)
