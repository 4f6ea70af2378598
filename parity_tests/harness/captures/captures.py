"""Captures: what a backward uses of what was before it, and which of that makes double backward wrong.

A backward may use inputs and outputs, for autograd knows them. Any other value that depends on the inputs is a constant
to autograd: the gradient is right, its own derivative silently lacks a term. Found in the source, so that nothing is
run; `residuals` finds what is kept at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch
from torch.autograd.function import Function

from parity_tests.harness.captures.memory import Memory
from parity_tests.harness.captures.provenance import NOTHING, Unreadable, Value, Values, source_of, unique
from parity_tests.harness.captures.reader import Reader

CONSTANT = "a constant to autograd"
ONCE = ", or mark the backward once_differentiable"


class Effect(Enum):
    """The effect of a capture on second order."""

    FINE = "fine"
    WRONG = "wrong at second order"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Capture:
    """A value that a formula captures.

    Attributes:
        by: the formula: "backward", "jvp", or the name of the closure.
        name: what it is called.
        line: where it is made, in its file.
        effect: whether double backward is right.
        reason: what it is, and why.
        fix: what to do; empty where nothing is to be done.
    """

    by: str
    name: str
    line: int
    effect: Effect
    reason: str
    fix: str = ""


def captures(formula: Callable | type[Function]) -> list[Capture]:
    """Return the captures of a `torch.autograd.Function`'s backward and jvp, or of the closures a function returns.

    Args:
        formula: a `torch.autograd.Function`; or a function that returns outputs and closures (its backward, ...), whose
            parameters are its inputs.

    Raises:
        Unreadable: no source; or a function that returns no closure, and so has no backward to look at.
    """
    if isinstance(formula, type) and issubclass(formula, Function):
        return list(dict.fromkeys(_of_function(formula)))
    return list(dict.fromkeys(_of_closures(formula)))


def _of_function(cls: type[Function]) -> Iterator[Capture]:
    reader = Reader()
    memory = reader.memory
    context = (Value("ctx", role="context"),)
    node, _, before = source_of(cls.forward)
    new_style = cls.setup_context is not Function.setup_context
    inputs = _inputs(node, before, 0 if new_style else 1, _not_differentiated(cls))
    returned = reader.call(cls.forward, inputs if new_style else [context, *inputs])
    outputs = [leaf for v in returned for leaf in v.leaves()]
    if new_style:
        several = isinstance(node, ast.FunctionDef) and node.args.vararg is not None
        every = unique(v for values in inputs for v in values)
        bundle = (Value("inputs", rest=every) if several else Value("inputs", parts=list(inputs)),)
        reader.call(cls.setup_context, [context, bundle, returned])
    for by, slot in (("backward", "save_for_backward"), ("jvp", "save_for_forward")):
        if not _defines(cls, by):
            continue
        memory.used, memory.late, memory.slot = {}, True, slot
        code, _, _ = source_of(getattr(cls, by))
        names = [p.arg for p in code.args.args[1:]] + ([code.args.vararg.arg] if code.args.vararg else [])
        directions = [(_direction(name),) for name in names]
        if code.args.vararg:
            directions[-1:] = [(v,) for v in [directions[-1][0]] * max(len(outputs), 1)]
        result = reader.call(getattr(cls, by), [context, *directions])
        memory.use(result, code)
        once = by == "backward" and _once_differentiable(cls.backward)
        yield from _judged(by, memory, outputs, once)


def _of_closures(function: Callable) -> Iterator[Capture]:
    node, _, before = source_of(function)
    reader = Reader()
    memory = reader.memory
    keywords = [p.arg for p in node.args.kwonlyargs]
    returned = reader.call(function, _inputs(node, before, 0, set(keywords)))
    leaves = unique(leaf for v in returned for leaf in v.leaves())
    closures = [v for v in leaves if v.is_function]
    if not closures:
        raise Unreadable(f"{getattr(function, '__qualname__', function)}: returns no closure, so it has no backward")
    outputs = [v for v in leaves if not v.is_function]
    memory.late = True
    for closure in closures:
        if closure.code is None:
            continue  # a function of the module: it captures nothing
        memory.used = {}
        code, _, bound = closure.code
        names = [p.arg for p in code.args.args[len(bound) :]] + ([code.args.vararg.arg] if code.args.vararg else [])
        result = reader.call_value(closure, [(_direction(name),) for name in names])
        memory.use(result, code)
        yield from _judged(closure.name or closure.text, memory, outputs, recorded=True)


def _direction(name: str) -> Value:
    return Value(name, deps=frozenset({name}), role="cotangent", late=True, name=name)


def _inputs(node: ast.AST, before: int, skip: int, constant: set[int] | set[str]) -> list[Values]:
    """A value for each parameter; one that is not differentiated depends on nothing."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    found: list[Values] = []
    for i, p in enumerate([*node.args.posonlyargs, *node.args.args][skip:]):
        number = p.annotation is not None and ast.unparse(p.annotation) in ("int", "float", "bool", "str")
        deps = frozenset() if number or i in constant or p.arg in constant else frozenset({p.arg})
        found.append((Value(p.arg, before + p.lineno, deps, role="input", name=p.arg),))
    if node.args.vararg:
        name = node.args.vararg.arg
        element = Value(f"{name}[i]", before + node.args.vararg.lineno, frozenset({name}), "input", name=f"{name}[i]")
        found.append((element,))
    return found


def _not_differentiated(cls: type[Function]) -> set[int]:
    """The inputs for which every `return` of the backward has the word None."""
    node, _, _ = source_of(cls.backward)
    assert not isinstance(node, ast.Lambda)
    results = [s.value for s in ast.walk(node) if isinstance(s, ast.Return)]
    if not results or not all(isinstance(r, ast.Tuple) for r in results):
        return set()
    tuples = [r.elts for r in results if isinstance(r, ast.Tuple)]
    if any(isinstance(e, ast.Starred) for elements in tuples for e in elements) or len({len(t) for t in tuples}) > 1:
        return set()
    return {i for i in range(len(tuples[0])) if all(ast.unparse(t[i]) == "None" for t in tuples)}


def _defines(cls: type[Function], name: str) -> bool:
    return getattr(cls, name) is not getattr(Function, name)


def _once_differentiable(backward: Callable) -> bool:
    code = getattr(backward, "__code__", None)
    made_by = torch.autograd.function.once_differentiable.__code__
    return hasattr(backward, "__wrapped__") and code is not None and code.co_filename == made_by.co_filename


def _judged(
    by: str, memory: Memory, outputs: list[Value], once: bool = False, recorded: bool = False
) -> Iterator[Capture]:
    """`once`: double backward is refused. `recorded`: an engine may have recorded what the forward computed."""
    for v, line in memory.used.items():
        if v.role in ("cotangent", "context") or (v.late and v.role != "cut"):
            continue
        judged = _judge(v, memory, outputs)
        if judged is None:
            continue
        effect, reason, fix = judged
        if recorded and effect is Effect.WRONG and not v.cut and v.role == "":
            effect, reason = Effect.UNKNOWN, reason.replace(CONSTANT, "right only if what computes it is recorded, too")
        if once and effect is not Effect.FINE:
            effect, fix = Effect.FINE, ""
            reason += "; but the backward is once_differentiable: it offers no second order"
        if by != "backward" or recorded:
            fix = fix.removesuffix(ONCE)
        yield Capture(by, v.name or v.text, v.line or line, effect, reason, fix)


def _judge(v: Value, memory: Memory, outputs: list[Value]) -> tuple[Effect, str, str] | None:
    """Return effect, reason and fix; `None` for what is no capture: a number, a function, a module."""
    depends = " and ".join(sorted(v.deps))
    if v.role == "cut":
        return (
            Effect.WRONG,
            f"`{v.text}` depends on {depends}, but not to autograd",
            "leave it in the graph" + ONCE,
        )
    if v.role == "state":
        return (
            Effect.WRONG,
            f"state outside of ctx, which depends on {depends}: a constant, and that of the latest call",
            "save the input that it is made of with ctx.save_for_backward",
        )
    if v.obj is not NOTHING:
        return _global(v)
    if any(v is y for y in outputs):
        if v in memory.not_differentiable:
            return Effect.UNKNOWN, "an output marked non-differentiable: a constant; fine for integers", ""
        return Effect.FINE, "an output", ""
    if v.role == "input":
        if v.written and v not in memory.dirty:
            return (
                Effect.WRONG,
                "an input that the forward writes to: its value is not the one that autograd differentiates at",
                f"compute with a clone of {v.text}, or ctx.mark_dirty({v.text}) and return it",
            )
        return Effect.FINE, "an input", ""
    if v.unknown and not v.deps:
        return Effect.UNKNOWN, v.unknown, ""
    if not v.deps:
        return Effect.FINE, "a constant: it depends on no input, or by steps only", ""
    return _intermediate(v, depends)


def _global(v: Value) -> tuple[Effect, str, str] | None:
    if isinstance(v.obj, torch.Tensor | torch.nn.Module):
        needs = v.obj.requires_grad if isinstance(v.obj, torch.Tensor) else any(v.obj.parameters())
        if needs:
            return (
                Effect.WRONG,
                "a tensor from outside that requires grad and is no input: no gradient of any order reaches it",
                f"make {v.name} an input",
            )
        return Effect.FINE, "a tensor from outside that is never written to here", ""
    if isinstance(v.obj, np.ndarray):
        return Effect.FINE, "an array from outside that is never written to here", ""
    return None


def _intermediate(v: Value, depends: str) -> tuple[Effect, str, str]:
    what = f"`{v.text}` is neither input nor output but depends on {depends}: {CONSTANT}"
    ways = f"return it as one more output, or save {depends} and compute it in the backward"
    if v.conversion:
        what += ", unless there is nothing to convert"
        ways = f"save {depends} and convert in the backward"
    elif v.text.endswith((".detach()", ".data")):
        ways = f"save {v.text.removesuffix('.detach()').removesuffix('.data')} itself"
    return Effect.WRONG, what, ways + ONCE
