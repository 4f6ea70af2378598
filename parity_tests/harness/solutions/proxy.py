"""A solution in another process as a callable on tensors, which autograd can differentiate once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._C import _autograd, _functorch, _len_torch_dispatch_stack  # type: ignore[attr-defined]
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.utils._pytree import tree_leaves

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import BadOutput, Refused
from parity_tests.harness.solutions.guest import values
from parity_tests.harness.solutions.process import SolutionProcess
from parity_tests.harness.solutions.results import list_of, size_of, tensor_of, write

FIRST_ORDER = "a solution in a process of its own is judged to first order only; --no-isolate judges it in this process"

Answer = tuple[Mapping[str, Any], Sequence[bytearray]]


@dataclass(frozen=True, eq=False)
class Solution:
    """A solution that runs in a process of its own.

    Attributes:
        process: where it runs.
        names: the parameters, of a module, for which the last arguments of a call stand; None for all of them, if there
            are so many arguments.
    """

    process: SolutionProcess
    names: tuple[str, ...] | None = None

    @property
    def __name__(self) -> str:
        """The name in the solution's file."""
        return self.process.solved.name

    def named_parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the parameters of a module, as it was made."""
        self.process.start()
        yield from self.process.parameters.items()

    def with_parameters(self, names: Sequence[str]) -> Solution:
        """Return the same solution, whose last arguments are the parameters of these names."""
        return replace(self, names=tuple(names))

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """A block in which it is called in the mode of evaluation, as after `module.eval()`; a function as ever."""
        before, self.process.training = self.process.training, False
        try:
            yield
        finally:
            self.process.training = before

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Call it.

        Raises:
            FromSolution: it raises an exception, or its process ends.
            Refused: more than a first derivative is asked for.
            BadOutput: it returns something that is no tensor, or a subclass of its own.
            TypeError: an argument cannot be sent.
        """
        _refuse_other_modes([x for x in tree_leaves((args, params)) if isinstance(x, torch.Tensor)])
        packed = values.Packed()
        arguments = values.as_data((args, params), packed.add)
        call = _Call(self, arguments, packed, _ambient())
        flat = _Remote.apply(call, *packed.tensors)
        return values.from_data(call.tree, flat)


@dataclass(eq=False)
class _Call:
    """One call: what is sent, and what is known of it once it was answered."""

    solution: Solution
    arguments: Any
    packed: values.Packed
    ambient: Mapping[str, Any]
    tree: Any = None
    handle: tuple[int, int] = (0, 0)  # of the process, and of the call

    @property
    def process(self) -> SolutionProcess:
        return self.solution.process

    def forward(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Return the outputs, and those among them that cannot be differentiated."""
        request = {"do": "call", "arguments": self.arguments} | self.process.numbers.request(self.packed)
        request |= {"ambient": self.ambient, "names": self.solution.names, "training": self.process.training}
        answer = self.process.ask(request, self.packed.buffers)
        self.handle = answer[0]["generation"], answer[0]["n"]
        _reject_strange(answer)
        try:
            return self._read(answer)
        except Exception as error:  # whatever an answer that is none may raise
            raise self.process.refuted(str(error)) from None

    def _read(self, answer: Answer) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        header, buffers = answer
        inputs = self.packed.tensors
        _write(header["written"], buffers, inputs)
        outputs = [self._output(one, buffers) for one in list_of(header["outputs"])]
        self.tree = header["tree"]
        values.from_data(self.tree, outputs)
        self.process.results.keep(self.handle[1], outputs)
        fixed = [y for y, one in zip(outputs, header["outputs"], strict=True) if one["requires_grad"] is not True]
        return outputs, fixed

    def _output(self, one: Any, buffers: Sequence[bytearray]) -> torch.Tensor:
        y = self._result(one, buffers)
        alias = one["alias"]
        if alias is None:
            return y
        place, strides, offset, conj, neg = alias
        storage, strides = self.packed.storages[size_of(place)], tuple(map(size_of, list_of(strides)))
        last = size_of(offset) + sum((n - 1) * stride for n, stride in zip(y.shape, strides, strict=True))
        if y.numel() and (last + 1) * y.itemsize > storage.nbytes():
            raise ValueError("a view beyond its memory")
        view = torch.empty(0, dtype=y.dtype, device=storage.device)
        view.set_(storage, offset, tuple(y.shape), strides)  # type: ignore[call-overload]
        view = view.conj() if conj is True else view
        return torch._neg_view(view) if neg is True else view  # type: ignore[attr-defined]

    def backward(self, cotangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the gradients of the tensors."""
        packed = values.Packed()
        places = [None if w is None else packed.add(w) for w in cotangents]
        request = {"do": "backward", "handle": self.handle[1], "cotangents": places}
        request |= self.process.numbers.request(packed)
        request |= {"keep": _autograd._get_current_graph_task_keep_graph(), "ambient": _ambient()}
        answer = self.process.ask(request, packed.buffers, self.handle[0])
        _reject_strange(answer)
        header, buffers = answer
        inputs = self.packed.tensors
        try:
            _write(header["written"], buffers, [*inputs, *packed.tensors])
            gradients = [None if one is None else self._result(one, buffers) for one in list_of(header["gradients"])]
            if len(gradients) != len(inputs):
                raise ValueError(f"{len(gradients)} gradients for {len(inputs)} tensors")
        except Exception as error:  # whatever an answer that is none may raise
            raise self.process.refuted(str(error)) from None
        self.process.results.keep(header["n"], [g for g in gradients if g is not None])
        for x, gradient in zip(inputs, gradients, strict=True):
            if gradient is not None and (gradient.shape != x.shape or gradient.dtype != x.dtype):
                raise BadOutput(f"returned a gradient {tuple(gradient.shape)} of {gradient.dtype} for {tuple(x.shape)}")
        return gradients

    def _result(self, one: Any, buffers: Sequence[bytearray]) -> torch.Tensor:
        y = tensor_of(one["dtype"], one["shape"], buffers[size_of(one["buffer"])])
        device = one["device"]
        if device not in {"cpu", *(x.device.type for x in self.packed.tensors)}:
            raise ValueError("a device where no input is")
        return y.to(device)

    def release(self) -> None:
        """Say that no backward will follow."""
        self.process.released.append(self.handle)


class _Handle:
    """Held by a node of autograd's graph: when that goes, the other process may forget the call."""

    def __init__(self, call: _Call) -> None:
        self.call = call

    def __del__(self) -> None:
        self.call.release()


class _Remote(torch.autograd.Function):
    """A call in the other process as a node of the graph."""

    @staticmethod
    def forward(ctx, call, *tensors):
        """Return the outputs, a flat tuple."""
        ctx.set_materialize_grads(False)
        outputs, fixed = call.forward()
        ctx.mark_non_differentiable(*fixed)
        ctx.handle = _Handle(call)
        ctx.save_for_backward(torch.empty(0))  # so that a second backward is refused as ever
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *cotangents):
        """Return the gradients of the tensors."""
        _ = ctx.saved_tensors
        if torch.is_grad_enabled():
            raise Refused(FIRST_ORDER, Reason.APART)
        return None, *ctx.handle.call.backward(cotangents)


def _refuse_other_modes(tensors: Sequence[torch.Tensor]) -> None:
    """Raise Refused if more than values and first derivatives of plain tensors is asked for."""
    transformed = _functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    hooked = _autograd._top_saved_tensors_default_hooks(True) is not None
    traced = _len_torch_dispatch_stack() > 0 or any(isinstance(x, FakeTensor) or x.is_meta for x in tensors)
    if transformed or hooked or traced or torch.compiler.is_compiling():
        raise Refused(FIRST_ORDER, Reason.APART)
    odd = next((x for x in tensors if x.layout is not torch.strided or x.is_nested), None)
    if odd is not None:
        raise Refused("a solution in a process of its own is called with dense tensors only", Reason.OWN)


def _ambient() -> dict[str, Any]:
    """The modes of PyTorch in which a call is made."""
    accelerator = torch.accelerator.current_accelerator()
    casts = [
        (device, values.name_of(torch.get_autocast_dtype(device)))
        for device in ("cpu", *(() if accelerator is None else (accelerator.type,)))
        if torch.is_autocast_enabled(device)
    ]
    strict = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": casts,
        "deterministic": strict,
        "dtype": values.name_of(torch.get_default_dtype()),
    }


def _reject_strange(answer: Answer) -> None:
    strange = answer[0].get("strange")
    if isinstance(strange, str):
        raise BadOutput(f"returned {strange}, where a tensor, or a tuple of tensors, is expected")


def _write(written: Any, buffers: Sequence[bytearray], tensors: Sequence[torch.Tensor]) -> None:
    """Write to the tensors to which the other process has written."""
    for one in list_of(written):
        place, buffer = map(size_of, list_of(one))
        write(tensors[place], buffers[buffer])
