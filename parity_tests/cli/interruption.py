"""Ctrl-C, and what ends a job from outside (SIGTERM, SIGHUP): what is done is told, and the exit code is 130.

It is not enough that Python raises KeyboardInterrupt: where the main thread runs a callback of the garbage collector,
as JAX has one, Python prints it and goes on. So the handler also remembers the signal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPTED = 130
TEXT = "interrupted"
SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP
_PATIENCE = 1.0  # seconds after which a KeyboardInterrupt that nobody has handled is taken for lost


class Interruption:
    """The signals that end a command, and what they do at the moment.

    At once, unless something else is said: `last_words` is called, and the process ends. While a block of `noted` runs,
    a signal is only remembered, for whoever looks at `came` often. In a block of `raised` it raises KeyboardInterrupt.

    Attributes:
        came: has one come?
        began: when the command did, by `time.perf_counter`.
        last_words: writes what is known, and ends what has been started. It may be called at any moment.
    """

    def __init__(self) -> None:
        self.came, self.began = False, time.perf_counter()
        self.last_words: Callable[[], object] = lambda: None
        self._act: Callable[[], object] = self.end
        self._timer: threading.Timer | None = None
        self._handled: list[signal.Signals] = []

    def install(self) -> None:
        """Handle the signals from now on; those that whoever started this process has ignored stay so (nohup)."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)
                self._handled.append(number)

    def finish(self) -> None:
        """Ignore the signals from now on: all is told, and only what has been started is left to be taken down.

        Python would have a signal end its process by itself then, without an exit code.
        """
        while self._handled and threading.current_thread() is threading.main_thread():  # elsewhere none can be set
            signal.signal(self._handled.pop(), signal.SIG_IGN)

    def end(self) -> None:
        """End the process at once."""
        try:
            self.last_words()
        finally:
            with contextlib.suppress(OSError):
                os.write(2, f"gradparity: {TEXT}\n".encode())
            os._exit(INTERRUPTED)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Within the block the first signal is only remembered; a second one ends the process."""
        with self._acting(lambda: None):
            yield

    @contextlib.contextmanager
    def raised(self) -> Iterator[None]:
        """Within the block a signal raises KeyboardInterrupt; if that is lost, the process ends soon after.

        Not in a debugger, which handles it itself.
        """

        def act() -> None:
            if sys.gettrace() is None:
                self._timer = threading.Timer(_PATIENCE, self.end)
                self._timer.daemon = True
                self._timer.start()
            raise KeyboardInterrupt

        try:
            with self._acting(act):
                yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come."""
        if self.came:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def _acting(self, act: Callable[[], object]) -> Iterator[None]:
        before, self._act = self._act, act
        try:
            yield
        finally:
            self._act = before

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.came = self.came, True
        if again:
            self.end()
        self._act()
