"""How often something is done that may take long, such as writing a report that is not finished."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator


class Pace:
    """Tells when something is due again, so that it takes a small part of the time.

    Args:
        pause: seconds at least between two times.
        share: the pause is also this many times as long as what was done took.
    """

    def __init__(self, pause: float = 1.0, share: float = 20.0) -> None:
        self._pause, self._share = pause, share
        self._next = -math.inf

    @property
    def is_due(self) -> bool:
        """True if the pause is over; the first time, there is none."""
        return time.monotonic() >= self._next

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Time the block, in which it is done; the pause begins after it."""
        start = time.monotonic()
        try:
            yield
        finally:
            end = time.monotonic()
            self._next = end + max(self._pause, self._share * (end - start))
