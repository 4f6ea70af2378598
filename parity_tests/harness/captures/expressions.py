"""Reads an expression: which values it may evaluate to, and what it does on the way."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from parity_tests.harness.captures.memory import Memory
from parity_tests.harness.captures.provenance import (
    CONVERSIONS,
    CUTS,
    NO_WRITE,
    NOTHING,
    STEPS,
    TYPE_ATTRIBUTES,
    TYPES,
    Function,
    Scope,
    Unreadable,
    Value,
    Values,
    are_objects,
    at,
    elements,
    find,
    is_numpy,
    is_ours,
    is_pure,
    recorded_in,
    source_of,
    unique,
)

DEPTH = 8  # of calls that are followed

Enter = Callable[[Function, Scope, list[Values], dict[str, Values]], Values]
Assign = Callable[[ast.expr, Values, Scope], None]


class Expressions:
    """A reader of expressions; `enter` reads the body of a function, `assign` a target."""

    def __init__(self, memory: Memory, enter: Enter, assign: Assign) -> None:
        self.memory, self._enter, self._assign = memory, enter, assign

    def read(self, e: ast.expr, scope: Scope, discarded: bool = False) -> Values:
        """Return the values that an expression may have."""
        match e:
            case ast.Constant() | ast.JoinedStr():
                return (Value(ast.unparse(e), self.memory.line(e), late=self.memory.late),)
            case ast.Name():
                return self._look_up(scope, e.id)
            case ast.Attribute():
                return self._attribute(e, scope)
            case ast.Call():
                return self._call(e, scope, discarded)
            case ast.Tuple() | ast.List() | ast.Set():
                return (self._display(e, e.elts, scope),)
            case ast.Subscript():
                return self._subscript(e, scope)
            case ast.IfExp():
                self.read(e.test, scope)
                before, found = self.memory.recorded, []
                for branch, flag in zip((e.body, e.orelse), recorded_in(e.test), strict=True):
                    self.memory.recorded = before and flag
                    values = self.read(branch, scope)
                    found += (
                        values if flag else [Value(ast.unparse(branch), self.memory.line(e), late=self.memory.late)]
                    )
                self.memory.recorded = before
                return unique(found)
            case ast.BoolOp():
                return unique(v for part in e.values for v in self.read(part, scope))
            case ast.Compare():
                for part in (e.left, *e.comparators):
                    self.read(part, scope)
                return (Value(ast.unparse(e), self.memory.line(e), late=self.memory.late),)
            case ast.NamedExpr():
                values = self.read(e.value, scope)
                self._assign(e.target, values, scope)
                return values
            case ast.Lambda():
                return (Value(ast.unparse(e), self.memory.line(e), late=self.memory.late, code=(e, scope, [])),)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                inner = Scope(dict(scope.names), scope.outer, scope.globals)
                self.memory.depth += 1  # names of its own
                for g in e.generators:
                    self._assign(g.target, elements(self.read(g.iter, inner)), inner)
                self.memory.depth -= 1
                element = e.value if isinstance(e, ast.DictComp) else e.elt
                return (Value(ast.unparse(e), self.memory.line(e), rest=self.read(element, inner)),)
            case ast.Starred():
                return self.read(e.value, scope)
        children = [self.read(c, scope) for c in ast.iter_child_nodes(e) if isinstance(c, ast.expr)]
        return (self.memory.generic(e, *children),)

    def _display(self, e: ast.expr, written: list[ast.expr], scope: Scope) -> Value:
        return Value(ast.unparse(e), self.memory.line(e), parts=self._arguments(written, scope), late=self.memory.late)

    def _arguments(self, written: list[ast.expr], scope: Scope) -> list[Values]:
        parts: list[Values] = []
        for element in written:
            values = self.read(element, scope)
            if isinstance(element, ast.Starred):
                lengths = {len(v.parts) for v in values if v.parts is not None and not v.rest}
                if len(lengths) == 1 and all(v.parts is not None for v in values):
                    parts += [unique(x for v in values for x in (v.parts or [])[i]) for i in range(lengths.pop())]
                else:
                    parts.append(elements(values))
            else:
                parts.append(values)
        return parts

    def _look_up(self, scope: Scope, name: str) -> Values:
        if (0, name) in self.memory.state:
            return (self.memory.stateful(name, self.memory.state[0, name]),)
        found = find(scope, name)
        if isinstance(found, tuple) and found and isinstance(found[0], Value):
            return found
        return (self.memory.object_of(name, found),)

    def _attribute(self, e: ast.Attribute, scope: Scope) -> Values:
        found: list[Value] = []
        for base in self.read(e.value, scope):
            if base.role == "context":
                found += self.memory.of_context(e)
            elif base.obj is not NOTHING and (id(base.obj), e.attr) in self.memory.state:
                found.append(self.memory.stateful(ast.unparse(e), self.memory.state[id(base.obj), e.attr]))
            elif isinstance(base.obj, ModuleType | type) or (base.obj is not NOTHING and callable(base.obj)):
                found.append(self.memory.object_of(ast.unparse(e), getattr(base.obj, e.attr, NOTHING)))
            elif e.attr in TYPE_ATTRIBUTES:
                found.append(Value(ast.unparse(e), self.memory.line(e), late=self.memory.late))
            elif e.attr in CUTS:
                found.append(self.memory.cut(e, (base,)))
            else:
                found.append(self.memory.generic(e, (base,)))
        return unique(found)

    def _subscript(self, e: ast.Subscript, scope: Scope) -> Values:
        self.read(e.slice, scope) if not isinstance(e.slice, ast.Slice) else None
        found: list[Value] = []
        for base in self.read(e.value, scope):
            if base.parts is None and not base.rest:
                is_object = base.obj is not NOTHING
                found.append(self.memory.generic(e, (base,)) if not is_object else Value(ast.unparse(e), obj=base.obj))
                continue
            index = _literal(e.slice)
            if isinstance(index, int):
                found += at(base, index)
            elif isinstance(index, slice) and base.parts is not None:
                found.append(Value(ast.unparse(e), parts=base.parts[index], rest=base.rest))
            else:
                found += elements((base,))
        return unique(found)

    # calls

    def _call(self, e: ast.Call, scope: Scope, discarded: bool) -> Values:
        args = self._arguments(e.args, scope)
        keywords = {k.arg or "": self.read(k.value, scope) for k in e.keywords}
        everything = [*args, *keywords.values()]
        name = e.func.attr if isinstance(e.func, ast.Attribute) else getattr(e.func, "id", "")
        receivers: Values = ()
        if isinstance(e.func, ast.Attribute):
            receivers = self.read(e.func.value, scope)
            if any(r.role == "context" for r in receivers):
                return self._on_context(e, name, args)
        callees = self.read(e.func, scope) if not receivers or are_objects(receivers) else ()
        found: list[Value] = []
        for callee in callees or (None,):
            found += self._call_one(e, callee, name, receivers, args, keywords)
        if any(r.obj is not NOTHING and isinstance(r.obj, list | dict | set) for r in receivers):
            for r in receivers:
                self.memory.keep_state(r.obj, "", unique(v for values in everything for v in values))
        if name.endswith("_") and not name.endswith("__") and name not in NO_WRITE and receivers:
            self.memory.write(receivers, [v for values in everything for v in values])
            return receivers if not are_objects(receivers) else unique(v for values in args[:1] for v in values)
        if "out" in keywords:
            self.memory.write(keywords["out"], found)
            return keywords["out"]
        if discarded and not (callees and callees[0].code) and callees != ():
            self.memory.write(unique(v for values in everything for v in values if not v.role), found)
        elif discarded and receivers and receivers[0].parts is not None:
            self.memory.write(receivers, [v for values in everything for v in values])
        return unique(found)

    def _call_one(
        self,
        e: ast.Call,
        callee: Value | None,
        name: str,
        receivers: Values,
        args: list[Values],
        keywords: dict[str, Values],
    ) -> Values:
        everything = [*args, *keywords.values()]
        obj = callee.obj if callee is not None else NOTHING
        if callee is not None and callee.code is not None:
            node, around, bound = callee.code
            return self._inlined(node, Scope({}, lambda n: find(around, n)), [*bound, *args], keywords, e)
        built_in = self._call_of_built_in(e, obj, args)
        if built_in is not None:
            return built_in
        if is_ours(obj) and self.memory.depth < DEPTH:
            try:
                node, outer, first = source_of(obj)
            except (Unreadable, OSError):
                reason = f"what {name or ast.unparse(e.func)} does with its arguments cannot be read"
                self.memory.use((Value(ast.unparse(e.func), self.memory.line(e), unknown=reason),), e)
            else:
                before, self.memory.first = self.memory.first, first
                try:
                    return self._inlined(node, Scope({}, outer), args, keywords, e)
                finally:
                    self.memory.first = before
        if name in STEPS or name in TYPES:
            return (Value(ast.unparse(e), self.memory.line(e), late=self.memory.late),)
        sources = [receivers, *everything] if not are_objects(receivers) else everything
        if name in CONVERSIONS and receivers and not are_objects(receivers):
            sources = [receivers]
        if name in CUTS or obj is float:
            return (self.memory.cut(e, *sources),)
        result = self.memory.generic(e, *sources)
        result.cut |= is_numpy(obj)
        result.conversion = name in CONVERSIONS
        functions = [v for values in everything for v in values if v.code is not None]
        if functions and not self.memory.late:  # a node of a tape, with its backward in it
            return (Value(ast.unparse(e), parts=everything),)
        if callee is not None and not result.deps and not result.unknown:
            result.unknown = callee.unknown or ("" if is_pure(obj) else f"what {callee.text} returns is not known")
        return (result,)

    def _call_of_built_in(self, e: ast.Call, obj: Any, args: list[Values]) -> Values | None:
        """The value of a call of one of Python's own functions that pass their arguments on; None of any other."""
        if obj is functools.partial and args:
            return tuple(self._bound(e, f, args[1:]) for f in args[0])
        if obj is getattr and any(v.role == "context" for v in args[0]) and isinstance(e.args[1], ast.Constant):
            attribute = ast.Attribute(e.args[0], str(e.args[1].value), ast.Load(), lineno=e.lineno)
            return unique((*self.memory.of_context(attribute), *(v for values in args[2:] for v in values)))
        if obj in (tuple, list) and len(args) == 1:
            return args[0]
        if obj is zip:
            rest = Value(ast.unparse(e), parts=[elements(values) for values in args])
            return (Value(ast.unparse(e), rest=(rest,)),)
        if obj is reversed or obj is enumerate:
            element = elements(args[0])
            pair = Value(ast.unparse(e), parts=[(Value("index", late=self.memory.late),), element])
            return (Value(ast.unparse(e), rest=element if obj is reversed else (pair,)),)
        return None

    def _inlined(
        self, node: Function, scope: Scope, args: list[Values], keywords: dict[str, Values], e: ast.Call
    ) -> Values:
        if self.memory.depth == DEPTH:
            return (self.memory.generic(e, *args, *keywords.values()),)
        self.memory.depth += 1
        try:
            return self._enter(node, scope, args, keywords)
        finally:
            self.memory.depth -= 1

    def _bound(self, e: ast.Call, f: Value, args: list[Values]) -> Value:
        if f.code is not None:
            node, scope, bound = f.code
            return Value(
                ast.unparse(e), self.memory.line(e), late=self.memory.late, code=(node, scope, [*bound, *args])
            )
        if is_ours(f.obj):
            node, outer, _ = source_of(f.obj)
            return Value(
                ast.unparse(e), self.memory.line(e), late=self.memory.late, code=(node, Scope({}, outer), list(args))
            )
        return self.memory.generic(e, *args)

    def _on_context(self, e: ast.Call, name: str, args: list[Values]) -> Values:
        flat = unique(leaf for values in args for v in values for leaf in v.leaves())
        if name in ("save_for_backward", "save_for_forward"):
            self.memory.saved[name] = [unique(x for v in values for x in v.leaves()) for values in args]
        elif name == "mark_dirty":
            self.memory.dirty.update(flat)
        elif name == "mark_non_differentiable":
            self.memory.not_differentiable.update(flat)
        elif name in self.memory.attributes:
            return unique(r for f in self.memory.attributes[name] for r in self._call_one(e, f, name, (), args, {}))
        return (Value(ast.unparse(e), self.memory.line(e), late=self.memory.late),)


def _literal(e: ast.expr) -> int | slice | None:
    """The index that is written there; `None` if it has to be computed."""
    try:
        if isinstance(e, ast.Slice):
            return slice(*(None if b is None else ast.literal_eval(b) for b in (e.lower, e.upper, e.step)))
        return ast.literal_eval(e)
    except ValueError:
        return None
