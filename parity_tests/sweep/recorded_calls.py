"""Calls of ATen's operators, as PyTorch's own samples (OpInfo) make them, with their results."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from parity_tests.sweep.drawn import fixed_seed
from parity_tests.sweep.operators import operator_of

_WHERE_IT_LIES = ("device", "layout", "pin_memory", "memory_format", "non_blocking")


@dataclass(frozen=True, eq=False)
class RecordedCall:
    """One call of an operator: NumPy arrays and Python values.

    Attributes:
        name: with its overload, "aten::sum.dim_IntList".
        arguments: by the schema's names; those that say where a tensor lies are left out.
        results: the arrays that PyTorch returned, in order.
        source: the OpInfo whose sample it comes from.
    """

    name: str
    arguments: Mapping[str, Any]
    results: tuple[Any, ...]
    source: str

    @property
    def signature(self) -> tuple:
        """A key that calls share if they differ in their numbers only."""
        return self.name, *((key, _described(value)) for key, value in self.arguments.items())

    @property
    def is_internal(self) -> bool:
        """Whether only PyTorch itself calls the operator, with arguments of its own."""
        return "_backward" in self.name or self.name.startswith("aten::_")


def _described(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype)
    if isinstance(value, list | tuple):
        return tuple(_described(each) for each in value)
    return repr(value)


def as_numpy(value: Any) -> Any:
    """Return a value of PyTorch as one that knows nothing of it; tensors are copied.

    Raises:
        TypeError: it is of a kind that has no counterpart, such as a generator, or a sparse tensor.
    """
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized:
            raise TypeError(f"a tensor with the layout {value.layout}")
        return value.detach().resolve_conj().resolve_neg().cpu().numpy().copy()
    if isinstance(value, torch.dtype):
        return torch.empty(0, dtype=value).numpy().dtype
    if isinstance(value, list | tuple):
        return [as_numpy(each) for each in value]
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    raise TypeError(f"a value of type {type(value).__name__}")


def as_torch(value: Any) -> Any:
    """Return what `as_numpy` was given: arrays as tensors that own their memory, as `_lazy_clone` needs."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy()).clone()
    if isinstance(value, np.dtype):
        return getattr(torch, value.name)
    return [as_torch(each) for each in value] if isinstance(value, list) else value


def results_of_pytorch(name: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what PyTorch's operator, with its overload, returns of these arguments, which are NumPy's."""
    results = operator_of(name)(**{key: as_torch(value) for key, value in arguments.items()})
    return tuple(map(as_numpy, results if isinstance(results, list | tuple) else (results,)))


def as_jax(value: Any) -> Any:
    """Return what `as_numpy` was given for a function in JAX.

    Arrays of integers and masks stay NumPy's: the shapes of results may depend on them, and of what is traced they
    must be known.
    """
    if isinstance(value, np.ndarray):
        return jnp.asarray(value) if value.dtype.kind in "fc" else value
    return [as_jax(each) for each in value] if isinstance(value, list) else value


@dataclass
class _Recorder(TorchDispatchMode):
    """Keeps the calls of operators with these names, before what they write to has changed."""

    wanted: Collection[str]
    source: str
    largest: int
    found: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        arguments = None
        if name in self.wanted and _entries((args, kwargs)) <= self.largest:
            arguments = _arguments(schema, args, kwargs)
        if arguments is not None and not arguments.get("dropout_p"):  # which draws random numbers
            self.found.append((name, arguments, func))
        return func(*args, **kwargs)

    def calls(self) -> Iterator[RecordedCall]:
        """Yield the calls with their results, computed anew: in this mode a kernel may miss a lazy conjugate."""
        for name, arguments, func in self.found:
            # Of a result that NumPy cannot hold, as a sparse tensor; of an operator that has refused before, too.
            with contextlib.suppress(TypeError, RuntimeError):
                results = func(**{key: as_torch(value) for key, value in arguments.items()})
                returned = tuple(results) if isinstance(results, list | tuple) else (results,)
                yield RecordedCall(name, arguments, tuple(map(as_numpy, returned)), self.source)


def _entries(arguments: Any) -> int:
    """The number of entries of all tensors."""
    return sum(leaf.numel() for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor))


def _arguments(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments by name, or None if one has no counterpart in NumPy."""
    named = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | dict(kwargs)
    try:
        return {key: as_numpy(value) for key, value in named.items() if key not in _WHERE_IT_LIES}
    except TypeError:
        return None


def opinfo_names() -> list[str]:
    """Return the names of PyTorch's OpInfos, each with its variant, in their order."""
    return [op.full_name for op in _op_db()]


@functools.cache
def opinfo_dtypes(name: str) -> frozenset[str]:
    """Return the dtypes of an OpInfo on the CPU, as "float64"."""
    op = next(op for op in _op_db() if op.full_name == name)
    return frozenset(str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cpu"))


def _op_db() -> Sequence[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's own, on import
        from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def recorded_calls(
    wanted: Collection[str],
    opinfos: Collection[str] | None = None,
    dtypes: Sequence[torch.dtype] = (torch.float64,),
    orders: int = 1,
    samples: int | None = None,
    largest: int = 2**31,
) -> Iterator[RecordedCall]:
    """Yield the calls of wanted operators that the samples of these OpInfos make, all OpInfos if None, with backward.

    Samples that PyTorch itself cannot run on the CPU are left out.

    Args:
        orders: how often a sample is differentiated; a second time reaches the backward operators' own formulas.
        samples: at most so many of each OpInfo and dtype, evenly chosen; all if None.
        largest: calls whose tensors have more entries than this are left out.
    """
    for op in _op_db():
        if opinfos is not None and op.full_name not in opinfos:
            continue
        for dtype in dtypes:
            if dtype in op.supported_dtypes("cpu"):
                yield from _of_opinfo(op, dtype, wanted, orders, samples, largest)


def calls_made_by(
    run: Callable[[], object], wanted: Collection[str], source: str, largest: int = 2**31
) -> list[RecordedCall]:
    """Return the calls of wanted operators that `run()` makes; where PyTorch refuses one, those before it."""
    recorder = _Recorder(wanted, source, largest)
    with warnings.catch_warnings(), fixed_seed():
        warnings.simplefilter("ignore")  # of PyTorch's own
        with _what_pytorch_refuses(), recorder:
            run()
        return list(recorder.calls())


def _of_opinfo(
    op: Any, dtype: torch.dtype, wanted: Collection[str], orders: int, most: int | None, largest: int
) -> list[RecordedCall]:
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    found: list[RecordedCall] = []
    with warnings.catch_warnings(), fixed_seed():
        warnings.simplefilter("ignore")  # of PyTorch's own, about its samples
        for sample in _evenly(_samples(op, dtype, differentiable), most):
            recorder = _Recorder(wanted, op.full_name, largest)
            inputs = [x for x in tree_leaves((sample.input, sample.args, sample.kwargs)) if _needs_gradient(x)]
            # Of the operator or of its backward, as where it needs a GPU: what ran before is kept.
            with _what_pytorch_refuses(), recorder:
                results = op.op(sample.input, *sample.args, **sample.kwargs)
                if differentiable:
                    differentiate(results, inputs, orders)
            # Without gradients operators that are made of others are seen as they are called.
            with _what_pytorch_refuses(), torch.inference_mode(), recorder:
                op.op(sample.input, *sample.args, **sample.kwargs)
            with _what_pytorch_refuses(), torch.inference_mode(), recorder:
                if op.inplace_variant is not None and isinstance(sample.input, torch.Tensor):
                    op.inplace_variant(sample.input.clone(), *sample.args, **sample.kwargs)
            found += recorder.calls()
    return found


def _what_pytorch_refuses() -> contextlib.AbstractContextManager:
    return contextlib.suppress(RuntimeError, TypeError, ValueError, AssertionError)


def _samples(op: Any, dtype: torch.dtype, differentiable: bool) -> list[Any]:
    try:
        return list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
    except (RuntimeError, ImportError):
        return []


def _evenly(samples: Sequence[Any], most: int | None) -> Sequence[Any]:
    """At most so many of the samples, from the first to the last."""
    if most is None or len(samples) <= most:
        return samples
    return [samples[round(i * (len(samples) - 1) / (most - 1))] for i in range(most)]


def _needs_gradient(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def differentiate(results: Any, inputs: Sequence[torch.Tensor], orders: int) -> None:
    """Call the backward of the results, with random cotangents, and so on: of every order at most this one."""
    for order in range(orders):
        roots = [y for y in tree_leaves(results) if _needs_gradient(y)]
        if not roots or not inputs:
            return
        further = order + 1 < orders
        bars = [torch.randn_like(y).requires_grad_(further) for y in roots]
        results = torch.autograd.grad(roots, inputs, bars, create_graph=further, allow_unused=True)
        inputs = [*inputs, *bars]
