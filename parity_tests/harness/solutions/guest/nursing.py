"""The nursery: a process that has imported PyTorch, runs no solution itself, and forks the processes that do.

Each of them begins as all others do, and shares nothing with those before it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .launch import die_with, supervise
from .serving import serve
from .wire import REQUEST, Channel

_LOOK = 0.002  # seconds between two looks at a process that ends
_LATER = ("torch._dynamo",)  # which compiled kernels import, in seconds


def nurse(descriptor: int) -> None:
    """Answer requests until nobody sends any more: fork a process for the descriptors sent, wait for the end of one.

    A child that has ended keeps its number until somebody waits for it, so that nobody kills another one.
    """
    asking = socket.socket(fileno=descriptor)
    for name in _LATER:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would write to the memory that it shares with this process
    with contextlib.suppress(ConnectionError):
        while True:
            request, descriptors, _, _ = socket.recv_fds(asking, REQUEST, 3)
            if not request:
                return
            data = json.loads(request)
            if "wait" in data:
                answer = _end_of(data["wait"], data["seconds"])
            else:
                answer = _forked(asking, descriptors)
                for each in descriptors:
                    os.close(each)
            asking.send(json.dumps(answer).encode())


def _forked(asking: socket.socket, descriptors: Sequence[int]) -> int:
    """Fork a process that reads its requests, writes its answers, and says what it says, there; returns its number."""
    parent, child = os.getpid(), os.fork()
    if child:
        return child
    try:
        die_with(parent)
        asking.close()
        reading, writing, said = descriptors
        os.dup2(said, 2)
        os.close(said)
        supervise(lambda: _solution(reading, writing), (reading, writing))
    finally:
        os._exit(127)


def _solution(reading: int, writing: int) -> None:
    os.setsid()  # so that a signal to its group reaches nobody else
    with contextlib.suppress(OSError):  # where memory runs out, the system ends this process first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    serve(Channel(reading, writing))
    sys.stderr.flush()
    os._exit(0)


def _end_of(child: int, seconds: float | None) -> Any:
    """How a child ended, as a status; None if it has not, after that time."""
    until = time.monotonic() + (seconds or 0.0)
    while True:
        ended, status = os.waitpid(child, 0 if seconds is None else os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(_LOOK)
