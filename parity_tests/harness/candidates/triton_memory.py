"""The memory of a Triton kernel that runs in Triton's interpreter: the entries of its tensors, by their addresses.

Beside the numbers that are there, of which the interpreter takes care, it has those that JAX computes alike. What is at
no entry of a tensor that the kernel was given is not read or written at all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax

from parity_tests.conversion.cannot_convert import CannotConvert

_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
DTYPES = (torch.float64, torch.float32, torch.float16, *_INTEGERS)  # of which the interpreter has numbers


class Traced:
    """An array in a kernel that follows from the numbers of its tensors; and the array of JAX that is computed alike.

    Attributes:
        value: what the interpreter has.
        traced: what JAX has, of float64 for floats of any format.

    Raises:
        CannotConvert: its numbers are asked for.
    """

    __array_ufunc__ = None
    size = 1  # so that nobody takes it for true: to Triton's interpreter whatever has more entries is
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: np.ndarray, traced: jax.Array) -> None:
        value = np.asarray(value)
        floats = (value.dtype.kind == "f", jnp.issubdtype(traced.dtype, jnp.floating))
        sizes = [[n for n in shape if n != 1] for shape in (value.shape, traced.shape)]
        if floats[0] != floats[1] or sizes[0] != sizes[1]:
            raise CannotConvert(f"a kernel has {value.dtype}{value.shape} for what JAX makes {traced}")
        wide = np.dtype(np.float64) if floats[0] else value.dtype
        self.value, self.traced = value, lax.convert_element_type(traced.reshape(value.shape), wide)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return self.value.ndim

    @property
    def dtype(self) -> np.dtype:
        """The interpreter's dtype."""
        return self.value.dtype

    @property
    def itemsize(self) -> int:
        """The bytes of an entry."""
        return self.value.itemsize

    def transpose(self, axes: Sequence[int] | None = None) -> Traced:
        """The array with its axes in another order, by default the reverse."""
        return Traced(np.transpose(self.value, axes), jnp.transpose(self.traced, axes))

    def _number(self, *_: Any, **__: Any) -> NoReturn:
        raise CannotConvert("a kernel takes numbers out of what it has loaded, as for a branch or their bits")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __array__ = __eq__ = __ne__ = __getattr__ = _number  # pyright: ignore[reportAssignmentType]


def lifted(data: Any) -> jax.Array:
    """The array of JAX for one of a kernel. A float is exactly the float that it is."""
    if isinstance(data, Traced):
        return data.traced
    data = np.asarray(data)
    return jnp.asarray(data.astype(np.float64) if data.dtype.kind == "f" else data)


class Memory:
    """The memory that a kernel can reach.

    Args:
        tensors: those that it was given; they may share memory.
        traced: for each its entries in JAX, or None where they do not follow from numbers. None: JAX has no part in it.
        unwritten: which of them have no numbers yet that anybody knows.

    Raises:
        CannotConvert: entries of several formats share memory.
    """

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        traced: Sequence[jax.Array | None] | None = None,
        unwritten: Collection[int] = (),
    ) -> None:
        self._places = [_addresses(x) for x in tensors]
        self._dtypes = [x.numpy().dtype for x in tensors]
        self._banks = {dtype: self._bank(dtype) for dtype in self._dtypes}
        _check_apart(self._banks)
        for i in sorted(range(len(tensors)), key=lambda i: traced is not None and traced[i] is not None):
            bank, at = self._entries(i)
            if traced is not None:
                given = traced[i]
                entries = lifted(tensors[i].numpy()) if given is None else given
                bank.put(at.ravel(), entries.ravel(), given is not None)
        for i in range(len(tensors)):
            bank, at = self._entries(i)
            bank.written[at] = False
            bank.unwritten[at] |= i in unwritten

    def _entries(self, i: int) -> tuple[Bank, np.ndarray]:
        """The bank of a tensor, and the places in it."""
        bank = self._banks[self._dtypes[i]]
        return bank, bank.find(self._places[i])[0]

    def _bank(self, dtype: np.dtype) -> Bank:
        places = [place.ravel() for place, kind in zip(self._places, self._dtypes, strict=True) if kind == dtype]
        return Bank(np.unique(np.concatenate(places)), dtype)

    def bank(self, dtype: np.dtype) -> Bank:
        """The entries of a format.

        Raises:
            CannotConvert: there are none.
        """
        if dtype not in self._banks:
            raise CannotConvert(f"a kernel takes memory for {dtype}, and none of its tensors is of that")
        return self._banks[dtype]

    def traced(self, i: int) -> jax.Array:
        """The entries of a tensor in JAX."""
        bank, at = self._entries(i)
        return bank.read(at)

    def is_written(self, i: int) -> bool:
        """Return whether something was stored at an entry of a tensor.

        Raises:
            CannotConvert: several of its entries are the same memory.
        """
        bank, at = self._entries(i)
        if bank.written[at].any() and np.unique(at).size < at.size:
            raise CannotConvert("a kernel writes to a tensor with several entries in the same place")
        return bool(bank.written[at].any())

    def is_unwritten(self, i: int) -> bool:
        """Return whether nobody knows some entry of a tensor."""
        bank, at = self._entries(i)
        return bool(bank.unwritten[at].any())


class Bank:
    """The entries of one format.

    What JAX has for them is not one array: each store makes one of its own, so that what is stored at one place, such
    as a power of e, does not keep from others what only they have, such as an exponent modulo q; see `proof.rules`.

    Attributes:
        follows: which of them follow from numbers.
        unwritten: which of them nobody knows.
        written: at which of them the kernel has stored something.
    """

    def __init__(self, addresses: np.ndarray, dtype: np.dtype) -> None:
        self.addresses, self.dtype = addresses, dtype
        self.follows, self.unwritten, self.written = (np.zeros(addresses.size, bool) for _ in range(3))
        self._arrays = list[jax.Array]()
        self._array, self._place = (np.zeros(addresses.size, int) for _ in range(2))  # of each entry

    @property
    def is_traced(self) -> bool:
        """True if JAX has its entries, too."""
        return bool(self._arrays)

    def find(self, addresses: np.ndarray, asked: np.ndarray | bool = True) -> tuple[np.ndarray, np.ndarray]:
        """The places of addresses, and which of them there are.

        Raises:
            CannotConvert: one that is asked for is not there.
        """
        at = np.searchsorted(self.addresses, addresses).clip(max=max(self.addresses.size - 1, 0))
        there = self.addresses[at] == addresses if self.addresses.size else np.zeros(np.shape(addresses), bool)
        if (~there & asked).any():
            raise CannotConvert("a kernel reads or writes memory at no entry of the tensors that it was given")
        return at, there

    def check_known(self, at: np.ndarray) -> None:
        """Raise CannotConvert where nobody knows what is read."""
        if self.unwritten[at].any():
            raise CannotConvert("a kernel reads integers from memory that nobody has written")

    def read(self, at: np.ndarray) -> jax.Array:
        """The entries at these places in JAX."""
        if not at.size:
            return self._arrays[0][:0].reshape(at.shape)
        numbers = np.unique(self._array[at])
        arrays = [self._arrays[i] for i in numbers]
        starts = np.cumsum([0, *(x.size for x in arrays)])
        return taken(jnp.concatenate(arrays), starts[np.searchsorted(numbers, self._array[at])] + self._place[at])

    def put(self, at: np.ndarray, new: jax.Array | None, follows: bool) -> None:
        """Note what is stored at places, one axis of them; the last one counts. None: JAX has no part in it."""
        if new is not None:
            self._array[at], self._place[at] = len(self._arrays), np.arange(at.size)
            self._arrays.append(lax.convert_element_type(new, self._arrays[0].dtype) if self._arrays else new)
        self.follows[at], self.unwritten[at], self.written[at] = follows, False, True

    def add(self, at: np.ndarray, new: jax.Array) -> None:
        """Note what is added at places, one axis of them, each as often as it is named."""
        once, which = np.unique(at, return_inverse=True)
        old = self.read(once)
        self.put(once, old.at[which].add(lax.convert_element_type(new, old.dtype)), True)


def taken(x: jax.Array, at: np.ndarray) -> jax.Array:
    """The entries of an array of one axis at places that it has."""
    return x.at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _addresses(x: torch.Tensor) -> np.ndarray:
    """Where each entry of a tensor is."""
    offsets = np.zeros(tuple(x.shape), np.int64)
    for axis, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True)):
        offsets += (np.arange(size) * stride).reshape(-1, *(1,) * (x.dim() - axis - 1))
    return (x.data_ptr() + x.element_size() * offsets).astype(np.uint64)


def _check_apart(banks: dict[np.dtype, Bank]) -> None:
    """Raise CannotConvert where entries share a part of their memory only, or are of several formats."""
    starts = np.concatenate([np.zeros(0, np.uint64), *(bank.addresses for bank in banks.values())])
    sizes = [np.full(bank.addresses.size, dtype.itemsize, np.uint64) for dtype, bank in banks.items()]
    order = np.argsort(starts, kind="stable")
    ends = (starts + np.concatenate([np.zeros(0, np.uint64), *sizes]))[order]
    if (starts[order][1:] < ends[:-1]).any():
        raise CannotConvert("a kernel gets the same memory as numbers of several dtypes")
