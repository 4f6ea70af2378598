"""The results that the other process has answered with: where it writes to one later, it is written here, too."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from parity_tests.harness.solutions.guest import values


class Results:
    """Outputs and gradients, by the number of their request, as long as they live."""

    def __init__(self) -> None:
        self._tensors: dict[int, list[weakref.ref[torch.Tensor]]] = {}
        self._lock = threading.Lock()

    def keep(self, number: int, tensors: Sequence[torch.Tensor]) -> None:
        """Remember the tensors of an answer."""
        with self._lock:
            self._tensors[number] = [weakref.ref(y) for y in tensors]

    def gone(self) -> list[int]:
        """Forget the answers of which no tensor lives any more, and return their numbers."""
        with self._lock:
            numbers = [n for n, tensors in self._tensors.items() if all(y() is None for y in tensors)]
            for n in numbers:
                del self._tensors[n]
            return numbers

    def clear(self) -> None:
        """Forget all: the process has ended."""
        with self._lock:
            self._tensors.clear()

    def overwrite(self, overwritten: Any, buffers: Sequence[bytearray]) -> None:
        """Write to those tensors to which the other process has written.

        Args:
            overwritten: for each the number of its request, its place in the answer, and that of its numbers in
                `buffers`; it may be anything.
            buffers: bytes.

        Raises:
            ValueError: they are not such places, or not as many bytes as the tensor has.
        """
        for one in list_of(overwritten):
            number, place, buffer = map(size_of, list_of(one))
            with self._lock:
                known = self._tensors.get(number)
            y = None if known is None else known[place]()
            if y is not None:
                write(y, buffers[buffer])


def write(x: torch.Tensor, buffer: bytes | bytearray) -> None:
    """Write the numbers of an answer to a tensor, as the other process has done to its own.

    Raises:
        ValueError: they are not as many bytes as it has.
    """
    with torch.no_grad():
        x.detach().copy_(tensor_of(values.name_of(x.dtype), list(x.shape), buffer))


def tensor_of(dtype: Any, shape: Any, buffer: bytes | bytearray) -> Any:
    """Return the tensor that an answer describes.

    Raises:
        ValueError: there is no such dtype or shape, or the bytes are not as many as it has.
    """
    if type(dtype) is not str or dtype not in values.DTYPES:
        raise ValueError("no dtype")
    if type(shape) is not list or len(shape) > 64 or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise ValueError("no shape")
    count = values.DTYPES[dtype].itemsize
    for n in shape:
        count *= n
    if count != len(buffer):
        raise ValueError(f"{len(buffer):,} bytes for a shape of {count:,}")
    return values.tensor_from(buffer, values.DTYPES[dtype], shape)


def size_of(n: Any) -> int:
    """Return a place or a size of an answer; raises ValueError if it cannot be one."""
    if type(n) is not int or not 0 <= n < 2**48:
        raise ValueError("no number of things")
    return n


def list_of(found: Any) -> list[Any]:
    """Return a list of an answer; raises ValueError if it is none."""
    if type(found) is not list:
        raise ValueError("no list")
    return found
