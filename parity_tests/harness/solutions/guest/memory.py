"""The tensors that the judging side has sent: what is the same there, tensors and their memory, is the same here."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .values import DTYPES, bytes_of, tensor_from

Described = Mapping[str, Any]


@dataclass(frozen=True)
class Unpacked:
    """Tensors that were sent.

    Attributes:
        leaves: those with respect to which gradients are taken.
        tensors: the arguments.
        storages: their memory.
        rewritten: whether the memory of an earlier call has other numbers now, as it has on the other side.
    """

    leaves: Sequence[torch.Tensor]
    tensors: Sequence[torch.Tensor]
    storages: Sequence[torch.UntypedStorage]
    rewritten: bool


class Memory:
    """Storages and tensors by the numbers that the judging side has given them."""

    def __init__(self) -> None:
        self._raw: dict[int, torch.Tensor] = {}
        self._tensors: dict[int, tuple[Described, torch.Tensor]] = {}
        self._lock = threading.Lock()

    def unpacked(self, header: Mapping[str, Any], buffers: Sequence[bytes | bytearray]) -> Unpacked:
        """Return the tensors of a request: new numbers in the memory of an earlier one are written there."""
        storages, tensors = header["forget"]
        with self._lock:
            for number in storages:
                self._raw.pop(number, None)
            for number in tensors:
                self._tensors.pop(number, None)
            descriptions, numbers = header["tensors"], header["storages"]
            devices = {one["storage"]: one["device"] for one in descriptions}
            written = [
                self._written(number, devices[i], buffer)
                for i, (number, buffer) in enumerate(zip(numbers, buffers, strict=True))
            ]
            raw = [self._raw[number].untyped_storage() for number in numbers]
            found = [self._tensor(one, numbers[one["storage"]], raw[one["storage"]]) for one in descriptions]
        leaves = [x for x, _ in found]
        arguments = [
            x if one["leaf"] or not one["requires_grad"] else x.view_as(x)
            for x, one in zip(leaves, descriptions, strict=True)
        ]
        return Unpacked(leaves, arguments, raw, any(written) or any(changed for _, changed in found))

    def _written(self, number: int, device: str, buffer: bytes | bytearray) -> bool:
        """Make a storage, or write to it; returns whether it was there, and had other numbers."""
        known = self._raw.get(number)
        if known is not None and known.numel() == len(buffer) and str(known.device) == device:
            if bytes_of(known.untyped_storage()) == buffer:
                return False
            with torch.inference_mode(False), torch.no_grad():
                known.copy_(tensor_from(buffer, torch.uint8, (len(buffer),)))
            return True
        with torch.inference_mode(False):
            self._raw[number] = tensor_from(buffer, torch.uint8, (len(buffer),)).to(device)
        return False

    def _tensor(self, one: Described, storage: int, raw: torch.UntypedStorage) -> tuple[torch.Tensor, bool]:
        """The tensor of a number; and whether it was there, and has another count of writes now."""
        inference = torch.is_inference_mode_enabled()
        described = {**one, "storage": storage, "version": None, "inference": inference, "at": raw._cdata}
        known, x = self._tensors.get(one["number"], (None, None))
        if x is None or known != described:
            x, known = _made(one, raw), None
            self._tensors[one["number"]] = described, x
        if x.is_inference() or x._version == one["version"]:
            return x, False
        torch._C._autograd._unsafe_set_version_counter((x,), (one["version"],))  # type: ignore[attr-defined]
        return x, known is not None


def _made(one: Described, storage: torch.UntypedStorage) -> torch.Tensor:
    with torch.no_grad():
        x = torch.empty(0, dtype=DTYPES[one["dtype"]], device=one["device"])
        x.set_(storage, one["offset"], one["shape"], one["stride"])  # type: ignore[call-overload]
        x = x.conj() if one["conj"] else x
        x = torch._neg_view(x) if one["neg"] else x  # type: ignore[attr-defined]
        if not torch.is_inference_mode_enabled():
            x = x.data  # with a count of writes of its own
    if one["parameter"]:
        return torch.nn.Parameter(x, requires_grad=one["requires_grad"])
    return x.requires_grad_() if one["requires_grad"] else x
