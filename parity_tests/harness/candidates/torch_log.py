"""Capture of PyTorch's log while a candidate runs: kept for the reproducer, away from the terminal.

An operator that raises an exception with fake tensors is logged with hundreds of lines, even if the exception is
handled.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os

from torch._logging import _internal

from parity_tests.conversion.exported import without_trace

_LINES = 100  # the last ones, where the error is


class TorchLog:
    """The records that PyTorch logs in its `with` blocks. If TORCH_LOGS is set, the log is left alone and not kept."""

    def __init__(self) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES)
        self._last: logging.LogRecord | None = None
        self._handlers: list[logging.Handler] = []
        self._stack = contextlib.ExitStack()
        self._formatter = logging.Formatter("%(levelname)s %(name)s: %(message)s")

    @property
    def text(self) -> str:
        """Return the last lines of the log."""
        return "\n".join(self._lines)

    def __enter__(self) -> TorchLog:
        if "TORCH_LOGS" not in os.environ:
            # PyTorch's own handlers that write to stderr: files, and what a user has added, go on.
            files = (logging.FileHandler, _internal.LazyTraceHandler)
            self._handlers = [h for h in _internal.handlers if not isinstance(h, files)]
        for handler in self._handlers:
            handler.addFilter(self._keep)
        self._stack.enter_context(without_trace())
        return self

    def __exit__(self, *error: object) -> None:
        for handler in self._handlers:
            handler.removeFilter(self._keep)
        self._stack.close()
        self._handlers = []

    def _keep(self, record: logging.LogRecord) -> bool:
        """Keep a record, once if several handlers get it, and return False so that no handler writes it."""
        if record is not self._last:
            self._lines.extend(self._formatter.format(record).splitlines())
            self._last = record
        return False
