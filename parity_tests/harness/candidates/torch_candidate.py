"""Candidates in PyTorch: callables on tensors, whose maps are made by autograd and torch.func."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import torch
from torch.autograd import forward_ad
from torch.utils.checkpoint import CheckpointError

from parity_tests.harness.candidates.base import AnyCandidate, InDims, MaybeTensors, Tensors
from parity_tests.harness.candidates.inplace_writes import WRITTEN, InplaceWriteDetector
from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_graphs import (
    Graph,
    differentiable_again,
    nodes,
    pullback,
    refusing_to_be_recorded,
    refusing_to_differentiate_again,
)
from parity_tests.harness.candidates.torch_leaves import accumulate, laid_out, leaves_of
from parity_tests.harness.candidates.torch_modules import evaluated, with_parameters
from parity_tests.harness.candidates.torch_refusals import CHECKPOINTED, NESTED_FORWARD, BadOutput, Refused, refusals
from parity_tests.harness.numbers.contracts import Arithmetic, check_arithmetic


class Candidate(AnyCandidate):
    """A callable on tensors, with its name, its known limits, and how many outputs it must have.

    Args:
        call: the callable: a function, an `autograd.Function.apply`, an operator; or an `nn.Module`, whose parameters,
            in the order of `named_parameters`, are inputs after those of its `forward` if the spec has so many.
        name: its name in reports; by default that of `call`.
        limits: the checks that it is known to fail, each with the reason; a limit that does not hold is a failure.
            `None`: those that its author declares by PyTorch's own means (no `jvp`, no vmap rule, ...), and what
            PyTorch's operators lack themselves (a dtype, forward mode of a gradient).
        arithmetic: what it rounds in the 16-bit dtypes, if that is to be held against it; see `Arithmetic`.
    """

    def __init__(
        self,
        call: Callable,
        name: str = "",
        limits: Mapping[str, str] | None = None,
        arithmetic: Arithmetic | None = None,
    ) -> None:
        if not callable(call):
            raise TypeError(f"candidate {name!r} must be callable on tensors, got {type(call).__name__}")
        check_arithmetic(f"Candidate {name}".rstrip(), arithmetic)
        self.given, self.call, self.name, self.limits = call, with_parameters(call), name, limits
        self.arithmetic = arithmetic
        self.constants: Mapping[int, torch.Tensor | None] = {}
        self.params: Mapping[str, object] = {}
        self.returns: Outputs | None = None
        self.arranged: Callable[[Sequence], Sequence] | None = None
        self._by_backward = False

    framework = "torch"
    batch_axes = (0, -1)  # PyTorch passes the axis to a vmap staticmethod unchanged

    def __reduce__(self) -> tuple:
        """Pickle the candidate by reference to its author's function; see `isolation.by_name`."""
        return Candidate, (self.source, self.name, self.limits, self.arithmetic)

    @property
    def source(self) -> Callable:
        """The callable that the author wrote, for names and reproducers."""
        return self.given

    def named(self, name: str, limits: Mapping[str, str] | None, arithmetic: Arithmetic | None = None) -> Candidate:
        """Return the same candidate under this name, with these limits, and this arithmetic if it is given."""
        return Candidate(self.source, name, limits, arithmetic or self.arithmetic)

    def with_constants(self, constants: Mapping[int, torch.Tensor | None]) -> Candidate:
        """Return the same candidate, bound to these constants."""
        return self.bound(constants, self.params)

    def bound(
        self,
        constants: Mapping[int, torch.Tensor | None],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> Candidate:
        """Return the candidate as a function of the differentiated inputs alone; see `AnyCandidate.bound`."""
        candidate = self.through(self.call)
        candidate.given, candidate.constants, candidate.params = self.given, constants, params
        candidate.returns = self.returns if returns is None or returns.is_plain else returns
        candidate.arranged = arranged or self.arranged
        return candidate

    def through(self, call: Callable) -> Candidate:
        """Return a candidate that calls this function instead, bound to nothing; its gradients are got alike."""
        candidate = Candidate(call, self.name, self.limits, self.arithmetic)
        candidate._by_backward = self._by_backward
        return candidate

    def after_operations(self, results: Collection[int]) -> Candidate:
        """Return the same function, which gets copies of these inputs: autograd knows that they are results."""
        return self.through(lambda *x: self.forward([y.clone() if i in results else y for i, y in enumerate(x)]))

    def by_backward(self) -> Candidate | None:
        """Return the same candidate, whose gradients are those of `.backward()`; None if this is it."""
        if self._by_backward:
            return None
        candidate = self.with_constants(self.constants)
        candidate._by_backward = True
        return candidate

    def positional(self, args: Sequence[torch.Tensor]) -> Sequence:
        """Return the arguments that the callable itself takes for these inputs and the bound constants."""
        full: list[torch.Tensor | None] = list(args)
        for i in sorted(self.constants):
            full.insert(i, self.constants[i])
        return full if self.arranged is None else self.arranged(full)

    def evaluating(self) -> contextlib.AbstractContextManager[bool]:
        """Put the modules that the callable is, or reaches, into `eval()`; see `AnyCandidate.evaluating`."""
        return evaluated(self.given, self.call)

    def forward(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return the outputs that are differentiable.

        Raises:
            BadOutput: the outputs are not arrays, or not as many as the operator has.
            Refused: the candidate, or its framework, says that it does not support this.
        """
        outputs = self.every_output(args)
        return outputs if self.returns is None else self.returns.real(outputs)

    def every_output(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return all outputs, integers included, in the oracle's order; raises what `forward` does."""
        with refusals():
            outputs = self.call(*self.positional(args), **self.params)
        if self.returns is not None:
            outputs = self.returns.arranged(outputs)
        outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        for y in outputs:
            if not isinstance(y, torch.Tensor):
                raise BadOutput(f"returned {type(y).__name__} where a tensor, or a tuple of tensors, is expected")
            if y.is_nested or y.layout is not torch.strided:
                kind = "nested" if y.is_nested else str(y.layout).removeprefix("torch.")
                raise BadOutput(f"returned a tensor that is {kind}, where a dense one is expected")
        return outputs

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Reverse mode; an absent cotangent reaches the backward undefined. `requires_grad`: for which inputs."""
        return self.record(primals, requires_grad).vjp(cotangents)

    def record(self, primals: Sequence[torch.Tensor], requires_grad: Sequence[bool] | None = None) -> Graph:
        """Run the forward alone, recorded by autograd; the leaves share the memory of the primals."""
        leaves = leaves_of(primals, requires_grad)
        return Graph(leaves, self.forward(leaves), self._by_backward)

    def accumulated(
        self,
        primals: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor | None],
        cotangents: Sequence[Sequence[torch.Tensor | None]],
    ) -> MaybeTensors:
        """Return the `.grad` of each input after a forward and a `.backward()` for each of the cotangents."""
        leaves = leaves_of(primals)
        for x, gradient in zip(leaves, gradients, strict=True):
            x.grad = gradient
        for directions in cotangents:
            accumulate(self.forward(leaves), directions)
        return laid_out(tuple(x.grad for x in leaves), leaves)

    def vjp_undefined(self, primals: Sequence[torch.Tensor]) -> MaybeTensors | None:
        """Reverse mode when no cotangent at all is defined; None if nothing can be differentiated."""
        leaves = leaves_of(primals)
        results = [y for y in self.forward(leaves) if y.requires_grad]
        if not results:
            return None
        absent = _Undefined.apply(*results)
        return Graph(leaves, absent, self._by_backward).vjp([torch.ones_like(y) for y in absent])

    def jvp(self, primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor | None]) -> MaybeTensors:
        """Forward mode: return a tangent for each output."""
        with forward_ad.dual_level():
            results = tuple(forward_ad.unpack_dual(y).tangent for y in self.forward(_duals(primals, tangents)))
            if all(y_dot is None for y_dot in results):
                # PyTorch calls the jvp of a `torch.library.custom_op` operator only while gradients are recorded.
                self.forward(_duals(leaves_of(primals), tangents))
            return results

    def vjp_of_vjp(
        self,
        count: int,
        arguments: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Reverse over reverse (double backward), of `count` inputs; `requires_grad`: for which arguments."""
        arguments = leaves_of(arguments, requires_grad)
        primals, inner = arguments[:count], arguments[count:]
        with refusing_to_be_recorded(partial(self.vjp, primals, inner)):
            gradients = differentiable_again(pullback(self.forward(primals), primals, inner, create_graph=True))
            with refusing_to_differentiate_again():
                return pullback(gradients, arguments, cotangents, create_graph=False)

    def vjp_of_vjp_of_vjp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over reverse over reverse; `count` is the number of the operator's inputs."""
        arguments = leaves_of(arguments)
        first, second = arguments[:-count], arguments[-count:]
        primals, inner = first[:count], first[count:]
        with refusing_to_be_recorded(partial(self.vjp, primals, inner)):
            gradients = differentiable_again(pullback(self.forward(primals), primals, inner, create_graph=True))
            with refusing_to_differentiate_again():
                gradients = differentiable_again(pullback(gradients, first, second, create_graph=True))
                return pullback(gradients, arguments, cotangents, create_graph=False)

    def jvp_of_vjp(
        self,
        count: int,
        arguments: Sequence[torch.Tensor],
        tangents: Sequence[torch.Tensor],
        create_graph: bool = True,
    ) -> MaybeTensors:
        """Forward over reverse. Without `create_graph` the backward runs with gradients off, as for a bare HVP."""
        first_order = partial(self.vjp, arguments[:count], arguments[count:])
        with refusing_to_be_recorded(first_order), forward_ad.dual_level():
            duals = _duals(leaves_of(arguments), tangents)
            primals, inner = duals[:count], duals[count:]
            gradients = differentiable_again(pullback(self.forward(primals), primals, inner, create_graph))
            return tuple(None if g is None else forward_ad.unpack_dual(g).tangent for g in gradients)

    def vjp_of_jvp(
        self, count: int, arguments: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Reverse over forward.

        Raises:
            Refused: PyTorch's own formula for a JVP writes to what its derivative needs, as that of logsumexp does; or
                `torch.utils.checkpoint` runs the forward again without tangents.
        """
        arguments = leaves_of(arguments)

        def pulled_back() -> MaybeTensors:
            tangents = self.jvp(arguments[:count], arguments[count:])
            return pullback(tangents, arguments, cotangents, create_graph=False)

        try:
            return pulled_back()
        except CheckpointError as error:
            raise Refused(f"{CHECKPOINTED}: {str(error).splitlines()[0]}", Reason.CHECKPOINTED) from error
        except RuntimeError as error:
            if WRITTEN not in str(error):
                raise
            with InplaceWriteDetector() as writes, contextlib.suppress(RuntimeError):
                pulled_back()
            if writes.seen:  # the candidate's own code may be to blame
                raise
            text = f"RuntimeError: {str(error).split(': ')[0]}, by PyTorch's own formula"
            raise Refused(text, Reason.JVP_IN_PLACE) from error

    def jvp_of_jvp(
        self, count: int, arguments: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]
    ) -> MaybeTensors:
        """Forward over forward, which PyTorch has in torch.func only.

        Raises:
            Refused: the candidate goes through a Python `autograd.Function`, where PyTorch's answer would be wrong.
        """
        outputs = self.forward(leaves_of(arguments[:count]))
        if any(isinstance(node, torch.autograd.function.BackwardCFunction) for node in nodes(outputs)):
            raise Refused(NESTED_FORWARD, Reason.NESTED_FORWARD)

        def inner(*args: torch.Tensor) -> Tensors:
            return torch.func.jvp(lambda *x: self.forward(x), args[:count], args[count:])[1]

        with refusals():
            return torch.func.jvp(inner, tuple(arguments), tuple(tangents))[1]

    def vmap(self, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None) -> Tensors:
        """Return the outputs for a batch, which is their first axis. `outer`: the `in_dims` of an enclosing vmap."""

        def outputs(*example: torch.Tensor) -> Tensors:
            return self.forward(example)

        return _vmapped(outputs, in_dims, outer, args)

    def vmap_of_vjp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """Return the gradients of every example.

        `in_dims` has an axis for each of the `count` inputs and each cotangent; `outer` is that of an enclosing vmap.
        """

        def gradients(*example: torch.Tensor) -> Tensors:
            return torch.func.vjp(lambda *x: self.forward(x), *example[:count])[1](tuple(example[count:]))

        return _vmapped(gradients, in_dims, outer, args)

    def vmap_of_jvp(
        self, count: int, in_dims: InDims, args: Sequence[torch.Tensor], outer: InDims | None = None
    ) -> MaybeTensors:
        """Return the tangents of every example.

        `in_dims` has an axis for each of the `count` inputs and each tangent; `outer` is that of an enclosing vmap.
        """

        def tangents(*example: torch.Tensor) -> Tensors:
            return torch.func.jvp(lambda *x: self.forward(x), example[:count], example[count:])[1]

        return _vmapped(tangents, in_dims, outer, args)

    def vjp_of_vmap(self, in_dims: InDims, args: Sequence[torch.Tensor]) -> MaybeTensors:
        """Return the gradients of a vmapped call; that of an unbatched input is the sum over the examples."""
        leaves, cotangents = leaves_of(args[: len(in_dims)]), args[len(in_dims) :]
        return pullback(self.vmap(in_dims, leaves), leaves, cotangents, create_graph=False)


def _vmapped(f: Callable, in_dims: InDims, outer: InDims | None, args: Sequence[torch.Tensor]) -> Tensors:
    """Return f, a function of one example, for all examples of a batch; with `outer`, for a batch of batches."""
    batched = torch.func.vmap(f, in_dims=tuple(in_dims))
    if outer is not None:
        batched = torch.func.vmap(batched, in_dims=tuple(outer))
    with refusals():
        return batched(*args)


class _Undefined(torch.autograd.Function):
    """The identity with a backward that returns undefined gradients, so that a backward gets no cotangent at all."""

    @staticmethod
    def forward(ctx, *args):
        """Return views of the inputs."""
        return tuple(x.view_as(x) for x in args)

    @staticmethod
    def backward(ctx, *cotangents):
        """Return an undefined gradient for each input."""
        return (None,) * len(cotangents)


def _duals(primals: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    return [x if t is None else forward_ad.make_dual(x, t) for x, t in zip(primals, tangents, strict=True)]


def may_be_written(x: torch.Tensor) -> bool:
    """Return whether each entry has its own memory; PyTorch refuses to write to the result of `expand`."""
    return all(stride != 0 or size <= 1 for stride, size in zip(x.stride(), x.shape, strict=True))
