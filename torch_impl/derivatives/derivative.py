"""The derivatives of one call by an entry's formulas: the gradients of its inputs, the tangents of its outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from torch_impl.derivatives.entry import Entry, Formula
from torch_impl.derivatives.errors import DerivativeNotImplemented, EvaluationError, NotEvaluable, OperatorRefused
from torch_impl.derivatives.evaluation import evaluate
from torch_impl.derivatives.functions.elementary import sum_to
from torch_impl.derivatives.parsing import parse
from torch_impl.derivatives.values import Dual, Scope

Gradient = torch.Tensor | list[torch.Tensor | None] | None


def vjp(
    entry: Entry,
    arguments: Mapping[str, Any],
    results: Sequence[Any],
    cotangents: Sequence[Any],
    wanted: Collection[str] | None = None,
) -> dict[str, Gradient]:
    """The gradients of a call's inputs, by the entry's formulas.

    Args:
        entry: the operator's entry.
        arguments: every argument by name, as `bind` gives them.
        results: what the call returned, one for each return of the schema.
        cotangents: for each return its cotangent, `None` where it is undefined; a list for a list of tensors.
        wanted: the inputs whose gradients are wanted; all that have a formula, if left out.

    Returns:
        For each wanted input its gradient in the input's shape and dtype, `None` where it is undefined.

    Raises:
        NotEvaluable: a formula needs something that is not written in Python here.
        DerivativeNotImplemented: the entry says that this derivative is not implemented.
        EvaluationError: a formula cannot be evaluated, or gives something that is no gradient of the input.
    """
    if not _is_differentiable(entry, arguments):
        cotangents = [None] * len(cotangents)
    scope = _backward_scope(entry, arguments, results, cotangents)
    requested = {name for formula in entry.vjps for name in formula.names}
    if without := sorted(set(wanted or ()) - requested):
        raise NotEvaluable(f"the gradient of {', '.join(without)} of {entry.name}", "the entry has no formula for it")
    requested = {name for name in requested if arguments[name] is not None} if wanted is None else set(wanted)
    gradients: dict[str, Gradient] = {}
    for formula in entry.vjps:
        if requested.isdisjoint(formula.names):
            continue
        mask = [name in requested for name in formula.names]
        found = _backward(entry, formula, {**scope, "grad_input_mask": mask})
        for name, gradient in zip(formula.names, found, strict=True):
            if name in requested:
                gradients[name] = _fitted(entry, name, gradient, arguments[name])
    return gradients


def jvp(
    entry: Entry, arguments: Mapping[str, Any], results: Sequence[Any], tangents: Mapping[str, Any]
) -> dict[str, Gradient]:
    """The tangents of a call's outputs, by the entry's formulas.

    Args:
        entry: the operator's entry.
        arguments: every argument by name, as `bind` gives them; of an in-place operator as they were before the call.
        results: what the call returned, one for each return of the schema.
        tangents: the tangents of inputs by name, a list for a list of tensors; those left out are zero.

    Returns:
        The tangent of each output that has a formula, by the output's name.

    Raises:
        NotEvaluable: as `vjp`; also where the entry has no formula for forward mode.
        DerivativeNotImplemented: as `vjp`.
        EvaluationError: as `vjp`.
    """
    if not entry.jvps:
        raise NotEvaluable(entry.name, "the entry has no formula for forward mode")
    scope = _forward_scope(entry, arguments, results, tangents)
    found: dict[str, Gradient] = {}
    for formula in entry.jvps:
        if all(scope[name] is None for name in formula.names) or not _is_differentiable(entry, arguments):
            # An output that the call left out, as a mask of a backward operator may, or that is an integer
            found |= dict.fromkeys(formula.names)
            continue
        if _is_foreach(entry):
            number = len(results[0])
            values: list[Any] = [[_value(entry, formula, _at(scope, i)) for i in range(number)]]
        else:
            value = _value(entry, formula, scope)
            values = _several(entry, formula, value) if len(formula.names) > 1 else [value]
        for name, tangent in zip(formula.names, values, strict=True):
            _check_tangent(entry, name, tangent, scope[name])
            found[name] = tangent
    return found


def _check_tangent(entry: Entry, name: str, tangent: Any, of: Any) -> None:
    """A tangent must be one that autograd would take: of its output's shape, and complex only where that is."""
    if isinstance(of, (list, tuple)):
        if not isinstance(tangent, (list, tuple)) or len(tangent) != len(of):
            raise EvaluationError(f"{entry.name}: {name} is a list of {len(of)}, its tangent is none of as many")
        for one, x in zip(tangent, of, strict=True):
            _check_tangent(entry, name, one, x)
        return
    if tangent is None:
        return
    if not isinstance(tangent, torch.Tensor):
        raise EvaluationError(f"{entry.name}: the tangent of {name} is {type(tangent).__name__}")
    if tangent.shape != of.shape:
        shapes = f"{tuple(tangent.shape)}, {name} has {tuple(of.shape)}"
        raise EvaluationError(f"{entry.name}: the tangent of {name} has shape {shapes}")
    if tangent.is_complex() and not of.is_complex():
        raise EvaluationError(f"{entry.name}: the tangent of {name} is complex, {name} is {of.dtype}")


def _is_differentiable(entry: Entry, arguments: Mapping[str, Any]) -> bool:
    """Return whether this call meets the entry's own condition, such as that its result is no integer."""
    return entry.condition is None or bool(evaluate(parse(entry.condition), arguments))


def _is_foreach(entry: Entry) -> bool:
    return str(entry.signature.name.name).startswith("_foreach_")


def _value(entry: Entry, formula: Formula, scope: Scope) -> Any:
    where = f"{entry.path}:{formula.line}: {entry.name}, {', '.join(formula.names)}: {formula.text}"
    try:
        return evaluate(parse(formula.text), scope)
    except DerivativeNotImplemented:
        raise
    except NotEvaluable as error:
        error.add_note(where)
        raise
    except OperatorRefused as error:
        raise OperatorRefused(f"{error}\n  {where}") from error
    except EvaluationError as error:
        raise EvaluationError(f"{where}\n  {error}") from error
    except Exception as error:
        raise EvaluationError(f"{where}\n  {type(error).__name__}: {error}") from error


def _several(entry: Entry, formula: Formula, value: Any) -> list[Any]:
    if not isinstance(value, (tuple, list)) or len(value) != len(formula.names):
        found = f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__
        where = f"{entry.path}:{formula.line}: {entry.name}"
        names = f"{', '.join(formula.names)} must give a tuple of {len(formula.names)}"
        raise EvaluationError(f"{where}: the formula of {names}, and gave {found}")
    return list(value)


def _results(entry: Entry, results: Sequence[Any]) -> dict[str, Any]:
    names = dict(zip(entry.result_names, results, strict=True))
    if len(results) == 1:
        names["result"] = results[0]
    else:
        names |= {f"result{i}": result for i, result in enumerate(results)}
    return names


def _backward_scope(
    entry: Entry, arguments: Mapping[str, Any], results: Sequence[Any], cotangents: Sequence[Any]
) -> dict[str, Any]:
    chosen = [
        bar for bar, differentiable in zip(cotangents, entry.differentiable_outputs, strict=True) if differentiable
    ]
    if len(chosen) == 1 and isinstance(chosen[0], (list, tuple)):
        chosen = list(chosen[0])
    named = {f"grad_{name}": bar for name, bar in zip(entry.result_names, cotangents, strict=True)}
    own = {"grads": chosen, "grad": chosen[0] if chosen else None, "retain_variables": True}
    return {**_results(entry, results), **arguments, **named, **own}


def _backward(entry: Entry, formula: Formula, scope: Scope) -> list[Any]:
    if _is_foreach(entry):
        bars = scope["grads"]
        return [[None if bars[i] is None else _value(entry, formula, _at(scope, i)) for i in range(len(bars))]]
    if len(formula.names) > 1:
        return _several(entry, formula, _value(entry, formula, scope))
    # Codegen asks no formula of one input where every cotangent is undefined
    if all(bar is None for bar in scope["grads"]):
        return [None]
    return [_value(entry, formula, scope)]


def _at(scope: Scope, i: int) -> dict[str, Any]:
    """A formula of a _foreach_ operator is for the items number `i`; its tangents and primals are written bare."""
    bare = {name: of[i] for name, of in scope.items() if name.endswith(("_t", "_p")) and isinstance(of, list)}
    return {**scope, **bare, "i": i}


def _fitted(entry: Entry, name: str, gradient: Any, of: Any) -> Gradient:
    """A gradient as the engine takes it: summed to the input's shape, in the input's dtype."""
    if isinstance(gradient, (list, tuple)):
        if not isinstance(of, (list, tuple)) or len(of) != len(gradient):
            raise EvaluationError(f"{entry.name}: {name} got {len(gradient)} gradients")
        return [_fitted_one(entry, name, one, x) for one, x in zip(gradient, of, strict=True)]
    return _fitted_one(entry, name, gradient, of)


def _fitted_one(entry: Entry, name: str, gradient: Any, of: Any) -> torch.Tensor | None:
    if gradient is None or of is None:
        return None
    if not isinstance(gradient, torch.Tensor) or not isinstance(of, torch.Tensor):
        raise EvaluationError(f"{entry.name}: the gradient of {name} is {type(gradient).__name__}")
    if gradient.is_complex() and not of.is_complex():
        raise EvaluationError(f"{entry.name}: the gradient of {name} is complex, {name} is {of.dtype}")
    try:
        return sum_to(gradient, list(of.shape)).to(of.dtype)
    except RuntimeError as error:
        shapes = f"{tuple(gradient.shape)}, {name} has {tuple(of.shape)}"
        raise EvaluationError(f"{entry.name}: the gradient of {name} has shape {shapes}") from error


def _forward_scope(
    entry: Entry, arguments: Mapping[str, Any], results: Sequence[Any], tangents: Mapping[str, Any]
) -> dict[str, Any]:
    scope = {**_results(entry, results), **arguments}
    for name in {name for formula in entry.vjps for name in formula.names}:
        of, tangent = arguments[name], tangents.get(name)
        if isinstance(of, (list, tuple)):
            dots = tangent or [None] * len(of)
            scope[name] = [Dual(x, x_dot) for x, x_dot in zip(of, dots, strict=True)]
            scope[f"{name}_p"] = list(of)
            scope[f"{name}_t"] = [torch.zeros_like(x) if x_dot is None else x_dot for x, x_dot in scope[name]]
            continue
        if tangent is None and isinstance(of, torch.Tensor):
            tangent = torch.zeros_like(of)
        scope[f"{name}_p"], scope[f"{name}_t"] = of, tangent
        if entry.in_place and name == entry.argument_names[0] and tangent is not None:
            # Such a formula writes to self_t, and self_p is what the operator left in self
            written = {"self_p": results[0], "self_t": tangent.clone()}
            scope |= written | {"original_self_p": of, "original_self_t": tangent.clone()}
    return scope
