"""Computing with numbers in the course of an export, which is not to see it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Compute with numbers for a block, of which no mode sees anything."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield
