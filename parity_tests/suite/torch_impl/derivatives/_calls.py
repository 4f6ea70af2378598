"""Calls of ATen's operators, recorded while PyTorch's own samples of its operators are differentiated twice."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from torch_impl.derivatives import entries

LARGEST = 20_000  # entries of all tensors of a call
OF_A_KIND = 2
OF_AN_OPERATOR = 24
EMPTY = 3  # calls on tensors without entries, of an operator
DRAWN = 60  # samples that are looked at


@dataclass(frozen=True)
class Call:
    """An operator's overload and the arguments that it was called with; `source` is the OpInfo that led to it."""

    operator: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    source: str

    @property
    def name(self) -> str:
        """The operator as derivatives.yaml names it: "sum.dim_IntList"."""
        return self.operator._schema.name.split("::")[1] + (
            f".{self.operator._schema.overload_name}" if self.operator._schema.overload_name else ""
        )


def copied(x: torch.Tensor) -> torch.Tensor:
    """A copy that lies in its memory as the original does, as `as_strided` and views of it need."""
    if x.layout != torch.strided or x.is_conj() or x.is_neg():
        return x.detach().clone()
    memory = x.untyped_storage().clone()
    return torch.empty(0, dtype=x.dtype).set_(memory, x.storage_offset(), x.shape, x.stride())


class Recorder(TorchDispatchMode):
    """Records the calls of operators that have an entry in derivatives.yaml: few of each kind of arguments."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self._names = frozenset(names)
        self._kinds: Counter[Any] = Counter()
        self._empty: Counter[str] = Counter()
        self.calls: dict[str, list[Call]] = defaultdict(list)
        self.source = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = Call(func, args, kwargs or {}, self.source)
        if func.namespace == "aten" and call.name in self._names and self._is_new(call):
            copy = tree_map_only(torch.Tensor, copied, (args, call.kwargs))
            self.calls[call.name].append(Call(func, *copy, self.source))
        return func(*args, **(kwargs or {}))

    def _is_new(self, call: Call) -> bool:
        leaves = tree_leaves((call.args, call.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if sum(x.numel() for x in tensors) > LARGEST or len(self.calls[call.name]) >= OF_AN_OPERATOR:
            return False
        if tensors and not any(x.numel() for x in tensors):
            self._empty[call.name] += 1
            if self._empty[call.name] > EMPTY:
                return False
        kind = (call.name, *((tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else str(x) for x in leaves))
        self._kinds[kind] += 1
        return self._kinds[kind] <= OF_A_KIND


def differentiated_twice(outputs: Any, inputs: Sequence[torch.Tensor]) -> None:
    """Call the operators of a backward, and of the backward of that."""
    for _ in range(2):
        roots = [y for y in tree_leaves(outputs) if isinstance(y, torch.Tensor) and y.requires_grad]
        if not roots or not inputs:
            return
        bars = [torch.randn_like(y).requires_grad_() for y in roots]
        with contextlib.suppress(RuntimeError, NotImplementedError):
            outputs = torch.autograd.grad(roots, inputs, bars, create_graph=True, allow_unused=True)
            inputs = [*inputs, *bars]
            continue
        return


def record(
    operators: Iterable[OpInfo], dtypes: Sequence[torch.dtype] = (torch.float64, torch.complex128), samples: int = 12
) -> dict[str, list[Call]]:
    """The calls that samples of these operators lead to, by the name of the operator that was called."""
    recorder = Recorder(entry.name for entry in entries() if entry.key == "Default")
    for operator in operators:
        recorder.source = operator.name
        for dtype in dtypes:
            if dtype in operator.supported_dtypes("cpu"):
                _record(recorder, operator, dtype, samples)
    return dict(recorder.calls)


def _record(recorder: Recorder, operator: OpInfo, dtype: torch.dtype, samples: int) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = list(itertools.islice(_samples(operator, dtype), DRAWN))
    for i in sorted({round(k * (len(drawn) - 1) / max(samples - 1, 1)) for k in range(min(samples, len(drawn)))}):
        sample = drawn[i]
        leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
        inputs = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
        # An operator of another device, or a dtype that a kernel lacks, leads to no calls
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            with recorder:
                outputs = operator(sample.input, *sample.args, **sample.kwargs)
                differentiated_twice(outputs, inputs)


def _samples(operator: OpInfo, dtype: torch.dtype) -> Iterator[Any]:
    grad = operator.supports_autograd
    with contextlib.suppress(RuntimeError, NotImplementedError, AssertionError):
        yield from operator.sample_inputs("cpu", dtype, requires_grad=grad)


def operators(names: Iterable[str] | None = None) -> list[OpInfo]:
    """PyTorch's OpInfos of these names; all of them, if left out."""
    wanted = None if names is None else set(names)
    return [operator for operator in op_db if wanted is None or operator.name in wanted]
