"""Processes that a solution has left: Linux makes them children of the run, and they end before it writes anything."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker

from parity_tests.harness.solutions.guest.launch import descendants

_SUBREAPER, _IS_SUBREAPER = 36, 37
_SECONDS = 5.0  # in which a process that was killed must be gone


class Adopted:
    """The processes that this one, and its children, have started since; in a block, also those without a parent.

    Outside of Linux there are none: nobody tells whose they were.
    """

    def __init__(self) -> None:
        self._linux = sys.platform.startswith("linux")
        self._spared = frozenset(descendants(os.getpid())) if self._linux else frozenset()

    @contextlib.contextmanager
    def adopting(self) -> Iterator[Adopted]:
        """A block in which processes whose parents have ended become children of this process."""
        if not self._linux:
            yield self
            return
        libc, before = ctypes.CDLL(None), ctypes.c_int()
        libc.prctl(_IS_SUBREAPER, ctypes.byref(before), 0, 0, 0)
        libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        try:
            yield self
        finally:
            libc.prctl(_SUBREAPER, before.value, 0, 0, 0)

    def end(self) -> None:
        """Kill them, again and again until none is left; all but the one that tracks multiprocessing's resources."""
        spared = self._spared | {getattr(resource_tracker._resource_tracker, "_pid", None)}
        until = time.monotonic() + _SECONDS
        while self._linux and time.monotonic() < until:
            found = [pid for pid in descendants(os.getpid()) if pid not in spared]
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if not found:
                return
            time.sleep(0.02)
