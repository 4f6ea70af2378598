"""An operator of PyTorch with the derivatives of an entry of a derivatives.yaml, or with its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from parity_tests.harness.candidates.reasons import PYTORCH
from parity_tests.harness.candidates.torch_refusals import refusal_of
from parity_tests.sweep.operators import operator_of
from parity_tests.sweep.recorded_calls import as_torch
from torch_impl import derivatives


@contextmanager
def _refusals_of_operators() -> Iterator[None]:
    """Raise PyTorch's own refusal of an operator that a formula calls, in place of the evaluation's error."""
    try:
        yield
    except derivatives.EvaluationError as error:
        refusal = None if error.__cause__ is None else refusal_of(error.__cause__)
        if refusal is None or refusal.reason.whose != PYTORCH:
            raise
        raise refusal from error


_vjp = _refusals_of_operators()(derivatives.vjp)
_jvp = _refusals_of_operators()(derivatives.jvp)


def by_formulas(
    entry: derivatives.Entry, moving: Sequence[str], fixed: Mapping[str, Any], values: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return an operator of PyTorch whose derivatives are those of an entry, as a function of some of its inputs.

    `fixed`: the other arguments, by name; arrays, or what PyTorch takes. `values`: called with all arguments by name in
    place of an operator that PyTorch does not have. Of a list of tensors it returns a tuple. What PyTorch returns as a
    view is a copy, since the tangent of a view must be one, too.
    """
    operator = operator_of(entry.name) if values is None else values
    returns_list, returns_view = _returns(entry, operator)
    constants = {name: as_torch(value) for name, value in fixed.items()}

    def bound(inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
        return derivatives.bind(entry, (), constants | dict(zip(moving, inputs, strict=True)))

    def by_return(outputs: Sequence[Any]) -> Sequence[Any]:
        return (list(outputs),) if returns_list else outputs

    class ByFormulas(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs: torch.Tensor) -> Any:
            results = operator(**constants, **dict(zip(moving, inputs, strict=True)))
            if isinstance(results, tuple | list):
                return tuple(y.clone() if returns_view else y for y in results)
            # A Function must not return an input itself, as lift_fresh does.
            return results.clone() if returns_view or any(results is x for x in inputs) else results

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.several = isinstance(output, tuple | list)
            outputs = tuple(output) if ctx.several else (output,)
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(*_without_derivatives(entry, outputs, returns_list))
            ctx.save_for_backward(*inputs, *outputs)
            ctx.save_for_forward(*inputs, *outputs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            inputs, outputs = _saved(ctx, len(moving))
            wanted = [*itertools.compress(moving, ctx.needs_input_grad)]
            found = _vjp(entry, bound(inputs), by_return(outputs), by_return(cotangents), wanted)
            return tuple(map(found.get, moving))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            inputs, outputs = _saved(ctx, len(moving))
            dots = {name: t for name, t in zip(moving, tangents, strict=True) if t is not None}
            by_name = _jvp(entry, bound(inputs), by_return(outputs), dots)
            found: Any = [by_name.get(name) for name in entry.result_names]
            return tuple(found[0] if returns_list else found) if ctx.several else found[0]

    return ByFormulas.apply


def of_pytorch(name: str, moving: Sequence[str], fixed: Mapping[str, Any]) -> Callable[..., Any]:
    """Return an operator of PyTorch with its own derivatives, as a function of some of its inputs."""
    operator, constants = operator_of(name), {key: as_torch(value) for key, value in fixed.items()}

    def call(*inputs: torch.Tensor) -> Any:
        results = operator(**constants, **dict(zip(moving, inputs, strict=True)))
        return tuple(results) if isinstance(results, list) else results

    return call


def _returns(entry: derivatives.Entry, operator: Callable[..., Any]) -> tuple[bool, bool]:
    """Whether an operator returns a list of tensors, and whether it returns views."""
    returns = entry.signature.returns
    is_view = isinstance(operator, torch._ops.OpOverload) and operator.is_view
    is_list = len(returns) == 1 and returns[0].type.is_list_like() is not None
    return is_list, is_view or any(each.annotation is not None for each in returns)


def _saved(ctx: Any, inputs: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    saved = list(ctx.saved_tensors)
    return saved[:inputs], saved[inputs:]


def _without_derivatives(
    entry: derivatives.Entry, outputs: Sequence[torch.Tensor], returns_list: bool
) -> list[torch.Tensor]:
    moves = entry.differentiable_outputs * (len(outputs) if returns_list else 1)
    numbers = [y.is_floating_point() or y.is_complex() for y in outputs]
    return [y for y, differentiable, n in zip(outputs, moves, numbers, strict=True) if not (differentiable and n)]
