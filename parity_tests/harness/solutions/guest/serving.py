"""The requests that the judging side sends: load, call, backward, and the facts about shortcuts."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from .loading import Loaded, description
from .memory import Memory, Unpacked
from .stepping import InStep
from .values import (
    DTYPES,
    NotPlain,
    Packed,
    as_data,
    bytes_of,
    bytes_of_tensor,
    from_data,
    memory_of,
    name_of,
    view_of,
)
from .watching import Watch
from .wire import Channel, Ended, Limits

_MEETING, _MEETING_SECONDS = 4, 0.01  # threads that are waited for, so that they meet
_PLAIN = (torch.Tensor, torch.nn.Parameter)

Answer = tuple[dict[str, Any], list[bytes]]
Header = Mapping[str, Any]


class Strange(Exception):
    """Raised for a result that is no plain tensor; the text is a noun phrase about it."""


@dataclass(frozen=True, eq=False)
class Record:
    """A call whose backward may follow: its arguments, and its outputs with autograd's graph."""

    arguments: Unpacked
    outputs: Sequence[torch.Tensor]
    kept: _Kept  # the arguments


class _Kept:
    """The bytes of tensors, to find out which are written to."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._tensors = tensors
        self.refresh()

    def refresh(self) -> None:
        """Take what is there now for what was there."""
        self._bytes = [bytes_of(memory_of(x)) for x in self._tensors]
        self._versions = [_version(x) for x in self._tensors]

    def written(self, start: int, buffers: list[bytes]) -> list[list[int]]:
        """The places of tensors that were written to since the last time, and of their numbers among `buffers`."""
        found = []
        for i, x in enumerate(self._tensors):
            now, version = bytes_of(memory_of(x)), _version(x)
            if now != self._bytes[i] or version != self._versions[i]:
                found.append([start + i, len(buffers)])
                buffers.append(bytes_of_tensor(x))
                self._bytes[i], self._versions[i] = now, version
        return found

    def __len__(self) -> int:
        return len(self._tensors)


def _version(x: torch.Tensor) -> int:
    return 0 if x.is_inference() else x._version


class Server:
    """A solution, and the calls of it that may still be differentiated."""

    def __init__(self) -> None:
        self._loaded: Loaded | None = None
        self._records: dict[int, Record] = {}
        self._results: dict[int, _Kept] = {}  # outputs and gradients that the other side still has
        self._comparing = threading.Lock()
        self._watch = Watch(None, None)
        self._threads: dict[int, ThreadPoolExecutor] = {}
        self._in_step = InStep()
        self._memory = Memory()

    def answer(self, header: Header, buffers: Sequence[bytearray], send: Callable[[Answer], None]) -> None:
        """Answer a request; an exception is an answer, too.

        Those of other threads than the main one are answered by as many threads, at once: what a thread keeps for
        itself no other one may see, and what they share they must not spoil.
        """
        for handle in header.get("release", ()):
            self._records.pop(handle, None)
        for number in header.get("gone", ()):
            self._results.pop(number, None)
        do: Mapping[str, Callable[[Header, Sequence[bytearray]], Answer]] = {
            "begin": self._begin,
            "load": self._load,
            "call": self._call,
            "backward": self._backward,
            "facts": self._facts,
        }

        def answered() -> Answer:
            try:
                if not header["step"]:
                    return self._and_results(header["n"], *do[header["do"]](header, buffers))
                self._in_step.join(_MEETING, _MEETING_SECONDS)
                with self._in_step.running():
                    answer = do[header["do"]](header, buffers)
                return self._and_results(header["n"], *answer)
            except Strange as strange:
                return {"strange": str(strange)[:300]}, []
            except BaseException as error:  # sys.exit(), too
                return {"error": description(error)}, []

        thread = header["thread"]
        if not thread:
            send(answered())
            return
        if thread not in self._threads:
            self._threads[thread] = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
        self._threads[thread].submit(lambda: send(answered()))

    def _and_results(self, number: int, answer: dict[str, Any], sent: list[bytes]) -> Answer:
        """An answer with those results of other requests, by request and place, to which was written."""
        with self._comparing:
            others = [(n, kept) for n, kept in self._results.items() if n != number]
            found = [[n, *one] for n, kept in others for one in kept.written(0, sent)]
        return answer | {"overwritten": found}, sent

    def _begin(self, header: Header, _: object) -> Answer:
        torch.set_num_threads(1)
        for path, value in header["switches"]:
            *parents, name = path.split(".")
            owner: Any = torch.backends
            for parent in parents:
                owner = getattr(owner, parent)
            setattr(owner, name, from_data(value, ()))
        self._watch = Watch(header["file"], header["operator"])
        return {"version": torch.__version__}, []

    def _load(self, header: Header, buffers: Sequence[bytearray]) -> Answer:
        made = None
        if header["made"] is not None:
            tensors = self._memory.unpacked(header, buffers).tensors
            made = from_data(header["made"]["arguments"], tensors), header["made"]["seed"]
        self._loaded = Loaded(header["path"], header["name"], made)
        parameters = self._loaded.parameters()
        described = [[name, name_of(p.dtype), list(p.shape)] for name, p in parameters.items()]
        return {"parameters": described}, [bytes_of_tensor(p) for p in parameters.values()]

    def _call(self, header: Header, buffers: Sequence[bytearray]) -> Answer:
        assert self._loaded is not None
        with _ambient(header["ambient"]):
            arguments = self._unpacked(header, buffers)
            kept = _Kept(arguments.tensors)
            args, params = from_data(header["arguments"], arguments.tensors)
            with self._watch.calling():
                result = self._loaded(args, params, header["names"], header["training"])
            found = Packed()
            try:
                tree = as_data(result, lambda y: found.add(_plain(y)))
            except NotPlain as error:
                raise Strange(str(error)) from None
            own, sent = [s._cdata for s in arguments.storages], list[bytes]()
            written = kept.written(0, sent)
            outputs = [_output(y, own, sent) for y in found.tensors]
            self._results[header["n"]] = _Kept(found.tensors)
            if any(y.requires_grad for y in found.tensors):
                self._records[header["n"]] = Record(arguments, found.tensors, _Kept(arguments.tensors))
        return {"tree": tree, "outputs": outputs, "written": written}, sent

    def _backward(self, header: Header, buffers: Sequence[bytearray]) -> Answer:
        record = self._records[header["handle"]]
        with _ambient(header["ambient"]):
            given = self._unpacked(header, buffers).tensors
            cotangents = [None if i is None else given[i] for i in header["cotangents"]]
            kept = _Kept(given)
            with self._watch.calling(backward=True):
                gradients = _gradients(record, cotangents, header["keep"])
            sent = list[bytes]()
            written = record.kept.written(0, sent) + kept.written(len(record.kept), sent)
            found: list[Any] = [None if g is None else _result(_plain(g), sent) for g in gradients]
            self._results[header["n"]] = _Kept([g for g in gradients if g is not None])
        if not header["keep"]:
            self._records.pop(header["handle"], None)
        return {"gradients": found, "written": written}, sent

    def _unpacked(self, header: Header, buffers: Sequence[bytearray]) -> Unpacked:
        found = self._memory.unpacked(header, buffers)
        if found.rewritten:  # by the other side, and not by the solution
            for kept in [*(record.kept for record in self._records.values()), *self._results.values()]:
                kept.refresh()
        return found

    def _facts(self, header: Header, _: object) -> Answer:
        return {"facts": self._watch.facts()}, []


def _gradients(record: Record, cotangents: Sequence[torch.Tensor | None], keep: bool) -> Sequence[torch.Tensor | None]:
    """The gradients of the arguments; an absent cotangent reaches the backward undefined."""
    leaves = [x for x in record.arguments.leaves if x.requires_grad]
    pairs = [(y, w) for y, w in zip(record.outputs, cotangents, strict=True) if w is not None and y.requires_grad]
    roots, given = [y for y, _ in pairs], [w for _, w in pairs]
    if not pairs:
        with torch.enable_grad():
            roots = _Undefined.apply(*[y for y in record.outputs if y.requires_grad])  # type: ignore[assignment]
        given = [torch.ones_like(y) for y in roots]
    try:
        found = iter(torch.autograd.grad(roots, leaves, given, retain_graph=keep, allow_unused=True))
    except Exception as error:
        if ".backward()" not in str(error):
            raise
        for x in leaves:
            x.grad = None
        torch.autograd.backward(roots, given, retain_graph=keep)
        found = iter([x.grad for x in leaves])
    return [next(found) if x.requires_grad else None for x in record.arguments.leaves]


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


def _plain(y: Any) -> torch.Tensor:
    """Return a result that is a plain dense tensor.

    Raises:
        Strange: it is another one, such as one that computes its numbers only when they are looked at.
    """
    if type(y) not in _PLAIN:
        raise Strange(f"{type(y).__name__}, a subclass of torch.Tensor of its own")
    if y.is_nested or y.layout is not torch.strided:
        raise Strange("a tensor that is nested" if y.is_nested else f"a tensor that is {y.layout}")
    if y.is_meta or y.dtype not in DTYPES.values():
        raise Strange(f"a tensor of {y.dtype} on {y.device}")
    return y


def _result(y: torch.Tensor, sent: list[bytes]) -> dict[str, Any]:
    sent.append(bytes_of_tensor(y))
    described = {"dtype": name_of(y.dtype), "device": y.device.type, "shape": list(y.shape)}
    return described | {"buffer": len(sent) - 1}


def _output(y: torch.Tensor, own: Sequence[int], sent: list[bytes]) -> dict[str, Any]:
    described = _result(y, sent) | {"requires_grad": y.requires_grad, "alias": None}
    storage = memory_of(y)._cdata
    if storage in own:
        described["alias"] = [own.index(storage), *view_of(y)]
    return described


@contextlib.contextmanager
def _ambient(state: Mapping[str, Any]) -> Iterator[None]:
    """The modes in which the judging side was called."""
    before = torch.get_default_dtype(), _deterministic()
    with contextlib.ExitStack() as stack:
        if state["inference"]:
            stack.enter_context(torch.inference_mode())
        stack.enter_context(torch.set_grad_enabled(state["grad"]))
        for device, dtype in state["autocast"]:
            stack.enter_context(torch.autocast(device, DTYPES[dtype]))
        torch.set_default_dtype(DTYPES[state["dtype"]])
        _set_deterministic(*state["deterministic"])
        try:
            yield
        finally:
            torch.set_default_dtype(before[0])
            _set_deterministic(*before[1])


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(enabled: bool, only_warns: bool) -> None:
    """Switch, unless it is so: PyTorch's setter imports its compiler, which takes as long as PyTorch itself."""
    if (enabled, only_warns) != _deterministic():
        torch.use_deterministic_algorithms(enabled, warn_only=only_warns)


def serve(channel: Channel) -> None:
    """Answer each request, in order, until there is nobody who sends any."""
    server, limits = Server(), Limits(header=2**30, buffers=2**20, total=2**50)
    sending = threading.Lock()

    def send(number: int, answer: Answer) -> None:
        with sending, contextlib.suppress(Ended):
            channel.send({**answer[0], "n": number}, answer[1])

    while True:
        try:
            header, buffers = channel.receive(limits)
        except Ended:
            return
        server.answer(header, buffers, functools.partial(send, header["n"]))
