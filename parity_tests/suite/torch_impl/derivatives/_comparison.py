"""Compares what an entry's formulas give for a call with what autograd computes for the same call."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.autograd.forward_ad as forward_ad
from torch.utils._pytree import tree_leaves, tree_map_only

from parity_tests.suite.torch_impl.derivatives._calls import Call, copied
from parity_tests.suite.torch_impl.derivatives._phases import free_of_phases
from torch_impl.derivatives import DerivativeNotImplemented, Entry, EvaluationError, NotEvaluable
from torch_impl.derivatives.binding import bind
from torch_impl.derivatives.derivative import jvp, vjp

Mode = Literal["vjp", "jvp"]
Verdict = Literal["agrees", "zero", "disagrees", "explained", "not evaluable", "both refuse", "autograd refuses"]
TOLERANCE = {torch.float32: 1e-4, torch.complex64: 1e-4}
TOLERANCE_OF_DOUBLES = 1e-8


@dataclass(frozen=True)
class Outcome:
    """What came of one formula for one call; `zero` says that both sides are zero, which shows little."""

    entry: str
    mode: Mode
    names: tuple[str, ...]
    verdict: Verdict
    detail: str
    source: str


def compare(entry: Entry, call: Call) -> list[Outcome]:
    """Every formula of the entry that this call reaches, in both modes."""
    arguments = bind(entry, call.args, call.kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [*_backward(entry, call, arguments), *_forward(entry, call, arguments)]


def _inputs(entry: Entry, arguments: dict[str, Any]) -> list[str]:
    """The inputs that have a formula, and are of a dtype that can have a gradient."""
    names = [name for formula in entry.vjps for name in formula.names]
    leaves = {name: tree_leaves(arguments[name]) for name in names}
    return [n for n, of in leaves.items() if of and all(isinstance(x, torch.Tensor) and _is_inexact(x) for x in of)]


def _is_inexact(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _run(entry: Entry, call: Call, arguments: dict[str, Any]) -> list[Any]:
    torch.default_generator.manual_seed(1)  # torch.manual_seed writes down three stack traces for other devices
    declared = call.operator._schema.arguments
    args = [arguments[one.name] for one in declared if not one.kwarg_only]
    kwargs = {one.name: arguments[one.name] for one in declared if one.kwarg_only and one.name in call.kwargs}
    outputs = call.operator(*args, **kwargs)
    return list(outputs) if len(entry.signature.returns) > 1 else [outputs]


def _copy(value: Any) -> Any:
    return tree_map_only(torch.Tensor, copied, value)


def _apart(value: Any) -> Any:
    """Copies whose entries lie apart in memory: a tangent is laid out as its primal is, and then written to."""
    return tree_map_only(torch.Tensor, lambda x: x.detach().clone(memory_format=torch.contiguous_format), value)


def _after(entry: Entry, arguments: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """The arguments that formulas see: those that the call wrote to, other than self, are kept as it left them."""
    written = {
        one.name for one in entry.signature.arguments.flat_all if one.annotation is not None and one.annotation.is_write
    }
    if entry.in_place:
        written.discard(entry.argument_names[0])
    return {name: _plain(run[name]) if name in written else value for name, value in arguments.items()}


def _plain(value: Any) -> Any:
    return tree_map_only(torch.Tensor, lambda x: x.detach(), value)


def _written_to(entry: Entry, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments where the first one is no leaf, since a leaf that requires a gradient must not be written to."""
    first = entry.argument_names[0]
    return {**arguments, first: arguments[first].clone()} if entry.in_place else arguments


def _backward(entry: Entry, call: Call, arguments: dict[str, Any]) -> Iterator[Outcome]:
    names = _inputs(entry, arguments)
    formulas = [formula for formula in entry.vjps if not set(names).isdisjoint(formula.names)]
    if not formulas:
        return
    leaves = {**_copy(arguments)}
    for name in names:
        for leaf in tree_leaves(leaves[name]):
            leaf.requires_grad_()
    try:
        outputs = _run(entry, call, _written_to(entry, leaves))
    except (RuntimeError, NotImplementedError):
        return
    arguments = _after(entry, arguments, leaves)
    torch.default_generator.manual_seed(2)
    bars = free_of_phases(entry, outputs, [tree_map_only(torch.Tensor, _cotangent, output) for output in outputs])
    for formula in formulas:
        wanted = [name for name in formula.names if name in names]
        # Some formulas are others where the backward is itself differentiated
        for grad in (False, True) if "GradMode" in formula.text else (False,):
            try:
                expected = _gradients(outputs, bars, [leaves[name] for name in wanted], grad)
            except (RuntimeError, NotImplementedError) as error:
                yield _refused(entry, call, arguments, _plain(outputs), bars, wanted, formula.names, str(error))
                continue

            def found(names: list[str] = wanted, grad: bool = grad) -> list[Any]:
                with torch.set_grad_enabled(grad):
                    gradients = vjp(entry, _copy(arguments), _plain(outputs), bars, names)
                return _flat([(arguments[name], gradients[name]) for name in names])

            yield _judged(entry, call, "vjp", formula.names, found, expected)


def _cotangent(output: torch.Tensor) -> torch.Tensor | None:
    if not output.requires_grad:
        return None
    if output.layout == torch.sparse_coo:
        return torch.randn_like(output.to_dense()).sparse_mask(output.detach().coalesce())
    return torch.randn_like(output)


def _gradients(outputs: list[Any], bars: list[Any], inputs: list[Any], grad: bool) -> list[Any]:
    roots = [y for y in tree_leaves(outputs) if isinstance(y, torch.Tensor) and y.requires_grad]
    flat = [bar for bar in tree_leaves(bars) if isinstance(bar, torch.Tensor)]
    leaves = tree_leaves(inputs)
    if not roots:
        return [None] * len(leaves)
    how = {"allow_unused": True, "retain_graph": True, "create_graph": grad}
    return [None if x is None else x.detach() for x in torch.autograd.grad(roots, leaves, flat, **how)]


def _flat(pairs: list[tuple[Any, Any]]) -> list[Any]:
    """One gradient for each tensor, also where a list of them has none."""
    flat: list[Any] = []
    for of, found in pairs:
        number = len(of) if isinstance(of, (list, tuple)) else None
        flat += [found] if number is None else [None] * number if found is None else list(found)
    return flat


def _refused(
    entry: Entry,
    call: Call,
    arguments: dict[str, Any],
    results: list[Any],
    bars: list[Any],
    wanted: list[str],
    names: tuple[str, ...],
    reason: str,
) -> Outcome:
    try:
        vjp(entry, _copy(arguments), results, bars, wanted)
    except DerivativeNotImplemented:
        return Outcome(entry.name, "vjp", names, "both refuse", reason, call.source)
    except NotEvaluable as error:
        return Outcome(entry.name, "vjp", names, "not evaluable", error.name, call.source)
    except EvaluationError:
        pass
    return Outcome(entry.name, "vjp", names, "autograd refuses", reason, call.source)


def _forward(entry: Entry, call: Call, arguments: dict[str, Any]) -> Iterator[Outcome]:
    if not entry.jvps or not (names := _inputs(entry, arguments)) or not _is_dense(arguments):
        return
    torch.default_generator.manual_seed(3)
    tangents = {name: tree_map_only(torch.Tensor, _drawn, arguments[name]) for name in names}
    primals = _apart(arguments)
    with forward_ad.dual_level():
        duals = {**primals}
        for name in names:
            duals[name] = _dual(primals[name], tangents[name])
        try:
            outputs = _run(entry, call, _written_to(entry, duals))
        except (RuntimeError, NotImplementedError):
            return
        flat = [y for y in tree_leaves(outputs) if isinstance(y, torch.Tensor)]
        # A formula may ask how an argument is laid out, so it is asked of the same copies
        arguments = _after(entry, _apart(arguments), duals)
        expected = {id(y): forward_ad.unpack_dual(y).tangent for y in flat}
        results = tree_map_only(torch.Tensor, lambda y: forward_ad.unpack_dual(y).primal.detach(), outputs)
        by_name = dict(zip(entry.result_names, outputs, strict=True))
        by_name |= {f"result{i}": output for i, output in enumerate(outputs)}
        by_name |= {"result": outputs[0]} if len(outputs) == 1 else {}
        wanted = {n: [expected.get(id(y)) for y in tree_leaves(by_name[n])] for f in entry.jvps for n in f.names}

    def found(formula: tuple[str, ...]) -> list[Any]:
        with torch.no_grad():
            all_dots = jvp(entry, _apart(arguments), results, _apart(tangents))
        return _flat([(by_name[name], all_dots[name]) for name in formula])

    for formula in entry.jvps:
        expectation = [x_dot for name in formula.names for x_dot in wanted[name]]
        yield _judged(entry, call, "jvp", formula.names, lambda f=formula.names: found(f), expectation)


def _is_dense(value: Any) -> bool:
    return all(x.layout == torch.strided for x in tree_leaves(value) if isinstance(x, torch.Tensor))


def _drawn(x: torch.Tensor) -> torch.Tensor:
    return torch.randn(x.shape, dtype=x.dtype)


def _dual(primal: Any, tangent: Any) -> Any:
    if isinstance(primal, torch.Tensor):
        return forward_ad.make_dual(primal, tangent)
    return [forward_ad.make_dual(x, x_dot) for x, x_dot in zip(primal, tangent, strict=True)]


def _judged(
    entry: Entry, call: Call, mode: Mode, names: tuple[str, ...], evaluate: Any, expected: Sequence[Any]
) -> Outcome:
    try:
        found = evaluate()
    except NotEvaluable as error:
        return Outcome(entry.name, mode, names, "not evaluable", error.name, call.source)
    except (DerivativeNotImplemented, EvaluationError) as error:
        return Outcome(entry.name, mode, names, "disagrees", f"{type(error).__name__}: {error}", call.source)
    problems = [problem for a, b in zip(found, expected, strict=True) if (problem := difference(a, b))]
    if problems:
        return Outcome(entry.name, mode, names, "disagrees", "; ".join(problems), call.source)
    nothing = all(_is_zero(x) for x in expected)
    return Outcome(entry.name, mode, names, "zero" if nothing else "agrees", "", call.source)


def _is_zero(x: torch.Tensor | None) -> bool:
    return x is None or not bool((x if x.layout == torch.strided else x.to_dense()).count_nonzero())


def difference(found: torch.Tensor | None, expected: torch.Tensor | None) -> str:
    """How two derivatives differ, "" where they do not; an undefined one is zero."""
    if found is None or expected is None:
        return (
            "" if _is_zero(found if expected is None else expected) else "one side is undefined, the other is not zero"
        )
    if found.shape != expected.shape:
        return f"shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    found, expected = found.resolve_conj(), expected.resolve_conj()
    with contextlib.suppress(RuntimeError):
        found, expected = found.to_dense(), expected.to_dense()
    finite = expected.isfinite()
    if not torch.equal(finite, found.isfinite()) or not torch.equal(expected.isnan(), found.isnan()):
        return "finite in different places"
    off = (found - expected)[finite].abs()
    scale = float(expected[finite].abs().max()) if off.numel() else 0.0
    worst = float(off.max()) if off.numel() else 0.0
    return (
        f"off by {worst:.3g} of {scale:.3g}" if worst > TOLERANCE.get(found.dtype, TOLERANCE_OF_DOUBLES) * scale else ""
    )
