"""The operations of Triton's interpreter, in JAX: what it computes of a kernel's tensors is recorded by its builder.

Integers, addresses and masks that do not follow from the numbers of tensors stay those of the run. A cast from one
format of floats to another changes nothing, since rounding is judged otherwise. What is not in the tables below is not
modelled, nor is a branch on numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.candidates.triton_memory import Memory, Traced, lifted, taken
from parity_tests.harness.numbers.short_constants import meant

_COMPARED = {"LT": lax.lt, "LE": lax.le, "GT": lax.gt, "GE": lax.ge, "EQ": lax.eq, "NE": lax.ne}
_INTEGERS_COMPARED = {f"create_icmp{sign}{name}": f for sign in ("", "S", "U") for name, f in _COMPARED.items()}
_FLOATS_COMPARED = {f"create_fcmp{order}{name}": f for order in "OU" for name, f in _COMPARED.items()}

# Functions of arrays of one shape.
_ENTRYWISE: dict[str, Callable[..., jax.Array]] = {
    **_INTEGERS_COMPARED,
    **_FLOATS_COMPARED,
    **dict.fromkeys(("create_fadd", "create_add"), lax.add),
    **dict.fromkeys(("create_fsub", "create_sub"), lax.sub),
    **dict.fromkeys(("create_fmul", "create_mul"), lax.mul),
    **dict.fromkeys(("create_fdiv", "create_precise_divf", "create_approx_divf"), lax.div),
    **dict.fromkeys(("create_maximumf", "create_maxnumf", "create_maxsi", "create_maxui"), lax.max),
    **dict.fromkeys(("create_minimumf", "create_minnumf", "create_minsi", "create_minui"), lax.min),
    **dict.fromkeys(("create_sqrt", "create_precise_sqrt"), lax.sqrt),
    "create_fneg": lax.neg,
    "create_fabs": lax.abs,
    "create_fma": lambda x, y, z: x * y + z,
    "create_exp": lax.exp,
    "create_exp2": jnp.exp2,
    "create_log": lax.log,
    "create_log2": jnp.log2,
    "create_sin": lax.sin,
    "create_cos": lax.cos,
    "create_rsqrt": lax.rsqrt,
    "create_erf": lax.erf,
    "create_floor": lax.floor,
    "create_ceil": lax.ceil,
    "create_and": lax.bitwise_and,
    "create_or": lax.bitwise_or,
    "create_xor": lax.bitwise_xor,
    "create_select": lax.select,
}


def _cast(shape: tuple[int, ...], x: jax.Array, *_: Any) -> jax.Array:
    return x


def _cast_to_float(shape: tuple[int, ...], x: jax.Array, *_: Any) -> jax.Array:
    return lax.convert_element_type(x, np.float64)


def _dot(shape: tuple[int, ...], x: jax.Array, y: jax.Array, total: jax.Array, *_: Any) -> jax.Array:
    if not all(jnp.issubdtype(a.dtype, jnp.floating) for a in (x, y, total)):
        raise CannotConvert("Triton's dot of integers that follow from numbers is not modelled")
    return jnp.matmul(x, y) + total


# (shape of the result, operands...) -> what JAX has for it.
_OTHERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("create_fp_ext", "create_fp_trunc", "create_fp_to_fp", "create_int_cast"), _cast),
    **dict.fromkeys(("create_si_to_fp", "create_ui_to_fp"), _cast_to_float),
    **dict.fromkeys(("create_reshape", "create_expand_dims"), lambda shape, x, *_: x.reshape(shape)),
    "create_broadcast": lambda shape, x, _: jnp.broadcast_to(x, shape),
    "create_splat": lambda shape, _, x: jnp.broadcast_to(x, shape),
    "create_unsplat": lambda shape, x: x.ravel()[:1],
    "create_trans": lambda shape, x, order: jnp.transpose(x, tuple(order)),
    "create_cat": lambda shape, x, y: jnp.concatenate([x, y]),
    "create_join": lambda shape, x, y: jnp.stack([x, y], -1),
    "create_split": lambda shape, x: (x[..., 0], x[..., 1]),
    "create_gather": lambda shape, x, at, axis: jnp.take_along_axis(x, at, axis),
    "create_clampf": lambda shape, x, low, high, _: lax.min(lax.max(x, low), high),
    "create_dot": _dot,
}

# What a masked load without `other` has beside its mask, where the interpreter has 0 and a GPU nothing that is known:
# what is computed of it is another number. It is a fourth power, so that its roots are in every field, and short.
_UNDEFINED = (251 / 256) ** 4

# What calls others of the builder with what it is given.
_MADE_OF_OTHERS = (
    *("create_load", "create_store", "create_atomic_load", "create_atomic_store"),
    *("create_descriptor_load", "create_descriptor_store", "create_descriptor_scatter"),
)


def _is_traced(handle: Any) -> bool:
    return isinstance(getattr(handle, "data", None), Traced)


class _Recorder:
    """A builder of Triton's interpreter, whose operations are done by JAX, too."""

    def __init__(self, interpreter: ModuleType, memory: Memory) -> None:
        self._interpreter, self._memory = interpreter, memory
        self.builder = interpreter.InterpreterBuilder()
        own = {
            "create_masked_load": self._load,
            "create_masked_store": self._store,
            "create_atomic_rmw": self._rmw,
            "create_atomic_cas": self._cas,
        }
        for name in (name for name in dir(self.builder) if name.startswith("create_")):
            setattr(self.builder, name, partial(own.get(name, partial(self._do, name)), getattr(self.builder, name)))

    def handle(self, data: Any, dtype: Any) -> Any:
        """The interpreter's value for an array."""
        return self._interpreter.TensorHandle(data, dtype)

    def plain(self, x: Any) -> Any:
        """The same without what JAX has."""
        return self.handle(x.data.value, x.dtype) if _is_traced(x) else x

    def _operand(self, x: Any) -> Any:
        if not isinstance(x, self._interpreter.TensorHandle):
            return x
        return lifted(x.data if _is_traced(x) else meant(x.data, x.data.dtype.name))

    def _do(self, name: str, original: Callable, *operands: Any) -> Any:
        if name in _MADE_OF_OTHERS or not any(map(_is_traced, operands)):
            return original(*operands)
        if name not in _ENTRYWISE and name not in _OTHERS:
            raise CannotConvert(f"Triton's {name.removeprefix('create_')} of numbers is not modelled")
        found = original(*map(self.plain, operands))
        if name in ("create_fp_trunc", "create_fp_to_fp"):
            self._memory.bank(found.data.dtype)  # numbers of a shorter format than any tensor's are others
        every, given = found if isinstance(found, tuple) else (found,), [*map(self._operand, operands)]
        shape = every[0].data.shape
        if name in _ENTRYWISE:
            traced = _ENTRYWISE[name](*(jnp.broadcast_to(x, shape) for x in given))
        else:
            traced = _OTHERS[name](shape, *given)
        pairs = zip(every, traced if isinstance(found, tuple) else (traced,), strict=True)
        made = tuple(self.handle(Traced(y.data, x), y.dtype) for y, x in pairs)
        return made if isinstance(found, tuple) else made[0]

    def _found(self, pointers: Any, mask: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
        """The bank at which pointers point, their places in it, where there are any, and which of them count."""
        if _is_traced(pointers):
            raise CannotConvert("a kernel has addresses that follow from numbers")
        bank = self._memory.bank(self._interpreter._get_np_dtype(pointers.get_element_ty()))
        counts = np.broadcast_to(self.plain(mask).data, pointers.data.shape)
        return bank, *bank.find(pointers.data, counts), counts

    def _load(self, original: Callable, pointers: Any, mask: Any, other: Any, *rest: Any) -> Any:
        bank, at, there, counts = self._found(pointers, mask)
        bank.check_known(at[counts])
        found = original(pointers, self.plain(mask), self.plain(other), *rest)
        read = there if _is_traced(mask) else counts
        has_undefined = bank.is_traced and bank.dtype.kind == "f" and other is None and not counts.all()
        known = not has_undefined and not (bank.follows[at] & read).any()
        if known and not _is_traced(mask) and not _is_traced(other):
            return found
        shape = pointers.data.shape
        entries = bank.read(_only(read, at))
        if _is_traced(mask) and not there.all():  # who reads there is on another branch
            if bank.dtype.kind != "f":
                raise CannotConvert("where a kernel reads integers follows from numbers")
            entries = lax.select(jnp.asarray(there), entries, jnp.full(shape, np.nan, entries.dtype))
        if _is_traced(mask) or not counts.all():
            undefined = _UNDEFINED if bank.dtype.kind == "f" else 0
            beside = lifted(undefined if other is None else other.data)
            beside = lax.convert_element_type(jnp.broadcast_to(beside, shape), entries.dtype)
            entries = lax.select(jnp.broadcast_to(lifted(mask.data), shape), entries, beside)
        return self.handle(Traced(found.data, entries), found.dtype)

    def _store(self, original: Callable, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        bank, at, there, counts = self._found(pointers, mask)
        traced_mask = _is_traced(mask)
        if traced_mask and not (there.all() and np.unique(at).size == at.size):
            raise CannotConvert("a kernel writes to addresses that follow from numbers")
        if traced_mask:
            bank.check_known(at)  # what is there may stay
        result = original(pointers, self.plain(value), self.plain(mask), *rest)
        new, lanes = None, np.flatnonzero(np.ones(at.size, bool) if traced_mask else counts)
        if bank.is_traced:
            new = jnp.broadcast_to(lifted(value.data), at.shape)
            new = lax.select(jnp.broadcast_to(lifted(mask.data), at.shape), new, bank.read(at)) if traced_mask else new
            new = taken(new.ravel(), lanes)
        bank.put(at.ravel()[lanes], new, _is_traced(value) or traced_mask)
        return result

    def _rmw(self, original: Callable, op: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        bank, at, _, counts = self._found(pointers, mask)
        bank.check_known(at[counts])
        if not bank.follows[at[counts]].any() and not _is_traced(value) and not _is_traced(mask):
            return self._of_the_run(partial(original, op, pointers, value, mask, *rest), bank, at, counts, pointers)
        if op.name not in ("ADD", "FADD") or _is_traced(mask):
            raise CannotConvert(f"Triton's atomic {op.name} of numbers is not modelled")
        found = original(op, pointers, self.plain(value), mask, *rest)
        lanes, old = np.flatnonzero(counts), bank.read(_only(counts, at))  # the others are undefined
        if np.unique(at[counts]).size < lanes.size:  # what each of them finds follows from their order
            if bank.dtype.kind != "f":
                raise CannotConvert("several atomic additions to one integer")
            old = jnp.full(at.shape, np.nan)
        bank.add(at.ravel()[lanes], taken(jnp.broadcast_to(lifted(value.data), at.shape).ravel(), lanes))
        return self.handle(Traced(found.data, old), found.dtype)

    def _cas(self, original: Callable, pointers: Any, expected: Any, value: Any, *rest: Any) -> Any:
        every = self.handle(np.ones_like(pointers.data, dtype=bool), self._interpreter.tl.int1)
        bank, at, _, counts = self._found(pointers, every)
        bank.check_known(at)
        if bank.follows[at].any() or _is_traced(expected) or _is_traced(value):
            raise CannotConvert("Triton's atomic CAS of numbers is not modelled")
        return self._of_the_run(partial(original, pointers, expected, value, *rest), bank, at, counts, pointers)

    def _of_the_run(self, change: Callable, bank: Any, at: np.ndarray, counts: np.ndarray, pointers: Any) -> Any:
        """Change memory whose entries do not follow from numbers."""
        result = change()
        dtype = self._interpreter._get_np_dtype(pointers.get_element_ty())
        now = self._interpreter._interpreter.load(pointers.data, counts, np.zeros(at.shape, dtype), dtype)
        lanes = np.flatnonzero(counts)
        bank.put(at.ravel()[lanes], taken(lifted(now).ravel(), lanes) if bank.is_traced else None, False)
        return result

    def reduced(self, original: Callable, operation: Any, tensors: tuple) -> Any:
        """The results of `tl.reduce`."""
        standard = self._interpreter.tl.standard
        largest, smallest = (jnp.max, jnp.argmax), (jnp.min, jnp.argmin)
        known = {
            standard._sum_combine: (jnp.sum,),
            standard._elementwise_max: (jnp.max,),
            standard._elementwise_min: (jnp.min,),
            standard._argmax_combine_tie_break_left: largest,
            standard._argmax_combine_tie_break_fast: largest,
            standard._argmin_combine_tie_break_left: smallest,
            standard._argmin_combine_tie_break_fast: smallest,
        }
        return self._along(original, operation, tensors, known.get(operation.combine_fn), self._last)

    def scanned(self, original: Callable, operation: Any, tensors: tuple) -> Any:
        """The results of `tl.associative_scan`."""
        standard = self._interpreter.tl.standard
        known = {standard._sum_combine: (jnp.cumsum,), standard._prod_combine: (jnp.cumprod,)}
        return self._along(original, operation, tensors, known.get(operation.combine_fn), self._every)

    def _along(self, original: Callable, operation: Any, tensors: tuple, known: Any, combined: Callable) -> Any:
        if not any(_is_traced(x.handle) for x in tensors):
            return original(operation, tensors)
        tl = self._interpreter.tl
        found = original(operation, tuple(tl.tensor(self.plain(x.handle), x.type) for x in tensors))
        every, axis, back = found if isinstance(found, list | tuple) else [found], operation.axis, slice(None, None, -1)
        given = [lifted(x.handle.data) for x in tensors]
        if axis is None:
            axis, given = 0, [x.ravel() for x in given]
        given = [jnp.moveaxis(x, axis, 0) for x in given]
        given = [x[back] for x in given] if getattr(operation, "reverse", False) else given
        results = [f(given[0], 0) for f in known] if known else combined(operation.combine_fn, given, tensors)
        if combined == self._every:
            results = [x[back] for x in results] if operation.reverse else results
            results = [jnp.moveaxis(x, 0, axis) for x in results]
        made = []
        for y, x in zip(every, results, strict=True):
            made.append(tl.tensor(self.handle(Traced(y.handle.data, x), y.handle.dtype), y.type))
        return made if isinstance(found, list | tuple) else made[0]

    def _last(self, combine: Any, given: Sequence[jax.Array], tensors: tuple) -> list[jax.Array]:
        *_, last = self._combinations(combine, given, tensors)
        return last

    def _every(self, combine: Any, given: Sequence[jax.Array], tensors: tuple) -> list[jax.Array]:
        return [jnp.stack(rows) for rows in zip(*self._combinations(combine, given, tensors), strict=True)]

    def _combinations(self, combine: Any, given: Sequence[jax.Array], tensors: tuple) -> Iterator[list[jax.Array]]:
        """The first entries along the first axis, combined with the second ones, and so on."""
        so_far = [x[0] for x in given]
        yield so_far
        for i in range(1, given[0].shape[0]):
            pairs = [*zip(so_far, tensors, strict=True), *zip((x[i] for x in given), tensors, strict=True)]
            made = combine.fn(*(self._tensor(x, of.dtype) for x, of in pairs))
            every = made if isinstance(made, tuple) else (made,)
            so_far = [lifted(y.handle.data).reshape(so_far[0].shape) for y in every]
            yield so_far

    def _tensor(self, x: jax.Array, dtype: Any) -> Any:
        """A block of which the run has no numbers: whatever asks for them gets none."""
        tl = self._interpreter.tl
        shape = x.shape or (1,)
        value = np.zeros(shape, self._interpreter._get_np_dtype(dtype))
        return tl.tensor(self.handle(Traced(value, x), dtype), tl.block_type(dtype, list(shape)) if x.shape else dtype)


def _only(which: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The places, but one of those that count in the stead of the others."""
    return np.where(which, at, at[which].ravel()[0] if which.any() else 0)


@contextmanager
def recorded(interpreter: ModuleType, memory: Memory) -> Iterator[None]:
    """Let kernels that are run inside work on a memory."""
    recorder = _Recorder(interpreter, memory)
    reduce, scan = interpreter.ReduceOps, interpreter.ScanOps
    changes = (
        (interpreter, "interpreter_builder", recorder.builder),
        (interpreter.interpreter_semantic, "builder", recorder.builder),
        (reduce, "apply_impl", _as_method(recorder.reduced, reduce.apply_impl)),
        (scan, "apply_impl", _as_method(recorder.scanned, scan.apply_impl)),
    )
    old = [getattr(place, name) for place, name, _ in changes]
    for place, name, new in changes:
        setattr(place, name, new)
    try:
        with np.errstate(all="ignore"):  # of what is masked
            yield
    finally:
        for (place, name, _), before in zip(changes, old, strict=True):
            setattr(place, name, before)


def _as_method(f: Callable, original: Callable) -> Callable:
    return lambda operation, tensors: f(original, operation, tensors)
