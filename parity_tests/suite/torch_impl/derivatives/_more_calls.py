"""Calls of operators that no sample of PyTorch's leads to: in-place, scalar and foreach variants, kernels."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from parity_tests.suite.torch_impl.derivatives._calls import Call, Recorder, differentiated_twice
from parity_tests.sweep.operators import is_operator
from parity_tests.sweep.written_calls import NAMED, WRITTEN
from torch_impl.derivatives import entries


def more_calls() -> dict[str, list[Call]]:
    """The calls that are written out here, by the name of the operator."""
    torch.manual_seed(0)
    given = {name: make() for name, make in WRITTEN.items()}  # the same numbers, whatever this PyTorch lacks
    calls = {name: [_call(name, args)] for name, args in given.items() if is_operator(name)}
    for name in ("_foreach_minimum", "_foreach_maximum"):  # an entry that is the number has a formula of its own
        x = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
        calls[f"{name}.Scalar"].append(_call(f"{name}.Scalar", ([x], 0.5)))
        calls[f"{name}.ScalarList"].append(_call(f"{name}.ScalarList", ([x, x.clone()], [0.5, 2.0])))
    return calls


def backward_calls() -> dict[str, list[Call]]:
    """The calls that differentiating those twice leads to, among them those of the backward operators."""
    recorder = Recorder(entry.name for entry in entries() if entry.key == "Default")
    recorder.source = "written out"
    for calls in more_calls().values():
        for call in calls:
            leaves = [x for x in tree_leaves((call.args, call.kwargs)) if isinstance(x, torch.Tensor)]
            inputs = [x.requires_grad_() for x in leaves if x.is_floating_point() or x.is_complex()]
            # An operator that writes to a leaf, or has no derivative, leads to no backward
            with warnings.catch_warnings(), contextlib.suppress(RuntimeError, NotImplementedError), recorder:
                warnings.simplefilter("ignore")
                differentiated_twice(call.operator(*call.args, **call.kwargs), inputs)
    return dict(recorder.calls)


def _call(name: str, args: tuple[Any, ...]) -> Call:
    base, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, base), overload or "default")
    return Call(operator, args, NAMED.get(name, {}), "written out")
