"""The base class of candidates whose framework transforms functions: all maps, by two or three of its transforms."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch

from parity_tests.harness.candidates.base import AnyCandidate, InDims, MaybeTensors, Tensors
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import Refused

Function = Callable[..., Any]  # of the framework's own arrays -> a tuple of them


class TransformedCandidate(AnyCandidate):
    """A subclass writes the transforms, the function of its own arrays, and how a function is called with tensors.

    A transform returns a function of flat arguments: `count` primals, then a cotangent, or a tangent, for each result.
    """

    @abstractmethod
    def _outputs(self, *args: Any) -> Any:
        """The differentiable outputs, of the framework's own arrays."""

    @abstractmethod
    def _evaluated(self, f: Function, args: Sequence[torch.Tensor]) -> Any:
        """The results of a function of the framework's own arrays, as tensors."""

    @staticmethod
    @abstractmethod
    def _vjp(f: Function, count: int) -> Function:
        """Reverse mode."""

    @staticmethod
    @abstractmethod
    def _jvp(f: Function, count: int) -> Function:
        """Forward mode."""

    def _vmapped(self, f: Function, in_dims: InDims, outer: InDims | None) -> Function:
        """Map a function over examples, and over batches of them if there is an `outer`; refused by default."""
        self._refuse("vmap")

    def jvp(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> MaybeTensors:
        """Forward mode: return a tangent for each output."""
        return self._evaluated(self._jvp(self._outputs, len(primals)), [*primals, *tangents])

    def vjp_of_vjp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over reverse; `count` is the number of the operator's inputs."""
        return self._evaluated(self._vjp(self._vjp(self._outputs, count), len(arguments)), [*arguments, *cotangents])

    def jvp_of_vjp(
        self,
        count: int,
        arguments: Sequence[torch.Tensor],
        tangents: Sequence[torch.Tensor],
        create_graph: bool = True,
    ) -> MaybeTensors:
        """Forward over reverse."""
        if not create_graph:
            raise Refused("transforms record no graph that could be left out", Reason.NO_RULE)
        return self._evaluated(self._jvp(self._vjp(self._outputs, count), len(arguments)), [*arguments, *tangents])

    def vjp_of_jvp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over forward."""
        return self._evaluated(self._vjp(self._jvp(self._outputs, count), len(arguments)), [*arguments, *cotangents])

    def jvp_of_jvp(
        self, count: int, arguments: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Forward over forward."""
        return self._evaluated(self._jvp(self._jvp(self._outputs, count), len(arguments)), [*arguments, *tangents])

    def vjp_of_vjp_of_vjp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over reverse over reverse; `count` is the number of the operator's inputs."""
        gradients = self._vjp(self._vjp(self._outputs, count), len(arguments) - count)
        return self._evaluated(self._vjp(gradients, len(arguments)), [*arguments, *cotangents])

    def vmap(self, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None) -> Tensors:
        """Return the outputs for a batch, which is their first axis. `outer`: the `in_dims` of an enclosing vmap."""
        return self._evaluated(self._vmapped(self._outputs, in_dims, outer), args)

    def vmap_of_vjp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """Return the gradients of every example.

        `in_dims` has an axis for each of the `count` inputs and each cotangent; `outer` is that of an enclosing vmap.
        """
        return self._evaluated(self._vmapped(self._vjp(self._outputs, count), in_dims, outer), args)

    def vmap_of_jvp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """Return the tangents of every example.

        `in_dims` has an axis for each of the `count` inputs and each tangent; `outer` is that of an enclosing vmap.
        """
        return self._evaluated(self._vmapped(self._jvp(self._outputs, count), in_dims, outer), args)

    def vjp_of_vmap(self, in_dims: InDims, args: Sequence[torch.Tensor]) -> MaybeTensors:
        """Return the gradients of a vmapped call; that of an unbatched input is the sum over the examples."""
        return self._evaluated(self._vjp(self._vmapped(self._outputs, in_dims, None), len(in_dims)), args)
