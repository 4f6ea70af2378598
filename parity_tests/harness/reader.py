"""Reads a Python function as autograd would see it: which of its values depends on which, and what it keeps.

Statement by statement, with sets of `Value`s in place of tensors: both branches of an `if`, a loop twice, and functions
that it calls, but for those of libraries, at the place of their call.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from torch.autograd.function import FunctionCtx

from parity_tests.harness.provenance import (
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
    is_numpy,
    is_ours,
    is_pure,
    source_of,
    unique,
)

DEPTH = 8  # of calls that are followed


class Reader:
    """Reads functions, one after the other, with one memory.

    Attributes:
        late: reading the backward.
        used: the values that a result of the backward depends on, each with the line where.
        saved, attributes, dirty, not_differentiable: what the functions have done to `ctx`.
        state: what they have written to globals and to classes.
    """

    def __init__(self) -> None:
        self.late = False
        self.used: dict[Value, int] = {}
        self.saved: dict[str, list[Values]] = {}
        self.slot = "save_for_backward"
        self.attributes: dict[str, Values] = {}
        self.dirty: set[Value] = set()
        self.not_differentiable: set[Value] = set()
        self.state: dict[tuple[int, str], Values] = {}
        self._objects: dict[int, Value] = {}
        self._first = 0
        self._depth = 0
        self._recorded = True  # does what is read run while gradients are recorded?
        self._no_grad = False

    # calls

    def call(self, function: Callable, args: list[Values]) -> Values:
        """What a Python function may return.

        Raises:
            Unreadable: no source.
        """
        node, outer, first = source_of(function)
        before, self._first = self._first, first
        try:
            return self._enter(node, Scope({}, outer), args, {})
        finally:
            self._first = before

    def call_value(self, value: Value, args: list[Values]) -> Values:
        """Likewise, of a function that the source defines."""
        if value.code is None:
            return ()
        node, scope, bound = value.code
        inner = Scope({}, lambda name: self._find(scope, name))
        return self._enter(node, inner, [*bound, *args], {})

    def _enter(self, node: Function, scope: Scope, args: list[Values], keywords: dict[str, Values]) -> Values:
        names = [p.arg for p in (*node.args.posonlyargs, *node.args.args)]
        defaults = node.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            scope.names[name] = (Value(ast.unparse(default), late=self.late),)
        for p, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            scope.names[p.arg] = (Value(ast.unparse(default) if default else p.arg, late=self.late),)
        for name, values in zip(names, args, strict=False):
            scope.names[name] = values
        if node.args.vararg:
            scope.names[node.args.vararg.arg] = (Value("*args", parts=list(args[len(names) :])),)
        if node.args.kwarg:
            others = [v for name, values in keywords.items() if name not in names for v in values]
            scope.names[node.args.kwarg.arg] = (Value("**kwargs", rest=tuple(others)),)
        scope.names.update(keywords)
        if isinstance(node, ast.Lambda):
            return self.expression(node.body, scope)
        returned: list[Values] = []
        recorded = self._recorded
        self._block(node.body, scope, returned)
        self._recorded = recorded
        return unique(v for values in returned for v in values)

    # statements

    def _block(self, body: list[ast.stmt], scope: Scope, returned: list[Values]) -> bool:
        """Reads statements; does it end in a return or a raise, whatever branch is taken?"""
        return any([self._statement(s, scope, returned) for s in body])

    def _statement(self, s: ast.stmt, scope: Scope, returned: list[Values]) -> bool:
        match s:
            case ast.Return():
                values = self.expression(s.value, scope) if s.value else ()
                returned.append(values if self._recorded else (Value(ast.unparse(s), self._line(s), late=True),))
                return True
            case ast.Raise():
                return True
            case ast.Assign():
                values = self.expression(s.value, scope)
                for target in s.targets:
                    self._assign(target, values, scope)
            case ast.AnnAssign() if s.value:
                self._assign(s.target, self.expression(s.value, scope), scope)
            case ast.AugAssign():
                new, old = self.expression(s.value, scope), self.expression(_loaded(s.target), scope)
                result = self._generic(s, old, new)
                if all(v.late == self.late and not v.role for v in old):
                    self._assign(s.target, (result,), scope)
                self._write(old, [result])
            case ast.Expr():
                self.expression(s.value, scope, discarded=True)
            case ast.If():
                return self._branches(s, scope, returned)
            case ast.For() | ast.AsyncFor():
                self._assign(s.target, self._elements(self.expression(s.iter, scope)), scope)
                for body in (s.body, s.body, s.orelse):
                    self._alternatives([body, []], scope, returned)
            case ast.While():
                self.expression(s.test, scope)
                for body in (s.body, s.body, s.orelse):
                    self._alternatives([body, []], scope, returned)
            case ast.With() | ast.AsyncWith():
                return self._with(s, scope, returned)
            case ast.Try():
                ended = self._block(s.body, scope, returned)
                self._alternatives([h.body for h in s.handlers] + [[]], scope, returned)
                return any([ended, self._block(s.orelse, scope, returned), self._block(s.finalbody, scope, returned)])
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope.names[s.name] = (Value(s.name, self._line(s), late=self.late, code=(s, scope, [])),)
            case ast.Global() | ast.Nonlocal():
                scope.globals.update(s.names)
            case ast.Import() | ast.ImportFrom():
                self._import(s, scope)
        return False

    def _branches(self, s: ast.If, scope: Scope, returned: list[Values]) -> bool:
        self.expression(s.test, scope)
        then, other = _recorded_in(s.test)
        return self._alternatives([s.body, s.orelse], scope, returned, [then, other])

    def _alternatives(
        self, bodies: list[list[ast.stmt]], scope: Scope, returned: list[Values], recorded: list[bool] | None = None
    ) -> bool:
        """Reads each body from the same start; then a name may be what it is after any that does not end."""
        before, was_recorded = dict(scope.names), self._recorded
        after: list[tuple[bool, dict[str, Values]]] = []
        for body, flag in zip(bodies, recorded or [True] * len(bodies), strict=True):
            scope.names.clear()
            scope.names.update(before)
            self._recorded = was_recorded and flag
            if not self._block(body, scope, returned):
                after.append((flag, dict(scope.names)))
        scope.names.clear()
        goes_on = any(flag for flag, _ in after)  # while gradients are recorded; then no other way matters
        for names in (names for flag, names in after if flag or not goes_on):
            for name, values in names.items():
                scope.names[name] = unique((*scope.names.get(name, ()), *values))
        self._recorded = was_recorded and (goes_on or not after)
        if not after:
            scope.names.update(before)
        return not after

    def _with(self, s: ast.With | ast.AsyncWith, scope: Scope, returned: list[Values]) -> bool:
        before = self._no_grad
        for item in s.items:
            text = ast.unparse(item.context_expr)
            values = self.expression(item.context_expr, scope)
            self._no_grad = "enable_grad" not in text and (self._no_grad or "no_grad" in text)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, values, scope)
        ended = self._block(s.body, scope, returned)
        self._no_grad = before
        return ended

    def _import(self, s: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        for alias in s.names:
            name = alias.asname or alias.name.split(".")[0]
            if isinstance(s, ast.ImportFrom):
                obj = getattr(sys.modules.get(s.module or ""), alias.name, NOTHING)
            else:
                obj = sys.modules.get(alias.name if alias.asname else name, NOTHING)
            scope.names[name] = (Value(name, obj=obj, unknown="" if obj is not NOTHING else f"{name} is not imported"),)

    # assignments

    def _assign(self, target: ast.expr, values: Values, scope: Scope) -> None:
        match target:
            case ast.Name() if target.id in scope.globals:
                self._keep_state(NOTHING, target.id, values)
            case ast.Name():
                for v in values:
                    if not v.name or (self._depth == 0 and not v.role and v.obj is NOTHING):
                        v.name = target.id  # the name that the backward itself gives it comes last
                scope.names[target.id] = values
            case ast.Tuple() | ast.List():
                self._unpack(target.elts, values, scope)
            case ast.Starred():
                self._assign(target.value, values, scope)
            case ast.Attribute():
                for base in self.expression(target.value, scope):
                    if base.role == "context":
                        for v in values:
                            v.name = v.name or f"ctx.{target.attr}"
                        kept = self.attributes.get(target.attr, ())
                        self.attributes[target.attr] = unique((*kept, *values))
                    elif base.obj is not NOTHING:
                        self._keep_state(base.obj, target.attr, values)
                    else:
                        self._write((base,), list(values))
            case ast.Subscript():
                for base in self.expression(target.value, scope):
                    if base.obj is not NOTHING:
                        self._keep_state(base.obj, "", values)
                    else:
                        self._write((base,), list(values))

    def _unpack(self, targets: list[ast.expr], values: Values, scope: Scope) -> None:
        for i, target in enumerate(targets):
            found: list[Value] = []
            for v in values:
                if isinstance(target, ast.Starred):
                    parts = (v.parts or [])[i : len(v.parts or []) - (len(targets) - 1 - i) or None]
                    found.append(Value(v.text, parts=parts, rest=v.rest if v.parts is None else ()))
                else:
                    after_star = any(isinstance(t, ast.Starred) for t in targets[:i])
                    found += self._at(v, i - len(targets) if after_star else i)
            self._assign(target, unique(found), scope)

    def _keep_state(self, obj: Any, name: str, values: Values) -> None:
        key = (0 if obj is NOTHING else id(obj), name)
        self.state[key] = unique((*self.state.get(key, ()), *values))

    def _write(self, targets: Values, sources: list[Value]) -> None:
        """Something is written into tensors (or put into lists): they depend on it from now on."""
        for target in targets:
            target.written = True
            for source in (leaf for s in sources for leaf in s.leaves()):
                if target.parts is not None:
                    target.rest = unique((*target.rest, source))
                elif source is not target:
                    target.deps |= source.deps
                    target.cut |= source.cut

    # expressions

    def expression(self, e: ast.expr, scope: Scope, discarded: bool = False) -> Values:
        """What an expression may evaluate to."""
        match e:
            case ast.Constant() | ast.JoinedStr():
                return (Value(ast.unparse(e), self._line(e), late=self.late),)
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
                self.expression(e.test, scope)
                before, found = self._recorded, []
                for branch, flag in zip((e.body, e.orelse), _recorded_in(e.test), strict=True):
                    self._recorded = before and flag
                    values = self.expression(branch, scope)
                    found += values if flag else [Value(ast.unparse(branch), self._line(e), late=self.late)]
                self._recorded = before
                return unique(found)
            case ast.BoolOp():
                return unique(v for part in e.values for v in self.expression(part, scope))
            case ast.Compare():
                for part in (e.left, *e.comparators):
                    self.expression(part, scope)
                return (Value(ast.unparse(e), self._line(e), late=self.late),)
            case ast.NamedExpr():
                values = self.expression(e.value, scope)
                self._assign(e.target, values, scope)
                return values
            case ast.Lambda():
                return (Value(ast.unparse(e), self._line(e), late=self.late, code=(e, scope, [])),)
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                inner = Scope(dict(scope.names), scope.outer, scope.globals)
                self._depth += 1  # names of its own
                for g in e.generators:
                    self._assign(g.target, self._elements(self.expression(g.iter, inner)), inner)
                self._depth -= 1
                element = e.value if isinstance(e, ast.DictComp) else e.elt
                return (Value(ast.unparse(e), self._line(e), rest=self.expression(element, inner)),)
            case ast.Starred():
                return self.expression(e.value, scope)
        children = [self.expression(c, scope) for c in ast.iter_child_nodes(e) if isinstance(c, ast.expr)]
        return (self._generic(e, *children),)

    def _display(self, e: ast.expr, elements: list[ast.expr], scope: Scope) -> Value:
        return Value(ast.unparse(e), self._line(e), parts=self._arguments(elements, scope), late=self.late)

    def _arguments(self, elements: list[ast.expr], scope: Scope) -> list[Values]:
        parts: list[Values] = []
        for element in elements:
            values = self.expression(element, scope)
            if isinstance(element, ast.Starred):
                lengths = {len(v.parts) for v in values if v.parts is not None and not v.rest}
                if len(lengths) == 1 and all(v.parts is not None for v in values):
                    parts += [unique(x for v in values for x in (v.parts or [])[i]) for i in range(lengths.pop())]
                else:
                    parts.append(self._elements(values))
            else:
                parts.append(values)
        return parts

    def _look_up(self, scope: Scope, name: str) -> Values:
        if (0, name) in self.state:
            return (self._stateful(name, self.state[0, name]),)
        found = self._find(scope, name)
        if isinstance(found, tuple) and found and isinstance(found[0], Value):
            return found
        return (self._object(name, found),)

    def _find(self, scope: Scope, name: str) -> Any:
        return scope.names[name] if name in scope.names else scope.outer(name)

    def _object(self, name: str, obj: Any) -> Value:
        if obj is NOTHING:
            return Value(name, unknown=f"{name} is not defined where the source is read")
        if (id(obj), "") in self.state:
            return self._stateful(name, self.state[id(obj), ""])
        return self._objects.setdefault(id(obj), Value(name, obj=obj, name=name))

    def _stateful(self, name: str, values: Values) -> Value:
        deps = frozenset(d for v in values for leaf in v.leaves() for d in leaf.deps)
        return Value(name, deps=deps, role="state" if deps else "", name=name)

    def _attribute(self, e: ast.Attribute, scope: Scope) -> Values:
        found: list[Value] = []
        for base in self.expression(e.value, scope):
            if base.role == "context":
                found += self._of_context(e)
            elif base.obj is not NOTHING and (id(base.obj), e.attr) in self.state:
                found.append(self._stateful(ast.unparse(e), self.state[id(base.obj), e.attr]))
            elif isinstance(base.obj, ModuleType | type) or (base.obj is not NOTHING and callable(base.obj)):
                found.append(self._object(ast.unparse(e), getattr(base.obj, e.attr, NOTHING)))
            elif e.attr in TYPE_ATTRIBUTES:
                found.append(Value(ast.unparse(e), self._line(e), late=self.late))
            elif e.attr in CUTS:
                found.append(self._cut(e, (base,)))
            else:
                found.append(self._generic(e, (base,)))
        return unique(found)

    def _of_context(self, e: ast.Attribute) -> Values:
        if e.attr in ("saved_tensors", "saved_variables"):
            parts = self.saved.get(self.slot, [])
            return (Value(ast.unparse(e), self._line(e), parts=list(parts)),)
        if e.attr in self.attributes:
            return self.attributes[e.attr]
        known = e.attr in TYPE_ATTRIBUTES or hasattr(FunctionCtx, e.attr)
        return (
            Value(ast.unparse(e), self._line(e), unknown="" if known else f"{ast.unparse(e)} is set nowhere before"),
        )

    def _subscript(self, e: ast.Subscript, scope: Scope) -> Values:
        self.expression(e.slice, scope) if not isinstance(e.slice, ast.Slice) else None
        found: list[Value] = []
        for base in self.expression(e.value, scope):
            if base.parts is None and not base.rest:
                is_object = base.obj is not NOTHING
                found.append(self._generic(e, (base,)) if not is_object else Value(ast.unparse(e), obj=base.obj))
                continue
            index = _literal(e.slice)
            if isinstance(index, int):
                found += self._at(base, index)
            elif isinstance(index, slice) and base.parts is not None:
                found.append(Value(ast.unparse(e), parts=base.parts[index], rest=base.rest))
            else:
                found += self._elements((base,))
        return unique(found)

    def _at(self, v: Value, i: int) -> Values:
        if v.parts is not None and -len(v.parts) <= i < len(v.parts):
            return v.parts[i]
        return v.rest or (v,)

    def _elements(self, values: Values) -> Values:
        return unique(x for v in values for part in (*(v.parts or ()), v.rest or (v,)) for x in part)

    # calls

    def _call(self, e: ast.Call, scope: Scope, discarded: bool) -> Values:
        args = self._arguments(e.args, scope)
        keywords = {k.arg or "": self.expression(k.value, scope) for k in e.keywords}
        everything = [*args, *keywords.values()]
        name = e.func.attr if isinstance(e.func, ast.Attribute) else getattr(e.func, "id", "")
        receivers: Values = ()
        if isinstance(e.func, ast.Attribute):
            receivers = self.expression(e.func.value, scope)
            if any(r.role == "context" for r in receivers):
                return self._on_context(e, name, args)
        callees = self.expression(e.func, scope) if not receivers or are_objects(receivers) else ()
        found: list[Value] = []
        for callee in callees or (None,):
            found += self._call_one(e, callee, name, receivers, args, keywords)
        if any(r.obj is not NOTHING and isinstance(r.obj, list | dict | set) for r in receivers):
            for r in receivers:
                self._keep_state(r.obj, "", unique(v for values in everything for v in values))
        if name.endswith("_") and not name.endswith("__") and name not in NO_WRITE and receivers:
            self._write(receivers, [v for values in everything for v in values])
            return receivers if not are_objects(receivers) else unique(v for values in args[:1] for v in values)
        if "out" in keywords:
            self._write(keywords["out"], found)
            return keywords["out"]
        if discarded and not (callees and callees[0].code) and not callees == ():
            self._write(unique(v for values in everything for v in values if not v.role), found)
        elif discarded and receivers and receivers[0].parts is not None:
            self._write(receivers, [v for values in everything for v in values])
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
            return self._inlined(node, Scope({}, lambda n: self._find(around, n)), [*bound, *args], keywords, e)
        if obj is functools.partial and args:
            return tuple(self._bound(e, f, args[1:]) for f in args[0])
        if obj is getattr and any(v.role == "context" for v in args[0]) and isinstance(e.args[1], ast.Constant):
            attribute = ast.Attribute(e.args[0], str(e.args[1].value), ast.Load(), lineno=e.lineno)
            return unique((*self._of_context(attribute), *(v for values in args[2:] for v in values)))
        if obj in (tuple, list) and len(args) == 1:
            return args[0]
        if obj is zip:
            rest = Value(ast.unparse(e), parts=[self._elements(values) for values in args])
            return (Value(ast.unparse(e), rest=(rest,)),)
        if obj is reversed or obj is enumerate:
            element = self._elements(args[0])
            pair = Value(ast.unparse(e), parts=[(Value("index", late=self.late),), element])
            return (Value(ast.unparse(e), rest=element if obj is reversed else (pair,)),)
        if is_ours(obj) and self._depth < DEPTH:
            try:
                node, outer, first = source_of(obj)
            except Unreadable:
                pass
            else:
                before, self._first = self._first, first
                try:
                    return self._inlined(node, Scope({}, outer), args, keywords, e)
                finally:
                    self._first = before
        if name in STEPS or name in TYPES:
            return (Value(ast.unparse(e), self._line(e), late=self.late),)
        sources = [receivers, *everything] if not are_objects(receivers) else everything
        if name in CONVERSIONS and receivers and not are_objects(receivers):
            sources = [receivers]
        if name in CUTS or obj is float:
            return (self._cut(e, *sources),)
        result = self._generic(e, *sources)
        result.cut |= is_numpy(obj)
        result.conversion = name in CONVERSIONS
        functions = [v for values in everything for v in values if v.code is not None]
        if functions and not self.late:  # a node of a tape, with its backward in it
            return (Value(ast.unparse(e), parts=everything),)
        if callee is not None and not result.deps and not result.unknown:
            result.unknown = callee.unknown or ("" if is_pure(obj) else f"what {callee.text} returns is not known")
        return (result,)

    def _inlined(
        self, node: Function, scope: Scope, args: list[Values], keywords: dict[str, Values], e: ast.Call
    ) -> Values:
        if self._depth == DEPTH:
            return (self._generic(e, *args, *keywords.values()),)
        self._depth += 1
        try:
            return self._enter(node, scope, args, keywords)
        finally:
            self._depth -= 1

    def _bound(self, e: ast.Call, f: Value, args: list[Values]) -> Value:
        if f.code is not None:
            node, scope, bound = f.code
            return Value(ast.unparse(e), self._line(e), late=self.late, code=(node, scope, [*bound, *args]))
        if is_ours(f.obj):
            node, outer, _ = source_of(f.obj)
            return Value(ast.unparse(e), self._line(e), late=self.late, code=(node, Scope({}, outer), list(args)))
        return self._generic(e, *args)

    def _on_context(self, e: ast.Call, name: str, args: list[Values]) -> Values:
        flat = unique(leaf for values in args for v in values for leaf in v.leaves())
        if name in ("save_for_backward", "save_for_forward"):
            self.saved[name] = [unique(x for v in values for x in v.leaves()) for values in args]
        elif name == "mark_dirty":
            self.dirty.update(flat)
        elif name == "mark_non_differentiable":
            self.not_differentiable.update(flat)
        elif name in self.attributes:
            return unique(r for f in self.attributes[name] for r in self._call_one(e, f, name, (), args, {}))
        return (Value(ast.unparse(e), self._line(e), late=self.late),)

    # values

    def _generic(self, e: ast.AST, *operands: Values) -> Value:
        """A value computed from these."""
        leaves = [leaf for values in operands for v in values for leaf in v.leaves()]
        for values in operands:
            self.use(values, e)
        deps = frozenset(d for leaf in leaves for d in leaf.deps)
        return Value(
            ast.unparse(e),
            self._line(e),
            deps,
            role="cut" if self.late and self._no_grad and deps else "",
            late=self.late,
            cut=any(leaf.cut for leaf in leaves),
            unknown=next((leaf.unknown for leaf in leaves if leaf.unknown), ""),
        )

    def _cut(self, e: ast.AST, *operands: Values) -> Value:
        """A value computed from these, of which autograd does not know that it is."""
        recorded, self._recorded = self._recorded, False
        result = self._generic(e, *operands)
        self._recorded = recorded
        result.cut = True
        result.role = "cut" if self.late and result.deps else ""
        return result

    def use(self, values: Values, e: ast.AST) -> None:
        if self.late and self._recorded:
            for leaf in (leaf for v in values for leaf in v.leaves()):
                self.used.setdefault(leaf, self._line(e))

    def _line(self, e: ast.AST) -> int:
        return self._first + getattr(e, "lineno", 0)


def _loaded(target: ast.expr) -> ast.expr:
    copy = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(copy, target)


def _literal(e: ast.expr) -> int | slice | None:
    """The index that is written there; `None` if it has to be computed."""
    try:
        if isinstance(e, ast.Slice):
            return slice(*(None if b is None else ast.literal_eval(b) for b in (e.lower, e.upper, e.step)))
        return ast.literal_eval(e)
    except ValueError:
        return None


def _recorded_in(test: ast.expr) -> tuple[bool, bool]:
    """May gradients be recorded where a condition holds, and where it does not?"""
    match test:
        case ast.Call() if ast.unparse(test.func).endswith("is_grad_enabled"):
            return True, False
        case ast.UnaryOp(op=ast.Not()):
            return _recorded_in(test.operand)[::-1]
        case ast.BoolOp(op=ast.And()):
            return all(_recorded_in(part)[0] for part in test.values), True
        case ast.BoolOp(op=ast.Or()):
            return True, all(_recorded_in(part)[1] for part in test.values)
    return True, True
