"""The state of reading a formula: the values saved, the values written to, and the values that results depend on."""

from __future__ import annotations

import ast
from typing import Any

from torch.autograd.function import FunctionCtx

from parity_tests.harness.captures.provenance import NOTHING, TYPE_ATTRIBUTES, Value, Values, unique


class Memory:
    """Facts about all functions that are read for one formula.

    Attributes:
        late: reading the backward.
        recorded: may what is read run while gradients are recorded? no_grad: certainly not.
        used: the values that a result of the backward depends on, each with the line where.
        saved, slot: by save_for_backward and save_for_forward, and which of the two `saved_tensors` is.
        attributes, dirty, not_differentiable: what the functions have done to `ctx`.
        state: what they have written to globals and to classes.
        first, depth: the line before the function that is read, and how many calls it is in.
    """

    def __init__(self) -> None:
        self.late = False
        self.recorded = True
        self.no_grad = False
        self.used: dict[Value, int] = {}
        self.saved: dict[str, list[Values]] = {}
        self.slot = "save_for_backward"
        self.attributes: dict[str, Values] = {}
        self.dirty: set[Value] = set()
        self.not_differentiable: set[Value] = set()
        self.state: dict[tuple[int, str], Values] = {}
        self.objects: dict[int, Value] = {}
        self.first = 0
        self.depth = 0

    # what is written

    def keep_state(self, obj: Any, name: str, values: Values) -> None:
        """Values are kept under a name of an object, beside those that are kept there already."""
        key = (0 if obj is NOTHING else id(obj), name)
        self.state[key] = unique((*self.state.get(key, ()), *values))

    def write(self, targets: Values, sources: list[Value]) -> None:
        """Something is written into tensors (or put into lists): they depend on it from now on."""
        for target in targets:
            target.written = True
            for source in (leaf for s in sources for leaf in s.leaves()):
                if target.parts is not None:
                    target.rest = unique((*target.rest, source))
                elif source is not target:
                    target.deps |= source.deps
                    target.cut |= source.cut

    # what is there

    def object_of(self, name: str, obj: Any) -> Value:
        """The value of a name that the source reads, which is this Python object."""
        if obj is NOTHING:
            return Value(name, unknown=f"{name} is not defined where the source is read")
        if (id(obj), "") in self.state:
            return self.stateful(name, self.state[id(obj), ""])
        return self.objects.setdefault(id(obj), Value(name, obj=obj, name=name))

    def stateful(self, name: str, values: Values) -> Value:
        """A value that depends on what these values depend on, and outlives the call."""
        deps = frozenset(d for v in values for leaf in v.leaves() for d in leaf.deps)
        return Value(name, deps=deps, role="state" if deps else "", name=name)

    def of_context(self, e: ast.Attribute) -> Values:
        """The values of an attribute of ctx, its saved tensors included."""
        if e.attr in ("saved_tensors", "saved_variables"):
            parts = self.saved.get(self.slot, [])
            return (Value(ast.unparse(e), self.line(e), parts=list(parts)),)
        if e.attr in self.attributes:
            return self.attributes[e.attr]
        known = e.attr in TYPE_ATTRIBUTES or hasattr(FunctionCtx, e.attr)
        return (
            Value(ast.unparse(e), self.line(e), unknown="" if known else f"{ast.unparse(e)} is set nowhere before"),
        )

    # what is computed

    def generic(self, e: ast.AST, *operands: Values) -> Value:
        """A value computed from these."""
        leaves = [leaf for values in operands for v in values for leaf in v.leaves()]
        for values in operands:
            self.use(values, e)
        deps = frozenset(d for leaf in leaves for d in leaf.deps)
        return Value(
            ast.unparse(e),
            self.line(e),
            deps,
            role="cut" if self.late and self.no_grad and deps else "",
            late=self.late,
            cut=any(leaf.cut for leaf in leaves),
            unknown=next((leaf.unknown for leaf in leaves if leaf.unknown), ""),
        )

    def cut(self, e: ast.AST, *operands: Values) -> Value:
        """A value computed from these, of which autograd does not know that it is."""
        recorded, self.recorded = self.recorded, False
        result = self.generic(e, *operands)
        self.recorded = recorded
        result.cut = True
        result.role = "cut" if self.late and result.deps else ""
        return result

    def use(self, values: Values, e: ast.AST) -> None:
        """Values take part in a gradient that autograd records: note the line at which each is used first."""
        if self.late and self.recorded:
            for leaf in (leaf for v in values for leaf in v.leaves()):
                self.used.setdefault(leaf, self.line(e))

    def line(self, e: ast.AST) -> int:
        """Return the line of a node in the file."""
        return self.first + getattr(e, "lineno", 0)
