"""Arguments, results and tensors as data of JSON and raw bytes, for both sides of the wire."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

_DEPTH = 24  # of nested lists
_DIGITS = 4000  # of an integer

DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "bool"),
        *("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
        *("float8_e4m3fn", "float8_e5m2", "complex32"),
    )
    if hasattr(torch, name)
}
_NAMED: Mapping[str, Mapping[str, Any]] = {
    "dtype": DTYPES,
    "layout": {"strided": torch.strided},
    "memory_format": {
        name: getattr(torch, name)
        for name in ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
    },
}
_BASE: Any = torch._C.TensorBase  # neither a tensor's own attributes nor those of torch.Tensor stand before its methods


class NotPlain(TypeError):
    """Raised for a value that cannot be sent."""


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype, "float32"."""
    return str(dtype).removeprefix("torch.")


def as_data(value: Any, number_of: Callable[[torch.Tensor], int], depth: int = 0) -> Any:
    """Return a value as data of JSON; `number_of` gives the place of a tensor among those that are sent.

    Raises:
        NotPlain: it is something else than numbers, text, tensors, dtypes, devices, and lists and dicts of these.
    """
    if depth > _DEPTH:
        raise NotPlain(f"a value that is nested more than {_DEPTH} deep")
    if isinstance(value, torch.Tensor):
        return {"tensor": number_of(value)}
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int and abs(value) < 10**_DIGITS:
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [as_data(each, number_of, depth + 1) for each in value]}
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {"dict": [[key, as_data(each, number_of, depth + 1)] for key, each in value.items()]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for kind, names in _NAMED.items():
        for name, named in names.items():
            if value is named:
                return {kind: name}
    raise NotPlain(f"a {type(value).__name__}, which cannot be sent to a solution's process")


def from_data(data: Any, tensors: Sequence[Any], depth: int = 0) -> Any:
    """Return the value that `as_data` has made data of; the data may be anything that JSON can be.

    Raises:
        ValueError: it is something else than what `as_data` makes.
    """
    if depth > _DEPTH:
        raise ValueError("nested too deep")
    if data is None or type(data) in (bool, str, int):
        return data
    if type(data) is not dict or len(data) != 1:
        raise ValueError("no value")
    ((kind, content),) = data.items()
    if kind == "tensor" and type(content) is int and 0 <= content < len(tensors):
        return tensors[content]
    if kind == "float" and type(content) is str:
        return float.fromhex(content)
    if kind == "complex" and type(content) is list and [type(part) for part in content] == [str, str]:
        return complex(*map(float.fromhex, content))
    if kind in ("list", "tuple") and type(content) is list:
        values = [from_data(each, tensors, depth + 1) for each in content]
        return values if kind == "list" else tuple(values)
    if kind == "dict" and type(content) is list:
        if not all(type(each) is list and len(each) == 2 and type(each[0]) is str for each in content):
            raise ValueError("no dictionary")
        return {key: from_data(each, tensors, depth + 1) for key, each in content}
    if kind == "device" and type(content) is str:
        return torch.device(content)
    if kind in _NAMED and type(content) is str and content in _NAMED[kind]:
        return _NAMED[kind][content]
    raise ValueError(f"no value: {str(kind)[:20]}")


def bytes_of(storage: torch.UntypedStorage) -> bytes:
    """Return the bytes of a storage, wherever it is."""
    own = storage if storage.device.type == "cpu" else storage.cpu()
    return ctypes.string_at(own.data_ptr(), own.nbytes()) if own.nbytes() else b""


def memory_of(x: torch.Tensor) -> torch.UntypedStorage:
    """Return the storage of a tensor, whatever attributes it has been given."""
    return _BASE.untyped_storage(x)


def view_of(x: torch.Tensor) -> tuple[list[int], int, bool, bool]:
    """Return how a tensor looks at its storage: strides, offset, conjugated or not, negated or not."""
    return [*_BASE.stride(x)], _BASE.storage_offset(x), _BASE.is_conj(x), _BASE.is_neg(x)


def bytes_of_tensor(x: torch.Tensor) -> bytes:
    """Return the numbers of a tensor one after the other, without what else its memory holds."""
    with torch.no_grad(), torch._C._DisableTorchDispatch():  # type: ignore[attr-defined]
        plain = torch.empty(x.shape, dtype=x.dtype)
        _BASE.copy_(plain, _BASE.resolve_neg(_BASE.resolve_conj(_BASE.detach(x))))
    return bytes_of(plain.untyped_storage())[: plain.numel() * plain.itemsize]


def tensor_from(buffer: bytes | bytearray, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Return a contiguous tensor with a copy of these bytes, which must be as many as it has."""
    x = torch.empty(tuple(shape), dtype=dtype)
    if buffer:
        ctypes.memmove(x.data_ptr(), bytes(buffer), len(buffer))
    return x


@dataclass
class Packed:
    """Tensors as descriptions and the bytes of their storages, each of which is there once.

    Attributes:
        tensors: the tensors, each once, in the order in which they were added.
    """

    tensors: list[torch.Tensor] = field(default_factory=list)
    _storages: list[torch.UntypedStorage] = field(default_factory=list)
    _places: list[int] = field(default_factory=list)

    def add(self, x: torch.Tensor) -> int:
        """Return the place of a tensor, which is the same if it is given again."""
        for i, known in enumerate(self.tensors):
            if known is x:
                return i
        storage = x.untyped_storage()
        place = next((i for i, s in enumerate(self._storages) if s._cdata == storage._cdata), len(self._storages))
        if place == len(self._storages):
            self._storages.append(storage)
        self.tensors.append(x)
        self._places.append(place)
        return len(self.tensors) - 1

    @property
    def storages(self) -> Sequence[torch.UntypedStorage]:
        """The storages of the tensors."""
        return self._storages

    def storage_of(self, i: int) -> int:
        """The place of a tensor's storage among all."""
        return self._places[i]

    @property
    def descriptions(self) -> list[dict[str, Any]]:
        """The tensors as data of JSON."""
        return [_described(x, place) for x, place in zip(self.tensors, self._places, strict=True)]

    @property
    def buffers(self) -> list[bytes]:
        """The bytes of the storages."""
        return [bytes_of(storage) for storage in self._storages]


def _described(x: torch.Tensor, place: int) -> dict[str, Any]:
    return {
        "storage": place,
        "dtype": name_of(x.dtype),
        "device": str(x.device),
        "shape": list(x.shape),
        "stride": list(x.stride()),
        "offset": x.storage_offset(),
        "requires_grad": x.requires_grad,
        "leaf": x.is_leaf,
        "parameter": isinstance(x, torch.nn.Parameter),
        "conj": x.is_conj(),
        "neg": x.is_neg(),
        "version": 0 if x.is_inference() else x._version,
    }
