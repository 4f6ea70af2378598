"""The interface of a candidate, in whatever framework: the maps that the checks call, on tensors.

A framework is one file with a class that inherits from `AnyCandidate`: it writes `bound`, `named`, `forward` and `vjp`.
Whatever else it leaves out is refused in its name, which makes a row UNSUPPORTED and no failure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, Self, runtime_checkable

import torch

from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.own_arrays import Writes
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import Refused
from parity_tests.harness.numbers.contracts import Arithmetic

Tensors = tuple[torch.Tensor, ...]
MaybeTensors = tuple[torch.Tensor | None, ...]
InDims = Sequence[int | None]  # the axis of each argument that vmap takes for the batch; None: it is in every example


class Recorded(Protocol):
    """A call of a candidate whose backward may run later, and more than once."""

    @property
    def inputs(self) -> Sequence[torch.Tensor]:
        """The inputs of the call."""
        ...

    @property
    def outputs(self) -> Tensors:
        """The differentiable outputs of the call."""
        ...

    def vjp(self, cotangents: Sequence[torch.Tensor | None], retain_graph: bool = False) -> MaybeTensors:
        """Return the gradients of the inputs."""
        ...


@runtime_checkable
class AnyCandidate(Protocol):
    """A candidate in any framework. Its maps take and return tensors; a subclass converts them to its own arrays.

    Attributes:
        name: the name of the candidate in reports.
        limits: the checks that it is known to fail, each with the reason; `None`: those that it refuses itself.
        arithmetic: what it rounds in the 16-bit formats, to which values and first derivatives are then held; `None`:
            a result may be off as if every operation was rounded, and is SUSPECT if its error does not look like it.
        framework: the framework's name in messages; checks about PyTorch run where it is "torch".
        batch_axes: the axes of an input along which the check `vmap` batches.
    """

    name: str
    limits: Mapping[str, str] | None
    framework: str
    arithmetic: Arithmetic | None = None
    batch_axes: tuple[int, ...] = (0,)

    @property
    def source(self) -> Callable:
        """The callable that the author wrote, for names and reproducers."""
        ...

    def named(self, name: str, limits: Mapping[str, str] | None, arithmetic: Arithmetic | None = None) -> Self:
        """Return the same candidate under this name, with these limits, and this arithmetic if it is given."""
        ...

    def bound(
        self,
        constants: Mapping[int, torch.Tensor | None],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> Self:
        """Return the candidate as a function of the differentiated inputs alone.

        Args:
            constants: the other inputs, by their positions among all of them; None for one that is absent.
            params: keyword parameters.
            returns: the structure of what the operator returns, if that is more than a tuple of numbers; None keeps the
                one that is known already.
            arranged: maps the inputs to the arguments that the callable takes; None keeps the known one.
        """
        ...

    def with_constants(self, constants: Mapping[int, torch.Tensor | None]) -> Self:
        """Return the candidate bound to these constants in another format; by default it keeps its own."""
        return self

    def without(self, inputs: Collection[int]) -> Self:
        """Return the candidate where these inputs, which would be differentiated, are absent: constants that are None.

        By default it need not know; one whose gradients and tangents are arguments and results of formulas must.
        """
        return self

    @property
    def untraced(self) -> Self:
        """The same candidate, run by its framework outside of any trace; itself where it always is."""
        return self

    def watching(self, writes: Writes) -> Self | None:
        """Return the same candidate, which notes in `writes` the arrays of its own framework that a call writes to.

        None if it cannot tell, as by default; PyTorch's tensors are looked at themselves.
        """
        return None

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[bool]:
        """Put the candidate's modules into `eval()` for the block; yield False if there is nothing to judge in it.

        There is none where it has no modules, as by default, or where they mean another function in `eval()`.
        """
        yield False

    def forward(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return the outputs that are differentiable.

        Raises:
            BadOutput: the outputs are not arrays, or not as many as the operator has.
            Refused: the candidate, or its framework, says that it does not support this.
        """
        ...

    def every_output(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return all outputs, integers included, in the oracle's order; by default all are differentiable."""
        return self.forward(args)

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Reverse mode: return a gradient for each input, or None for a zero.

        Args:
            primals: the inputs.
            cotangents: one for each output; None for an output that takes no part.
            requires_grad: which inputs need a gradient; by default all.
        """
        ...

    def accumulated(
        self,
        primals: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor | None],
        cotangents: Sequence[Sequence[torch.Tensor | None]],
    ) -> MaybeTensors:
        """Return the gradient that each input has after several backwards, which PyTorch adds to the one it has.

        Args:
            primals: the inputs.
            gradients: the gradient that each of them has before; None for no gradient yet.
            cotangents: one for each output, for each of the calls whose backwards follow one another.
        """
        self._refuse("gradients that accumulate")

    def vjp_undefined(self, primals: Sequence[torch.Tensor]) -> MaybeTensors | None:
        """Reverse mode when every cotangent is absent; None if nothing can be differentiated."""
        return self.vjp(primals, [None] * len(self.forward(primals)))

    def record(self, primals: Sequence[torch.Tensor], requires_grad: Sequence[bool] | None = None) -> Recorded:
        """The forward alone, with a backward that may follow; by default `vjp`, which calls the forward again."""
        return Recalled(self, primals, self.forward(primals), requires_grad)

    def jvp(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> MaybeTensors:
        """Forward mode: return a tangent for each output."""
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
        """Reverse over reverse over reverse; `count` is the number of the operator's inputs."""
        self._refuse("third order")

    def vmap(self, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None) -> Tensors:
        """Return the outputs for a batch, which is their first axis. `outer`: the `in_dims` of an enclosing vmap."""
        self._refuse("vmap")

    def vmap_of_vjp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """Return the gradients of every example.

        `in_dims` has an axis for each of the `count` inputs and each cotangent; `outer` is that of an enclosing vmap.
        """
        self._refuse("vmap")

    def vmap_of_jvp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """Return the tangents of every example.

        `in_dims` has an axis for each of the `count` inputs and each tangent; `outer` is that of an enclosing vmap.
        """
        self._refuse("vmap")

    def vjp_of_vmap(self, in_dims: InDims, args: Sequence[torch.Tensor]) -> MaybeTensors:
        """Return the gradients of a vmapped call; that of an unbatched input is the sum over the examples."""
        self._refuse("vmap")

    def _refuse(self, what: str) -> NoReturn:
        raise Refused(f"{self.name}, a candidate in {self.framework}, has no {what}", Reason.NO_RULE)


@dataclass(frozen=True)
class Recalled:
    """A call whose backward calls the candidate again: for frameworks that keep no graph."""

    candidate: AnyCandidate
    inputs: Sequence[torch.Tensor]
    outputs: Tensors
    requires_grad: Sequence[bool] | None

    def vjp(self, cotangents: Sequence[torch.Tensor | None], retain_graph: bool = False) -> MaybeTensors:
        """Return the gradients; may be called any number of times."""
        return self.candidate.vjp(self.inputs, cotangents, self.requires_grad)
