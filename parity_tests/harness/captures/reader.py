"""Reads a Python function as autograd would see it: which of its values depends on which, and what it keeps.

Statement by statement, with sets of `Value`s in place of tensors: both branches of an `if`, a loop twice, and functions
that it calls, but for those of libraries, at the place of their call.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable

from parity_tests.harness.captures.expressions import Expressions
from parity_tests.harness.captures.memory import Memory
from parity_tests.harness.captures.provenance import (
    NOTHING,
    Function,
    Scope,
    Value,
    Values,
    at,
    elements,
    find,
    recorded_in,
    source_of,
    unique,
)


class Reader:
    """Reads functions, one after the other, with one memory."""

    def __init__(self) -> None:
        self.memory = Memory()
        self._expressions = Expressions(self.memory, self._enter, self._assign)

    # calls

    def call(self, function: Callable, args: list[Values]) -> Values:
        """Return the values that a Python function may return for these arguments.

        Raises:
            Unreadable: no source.
        """
        node, outer, first = source_of(function)
        before, self.memory.first = self.memory.first, first
        try:
            return self._enter(node, Scope({}, outer), args, {})
        finally:
            self.memory.first = before

    def call_value(self, value: Value, args: list[Values]) -> Values:
        """The value of a call of a function that the source defines."""
        if value.code is None:
            return ()
        node, scope, bound = value.code
        inner = Scope({}, lambda name: find(scope, name))
        return self._enter(node, inner, [*bound, *args], {})

    def _enter(self, node: Function, scope: Scope, args: list[Values], keywords: dict[str, Values]) -> Values:
        names = [p.arg for p in (*node.args.posonlyargs, *node.args.args)]
        defaults = node.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            scope.names[name] = (Value(ast.unparse(default), late=self.memory.late),)
        for p, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            scope.names[p.arg] = (Value(ast.unparse(default) if default else p.arg, late=self.memory.late),)
        for name, values in zip(names, args, strict=False):
            scope.names[name] = values
        if node.args.vararg:
            scope.names[node.args.vararg.arg] = (Value("*args", parts=list(args[len(names) :])),)
        if node.args.kwarg:
            others = [v for name, values in keywords.items() if name not in names for v in values]
            scope.names[node.args.kwarg.arg] = (Value("**kwargs", rest=tuple(others)),)
        scope.names.update(keywords)
        missing = [name for name in names if name not in scope.names]
        scope.names.update(dict.fromkeys(missing, unique(v for values in args for v in values)))  # from f(*many)
        if isinstance(node, ast.Lambda):
            return self._expressions.read(node.body, scope)
        returned: list[Values] = []
        recorded = self.memory.recorded
        self._block(node.body, scope, returned)
        self.memory.recorded = recorded
        return unique(v for values in returned for v in values)

    # statements

    def _block(self, body: list[ast.stmt], scope: Scope, returned: list[Values]) -> bool:
        """Read statements; True if they end in a return or a raise, whatever branch is taken."""
        return any([self._statement(s, scope, returned) for s in body])

    def _statement(self, s: ast.stmt, scope: Scope, returned: list[Values]) -> bool:
        match s:
            case ast.Return():
                values = self._expressions.read(s.value, scope) if s.value else ()
                returned.append(
                    values if self.memory.recorded else (Value(ast.unparse(s), self.memory.line(s), late=True),)
                )
                return True
            case ast.Raise():
                return True
            case ast.Assign():
                values = self._expressions.read(s.value, scope)
                for target in s.targets:
                    self._assign(target, values, scope)
            case ast.AnnAssign() if s.value:
                self._assign(s.target, self._expressions.read(s.value, scope), scope)
            case ast.AugAssign():
                new, old = self._expressions.read(s.value, scope), self._expressions.read(_loaded(s.target), scope)
                result = self.memory.generic(s, old, new)
                if all(v.late == self.memory.late and not v.role for v in old):
                    self._assign(s.target, (result,), scope)
                self.memory.write(old, [result])
            case ast.Expr():
                self._expressions.read(s.value, scope, discarded=True)
            case ast.If():
                return self._branches(s, scope, returned)
            case ast.For() | ast.AsyncFor():
                self._assign(s.target, elements(self._expressions.read(s.iter, scope)), scope)
                for body in (s.body, s.body, s.orelse):
                    self._alternatives([body, []], scope, returned)
            case ast.While():
                self._expressions.read(s.test, scope)
                for body in (s.body, s.body, s.orelse):
                    self._alternatives([body, []], scope, returned)
            case ast.With() | ast.AsyncWith():
                return self._with(s, scope, returned)
            case ast.Try():
                ended = self._block(s.body, scope, returned)
                self._alternatives([h.body for h in s.handlers] + [[]], scope, returned)
                return any([ended, self._block(s.orelse, scope, returned), self._block(s.finalbody, scope, returned)])
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                scope.names[s.name] = (Value(s.name, self.memory.line(s), late=self.memory.late, code=(s, scope, [])),)
            case ast.Global() | ast.Nonlocal():
                scope.globals.update(s.names)
            case ast.Import() | ast.ImportFrom():
                self._import(s, scope)
        return False

    def _branches(self, s: ast.If, scope: Scope, returned: list[Values]) -> bool:
        self._expressions.read(s.test, scope)
        then, other = recorded_in(s.test)
        return self._alternatives([s.body, s.orelse], scope, returned, [then, other])

    def _alternatives(
        self, bodies: list[list[ast.stmt]], scope: Scope, returned: list[Values], recorded: list[bool] | None = None
    ) -> bool:
        """Reads each body from the same start; then a name may be what it is after any that does not end."""
        before, was_recorded = dict(scope.names), self.memory.recorded
        after: list[tuple[bool, dict[str, Values]]] = []
        for body, flag in zip(bodies, recorded or [True] * len(bodies), strict=True):
            scope.names.clear()
            scope.names.update(before)
            self.memory.recorded = was_recorded and flag
            if not self._block(body, scope, returned):
                after.append((flag, dict(scope.names)))
        scope.names.clear()
        goes_on = any(flag for flag, _ in after)  # while gradients are recorded; then no other way matters
        for names in (names for flag, names in after if flag or not goes_on):
            for name, values in names.items():
                scope.names[name] = unique((*scope.names.get(name, ()), *values))
        self.memory.recorded = was_recorded and (goes_on or not after)
        if not after:
            scope.names.update(before)
        return not after

    def _with(self, s: ast.With | ast.AsyncWith, scope: Scope, returned: list[Values]) -> bool:
        before = self.memory.no_grad
        for item in s.items:
            text = ast.unparse(item.context_expr)
            values = self._expressions.read(item.context_expr, scope)
            self.memory.no_grad = "enable_grad" not in text and (self.memory.no_grad or "no_grad" in text)
            if item.optional_vars is not None:
                self._assign(item.optional_vars, values, scope)
        ended = self._block(s.body, scope, returned)
        self.memory.no_grad = before
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
                self.memory.keep_state(NOTHING, target.id, values)
            case ast.Name():
                for v in values:
                    if not v.name or (self.memory.depth == 0 and not v.role and v.obj is NOTHING):
                        v.name = target.id  # the name that the backward itself gives it comes last
                scope.names[target.id] = values
            case ast.Tuple() | ast.List():
                self._unpack(target.elts, values, scope)
            case ast.Starred():
                self._assign(target.value, values, scope)
            case ast.Attribute():
                for base in self._expressions.read(target.value, scope):
                    if base.role == "context":
                        for v in values:
                            v.name = v.name or f"ctx.{target.attr}"
                        kept = self.memory.attributes.get(target.attr, ())
                        self.memory.attributes[target.attr] = unique((*kept, *values))
                    elif base.obj is not NOTHING:
                        self.memory.keep_state(base.obj, target.attr, values)
                    else:
                        self.memory.write((base,), list(values))
            case ast.Subscript():
                for base in self._expressions.read(target.value, scope):
                    if base.obj is not NOTHING:
                        self.memory.keep_state(base.obj, "", values)
                    else:
                        self.memory.write((base,), list(values))

    def _unpack(self, targets: list[ast.expr], values: Values, scope: Scope) -> None:
        for i, target in enumerate(targets):
            found: list[Value] = []
            for v in values:
                if isinstance(target, ast.Starred):
                    parts = (v.parts or [])[i : len(v.parts or []) - (len(targets) - 1 - i) or None]
                    found.append(Value(v.text, parts=parts, rest=v.rest if v.parts is None else ()))
                else:
                    after_star = any(isinstance(t, ast.Starred) for t in targets[:i])
                    found += at(v, i - len(targets) if after_star else i)
            self._assign(target, unique(found), scope)


def _loaded(target: ast.expr) -> ast.expr:
    copy = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(copy, target)
