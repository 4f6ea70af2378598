"""Messages over two pipes: a header of JSON, then raw buffers. Nothing that is received is ever run or unpickled."""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

_LENGTH = struct.Struct(">I")
_CHUNK = 2**20  # bytes that are read at a time
REQUEST = 2**12  # bytes of the longest request to a nursery


class WireError(Exception):
    """Raised for bytes that are no message, or one beyond the limits."""


class Ended(Exception):
    """Raised when the other side has closed its pipe."""


class TooLate(Exception):
    """Raised when the other side has not sent, or not read, all of a message in time."""


@dataclass(frozen=True)
class Limits:
    """The largest message that is accepted.

    Attributes:
        header: bytes of the header.
        buffers: how many there may be.
        total: bytes of all buffers together.
    """

    header: int = 2**22
    buffers: int = 2**12
    total: int = 2**40


class Channel:
    """Both directions of a conversation, over two file descriptors, which it makes non-blocking."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        for descriptor in (reading, writing):
            os.set_blocking(descriptor, False)

    def send(self, header: Mapping[str, Any], buffers: Sequence[bytes] = (), deadline: float | None = None) -> None:
        """Send a message.

        Args:
            header: plain data; the key "buffers" is added.
            buffers: bytes-like objects.
            deadline: of `time.monotonic`; None to wait as long as it takes.

        Raises:
            Ended, TooLate: the other side does not read it.
        """
        text = json.dumps({**header, "buffers": [len(buffer) for buffer in buffers]}, allow_nan=False).encode()
        for part in (_LENGTH.pack(len(text)), text, *buffers):
            self._write(memoryview(part), deadline)

    def receive(self, limits: Limits, deadline: float | None = None) -> tuple[dict[str, Any], list[bytearray]]:
        """Return the header of the next message, without "buffers", and the buffers.

        Raises:
            Ended, TooLate: there is none, or not all of it.
            WireError: it is none, or beyond the limits.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        if length > limits.header:
            raise WireError(f"a header of {length:,} bytes")
        text = self._read(length, deadline)
        try:
            header = json.loads(text.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise WireError(f"a header that is no JSON ({type(error).__name__})") from None
        lengths = header.pop("buffers", None) if isinstance(header, dict) else None
        if not isinstance(lengths, list) or not all(type(n) is int and n >= 0 for n in lengths):
            raise WireError("a header without the lengths of its buffers")
        if len(lengths) > limits.buffers or sum(lengths) > limits.total:
            raise WireError(f"{len(lengths):,} buffers of {sum(lengths):,} bytes together")
        return header, [self._read(n, deadline) for n in lengths]

    def close(self) -> None:
        """Close both pipes."""
        for descriptor in (self._reading, self._writing):
            os.close(descriptor)

    def _write(self, rest: memoryview, deadline: float | None) -> None:
        while rest:
            _wait(self._writing, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._writing, rest[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Ended(str(error)) from None

    def _read(self, length: int, deadline: float | None) -> bytearray:
        received = bytearray()
        while len(received) < length:
            _wait(self._reading, select.POLLIN, deadline)
            try:
                part = os.read(self._reading, min(length - len(received), _CHUNK))
            except BlockingIOError:
                continue
            if not part:
                raise Ended("the pipe is closed")
            received += part
        return received


def _wait(descriptor: int, event: int, deadline: float | None) -> None:
    ready = select.poll()
    ready.register(descriptor, event)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
    if not ready.poll(left):
        raise TooLate


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
