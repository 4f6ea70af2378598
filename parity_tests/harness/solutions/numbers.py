"""Numbers for tensors and their memory, by which the other process knows again what it was sent before."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from parity_tests.harness.solutions.guest.values import Packed


class Numbers:
    """The tensors and storages that were sent, as long as they live."""

    def __init__(self) -> None:
        self._next: Iterator[int] = itertools.count(1)
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self._tensors: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._lock = threading.Lock()

    def request(self, packed: Packed) -> dict[str, Any]:
        """Return the tensors as a part of a request, with the numbers that will not come again."""
        with self._lock:
            gone = [place for place, (weak, _) in self._storages.items() if weak.expired()]
            storages = [self._storages.pop(place)[1] for place in gone]
            dead = [place for place, (weak, _) in self._tensors.items() if weak() is None]
            tensors = [self._tensors.pop(place)[1] for place in dead]
            return {
                "tensors": [
                    described | {"number": self._of_tensor(x)}
                    for x, described in zip(packed.tensors, packed.descriptions, strict=True)
                ],
                "storages": [self._of_storage(storage) for storage in packed.storages],
                "forget": [storages, tensors],
            }

    def _of_tensor(self, x: torch.Tensor) -> int:
        if id(x) not in self._tensors:
            self._tensors[id(x)] = weakref.ref(x), next(self._next)
        return self._tensors[id(x)][1]

    def _of_storage(self, storage: torch.UntypedStorage) -> int:
        place = storage._cdata  # which no other storage has as long as there is a weak reference to this one
        if place not in self._storages:
            self._storages[place] = StorageWeakRef(storage), next(self._next)
        return self._storages[place][1]
