"""The program of formulas in NumPy: each operation is done by NumPy, and by the function of JAX that has its name.

`Traced` stands for an array in a call of a formula. In JAX no array is written to, so a write makes a new one here, and
an array that shares memory with it stays as it is. In NumPy it would not: whoever reads a program has to compare what
`Recording.returned` returns with the results of the formula at plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.exceptions.errors import first_line

_OF_JAX: dict[str, ModuleType] = {"numpy.linalg": jnp.linalg, "numpy.fft": jnp.fft}  # jax.numpy for all others
TAKES_NUMBERS = "it takes numbers out of an array, as `if x.max() > 0` or numpy.asarray do"
_READ = ("shape", "ndim", "size", "dtype", "itemsize", "nbytes")
_MOVED = ("T", "mT", "real", "imag")
_IN_PLACE = ("sort", "partition", "fill", "put", "resize", "itemset", "setfield", "setflags", "byteswap")


class Recording:
    """A call of a formula at tracers; `results`: what JAX made of them, None for a None."""

    def __init__(self, tracers: Sequence[jax.Array]) -> None:
        self._tracers = iter(tracers)
        self.results: list[jax.Array | None] = []

    def given(self, x: np.ndarray) -> Traced:
        """The array to call the formula with in the place of the next one that is differentiated."""
        return Traced(x, next(self._tracers))

    def returned(self, results: Sequence[Any]) -> tuple[Any, ...]:
        """Note what a formula returned; return it as NumPy has it."""
        self.results = [y if y is None else jnp.asarray(_side(y, "traced")) for y in results]
        return tuple(_side(y, "value") for y in results)


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of NumPy, and the array of JAX that is computed alike.

    Raises:
        CannotConvert: its numbers are asked for, or JAX has no function for what is done to it.
    """

    def __init__(self, value: Any, traced: Any) -> None:
        self.value, self.traced = value, traced

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Do a ufunc; with `out` the array that is written to becomes another one."""
        (out,) = kwargs.pop("out", (None,))
        found = _both(_plain_or(ufunc, method), _plain_or(_in_jax(ufunc), method), inputs, kwargs)
        if out is None:
            return found
        if not isinstance(out, Traced):
            raise CannotConvert(f"numpy.{ufunc.__name__} writes to an array that was made without its inputs")
        out.write(..., found)
        return out

    def __array_function__(self, function: Callable, types: Any, args: Any, kwargs: Any) -> Any:
        """Do a function of NumPy."""
        if kwargs.get("out") is not None:
            raise CannotConvert(f"numpy.{function.__name__} writes to an array: out=")
        return _both(function, _in_jax(function), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """A property, or a method that makes an array of it."""
        if name in _READ:
            return getattr(self.value, name)
        if name in _MOVED:
            return _both(lambda x: getattr(x, name), lambda x: getattr(x, name), (self,), {})
        if name.startswith("_") or not hasattr(self.value, name):
            raise AttributeError(name)
        if name in _IN_PLACE:  # what JAX has by that name returns an array
            raise CannotConvert(f"the method {name} of an array writes to it")

        def method(*args: Any, **kwargs: Any) -> Any:
            def of(x: Any, *args: Any, **kwargs: Any) -> Any:
                return getattr(x, name)(*args, **kwargs)

            return _both(of, of, (self, *args), kwargs)

        return method

    def __getitem__(self, index: Any) -> Any:
        """Take entries, at integers or slices."""
        return _both(lambda x, i: x[i], lambda x, i: x[i], (self, index), {})

    def __setitem__(self, index: Any, new: Any) -> None:
        """Replace entries."""
        self.write(index, new)

    def write(self, index: Any, new: Any) -> None:
        """Replace entries, of this array alone."""
        self.value = np.array(self.value)
        self.value[_side(index, "value")] = _side(new, "value")
        at, new = _side(index, "traced"), _side(new, "traced")
        self.traced = _of_jax(lambda: self.traced.at[at].set(jnp.asarray(new, self.traced.dtype)), "an assignment")

    def __len__(self) -> int:
        """The length of the first axis."""
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        """The arrays along the first axis."""
        return (self[i] for i in range(len(self)))

    def number(self, *_: Any, **__: Any) -> Any:
        """Refuse to give numbers to Python, or a text of them."""
        raise CannotConvert(TAKES_NUMBERS)

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __array__ = item = tolist = tobytes = number
    __str__ = __repr__ = __format__ = number


def _plain_or(ufunc: Any, method: str) -> Callable:
    return ufunc if method == "__call__" else getattr(ufunc, method)


def _in_jax(function: Any) -> Any:
    """The function of JAX that has the name of NumPy's or SciPy's."""
    place = _OF_JAX.get(getattr(function, "__module__", None) or "", jnp)
    for module in (place, jax.scipy.special):
        if hasattr(module, function.__name__):
            return getattr(module, function.__name__)
    raise CannotConvert(f"JAX has no function like numpy.{function.__name__}")


def _both(numpy: Callable, of_jax: Callable, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """Do an operation on both sides."""
    args = tuple(args)
    value = numpy(*_side(args, "value"), **_side(kwargs, "value"))
    traced = _of_jax(lambda: of_jax(*_side(args, "traced"), **_side(kwargs, "traced")), getattr(numpy, "__name__", ""))
    if isinstance(value, tuple | list):
        return tuple(map(Traced, value, traced))
    return Traced(value, traced)


def _of_jax(operation: Callable[[], Any], name: str) -> Any:
    """The result of JAX.

    Raises:
        CannotConvert: it has none, as where a shape follows from numbers.
    """
    try:
        return operation()
    except CannotConvert:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise CannotConvert(f"JAX does not do as NumPy does in {name}: {reason}") from error


def _side(x: Any, side: str) -> Any:
    """An argument with one side of each array in it."""
    if isinstance(x, Traced):
        return getattr(x, side)
    if isinstance(x, tuple | list):
        return type(x)(_side(each, side) for each in x)
    if isinstance(x, dict):
        return {key: _side(each, side) for key, each in x.items()}
    return x
