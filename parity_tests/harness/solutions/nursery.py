"""Solutions' processes without the seconds of an import: forked from one that has imported PyTorch, see `nursing`."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parity_tests.harness.solutions.guest.wire import REQUEST
from parity_tests.harness.solutions.protection import START


@functools.cache
def nursery() -> Nursery:
    """The nursery of this process."""
    found = Nursery()
    atexit.register(found.close)
    return found


class Nursery:
    """A process that forks others; started with the first of them, and again if it has ended.

    They find what this process finds: its environment, its folder, its modules.
    """

    def __init__(self) -> None:
        self._running: subprocess.Popen | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def forked(self, reading: int, writing: int, said: int) -> Forked:
        """Return a new process, which reads and writes at these descriptors, and prints to the third.

        Raises:
            OSError: it could not be started.
        """
        with self._lock:
            if self._running is None or self._running.poll() is not None:
                self._start()
            pid = self._answer({}, (reading, writing, said))
        return Forked(self, pid)

    def end_of(self, pid: int, seconds: float | None) -> int | None:
        """The exit code of a process that it has forked, as of `subprocess`; None if it runs on after that time."""
        with self._lock:
            try:
                return self._answer({"wait": pid, "seconds": seconds}, ())
            except OSError:  # it has ended, and with it all that it had forked
                return -signal.SIGKILL

    def close(self) -> None:
        """End the process, and all that it has forked."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
        if self._socket is not None:
            self._socket.close()
        self._running = self._socket = None

    def _start(self) -> None:
        self.close()
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._running = subprocess.Popen(
                (sys.executable, "-I", "-B", str(START), str(there.fileno()), *sys.path),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(there.fileno(),),
                start_new_session=True,
            )

    def _answer(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> Any:
        assert self._socket is not None
        socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        answer = self._socket.recv(REQUEST)
        if not answer:
            raise OSError("the process that starts solutions has ended")
        return json.loads(answer)


@dataclass
class Forked:
    """A process that a nursery has forked, with the part of `subprocess.Popen` that its users need.

    Attributes:
        nursery: which has forked it.
        pid: its number.
        returncode: how it has ended; None as long as nobody knows.
    """

    nursery: Nursery
    pid: int
    returncode: int | None = None

    def kill(self) -> None:
        """End it, if it has not."""
        if self.returncode is None:  # else the number may be somebody else's
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not, after so many seconds.
        """
        if self.returncode is None:
            self.returncode = self.nursery.end_of(self.pid, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a solution", timeout or 0.0)
        return self.returncode
