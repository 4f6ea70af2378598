"""Threads that go through code in step, so that calls as short as a candidate's meet: standard library only."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

_SHORT = 2000  # Python calls; what makes more of them takes so long that it meets others anyway
_LONGEST_WAIT = 1e-3  # seconds; a thread that waits for a lock of the candidate must not hold up the one that has it


class InStep:
    """Threads, none of which makes its next call before all have made the last one."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}  # of each thread that runs
        self._moved = threading.Condition()

    def join(self, count: int = 0, seconds: float = 0.0) -> None:
        """Have the others wait for this thread from now on; it waits until there are so many, or for so long."""
        with self._moved:
            self._calls[threading.get_ident()] = min(self._calls.values(), default=0)
            self._moved.notify_all()
            self._moved.wait_for(lambda: len(self._calls) >= count, seconds)

    @contextlib.contextmanager
    def running(self, noted: Callable[[], object] = lambda: None) -> Iterator[None]:
        """A block of this thread in which it goes in step with those that run now; `noted` is called at each call."""
        thread, before = threading.get_ident(), sys.getprofile()

        def step(frame: object, event: str, argument: object) -> None:
            if event not in ("call", "c_call"):
                return
            noted()
            if self._calls.get(thread, _SHORT) < _SHORT:
                with self._moved:
                    self._calls[thread] += 1
                    self._moved.notify_all()
                    self._moved.wait_for(lambda: min(self._calls.values()) >= self._calls.get(thread, 0), _LONGEST_WAIT)

        if thread not in self._calls:
            self.join()
        sys.setprofile(step)
        try:
            yield
        finally:
            sys.setprofile(before)
            with self._moved:
                self._calls.pop(thread, None)
                self._moved.notify_all()
