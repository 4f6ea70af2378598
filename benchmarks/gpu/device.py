"""A device of PyTorch by what the pack needs of it: `torch.cuda`, or a stand-in that has the same names elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.worker import Call
from parity_tests.suite.torch_impl.test_memory import Memory

SLEEP = 10_000_000  # cycles: some milliseconds
Results = Tensor | tuple[Tensor, ...]


class Device:
    """A device by its name, "cuda", "cuda:1", "cpu" or any other of PyTorch."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = name.partition(":")[0]
        self.module: Any = torch.cuda if self.kind == "cuda" else StandIn(self.kind)

    def missing(self) -> str | None:
        """Why nothing can be computed there; None if something can."""
        try:
            torch.ones(1, device=self.name).item()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            return f"PyTorch {torch.__version__} has no device {self.name!r} here: {str(error).splitlines()[0]}"
        return None

    def another(self) -> str | None:
        """A device of the kind that is not the current one; None if there is one."""
        count = self.module.device_count()
        return f"{self.kind}:{count - 1}" if count > 1 else None

    def seconds(self, call: Call, count: int, threads: int = 1) -> float:
        """Seconds of a call that is made so many times, by the device's own events. See `benchmarks.worker.Clock`."""
        start, end = self.module.Event(enable_timing=True), self.module.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / count

    def peak(self, call: Call) -> int:
        """The most bytes that a call holds at once, its results included. It was called before: tuned, with buffers."""
        call()
        self.module.synchronize()
        self.module.reset_peak_memory_stats()
        before = self.module.memory_allocated()
        held = call()
        self.module.synchronize()
        most = self.module.max_memory_allocated() - before
        del held
        return most

    def on_a_stream(self, f: Callable[..., Results]) -> Callable[..., Results]:
        """The same function on a stream of its own, where its inputs come late.

        Whoever computes on another stream reads them before they are there. A backward runs where its forward has.
        """

        def there(*tensors: Tensor) -> Results:
            stream = self.module.Stream()
            stream.wait_stream(self.module.current_stream())
            with self.module.stream(stream):
                self.module._sleep(SLEEP)
                results = f(*[x.clone() for x in tensors])
            self.module.current_stream().wait_stream(stream)
            return results

        return there

    def in_a_graph(self, f: Callable[..., Results]) -> Callable[..., Results]:
        """The same function as a graph that is recorded at the first inputs of a shape, its backward included."""
        graphs: dict[Any, Callable[..., Results]] = {}

        def replayed(*tensors: Tensor) -> Results:
            key = tuple((x.shape, x.dtype, x.requires_grad) for x in tensors)
            if key not in graphs:
                samples = tuple(x.detach().clone().requires_grad_(x.requires_grad) for x in tensors)
                graphs[key] = self.module.make_graphed_callables(f, samples, allow_unused_input=True)
            results = graphs[key](*tensors)  # which the next replay writes anew
            return tuple(y.clone() for y in results) if isinstance(results, tuple) else results.clone()

        return replayed


class StandIn:
    """A stand-in for `torch.cuda`, for devices that lack its functions: one stream, no graphs, the host's clock.

    Its `synchronize` and `device_count` are those of the module `torch.<kind>`, or of the CPU's.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.own = getattr(torch, kind, torch.cpu)
        self.synchronize: Callable[[], None] = getattr(self.own, "synchronize", torch.cpu.synchronize)
        self.memory = Memory()

    def device_count(self) -> int:
        """The number of devices of the kind."""
        return self.own.device_count()

    def get_device_name(self) -> str:
        """The kind."""
        return self.kind

    def Event(self, enable_timing: bool) -> Moment:
        """An event by the clock of the host."""
        return Moment(self.synchronize)

    def Stream(self) -> TheStream:
        """The only stream."""
        return TheStream()

    current_stream = Stream

    def stream(self, stream: TheStream) -> contextlib.AbstractContextManager[None]:
        """A block on the only stream."""
        return contextlib.nullcontext()

    def _sleep(self, cycles: int) -> None:
        time.sleep(cycles / 1e10)

    def make_graphed_callables(self, f: Callable, samples: Sequence[Tensor], allow_unused_input: bool) -> Callable:
        """The function itself, which was called once."""
        f(*samples)
        return f

    def reset_peak_memory_stats(self) -> None:
        """Begin to count the bytes of the host."""
        self.memory.__enter__()

    def memory_allocated(self) -> int:
        """None were counted before."""
        return 0

    def max_memory_allocated(self) -> int:
        """The most that were held at once since then."""
        self.memory.__exit__(None, None, None)
        return self.memory.peak


class Moment:
    """An event, by the host's clock once the device has nothing to do."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self.synchronize = synchronize

    def record(self) -> None:
        """Note the time once the device has nothing to do."""
        self.synchronize()
        self.at = time.perf_counter()

    def elapsed_time(self, end: Moment) -> float:
        """Milliseconds from here to the end."""
        return 1e3 * (end.at - self.at)


class TheStream:
    """The only one."""

    def wait_stream(self, other: TheStream) -> None:
        """Nothing is to be waited for."""


@contextlib.contextmanager
def float32_as_tf32() -> Iterator[None]:
    """A block in which PyTorch may multiply float32 in TF32, as people ask for it; settings are restored."""
    settings = torch.backends.cuda.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "tf32"
    try:
        yield
    finally:
        settings.fp32_precision = before
