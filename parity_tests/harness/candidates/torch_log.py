"""PyTorch's own log while a candidate runs: kept for the reproducer, away from the terminal.

An operator that raises an exception with fake tensors is logged with hundreds of lines, whoever handles the exception.
"""

from __future__ import annotations

import collections
import logging
import os

from torch._logging import _internal

_LINES = 100  # the last ones, where the error is


class TorchLog:
    """What PyTorch logs in its `with` blocks. Whoever sets TORCH_LOGS wants to read along: then nothing is kept."""

    def __init__(self) -> None:
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES)
        self._last: logging.LogRecord | None = None
        self._handlers: list[logging.Handler] = []
        self._formatter = logging.Formatter("%(levelname)s %(name)s: %(message)s")

    @property
    def text(self) -> str:
        """The last lines."""
        return "\n".join(self._lines)

    def __enter__(self) -> TorchLog:
        if "TORCH_LOGS" not in os.environ:
            # PyTorch's own handlers that write to stderr: files, and what a user has added, go on.
            files = (logging.FileHandler, _internal.LazyTraceHandler)
            self._handlers = [h for h in _internal.handlers if not isinstance(h, files)]
        for handler in self._handlers:
            handler.addFilter(self._keep)
        if "TORCH_TRACE" not in os.environ:
            # Its records are for a file that this variable names. pytest would print them with a failing test.
            _internal.trace_log.addFilter(self._drop)
        return self

    def __exit__(self, *error: object) -> None:
        for handler in self._handlers:
            handler.removeFilter(self._keep)
        _internal.trace_log.removeFilter(self._drop)
        self._handlers = []

    def _drop(self, record: logging.LogRecord) -> bool:
        return False

    def _keep(self, record: logging.LogRecord) -> bool:
        """Is a record to be written by the handler? None is; and one that several handlers get is kept once."""
        if record is not self._last:
            self._lines.extend(self._formatter.format(record).splitlines())
            self._last = record
        return False
