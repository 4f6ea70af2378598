"""Provenance: where each value of a Python function comes from, read from its source; nothing is run.

Values are objects: what is saved and what is returned are the same output if they are one `Value`, by whatever name.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# A step function: its derivative is zero wherever it has one, so what depends on it alone may be taken as constant.
STEPS = _words(
    "argmax argmin argsort sign floor ceil round trunc isnan isinf isfinite signbit eq ne gt ge lt le",
    "logical_and logical_or logical_not logical_xor nonzero bucketize searchsorted count_nonzero bool int",
    "long equal allclose isclose any all",
)
# What depends on the type of a tensor only, or on nothing of it.
TYPES = _words(
    "size dim numel stride is_contiguous element_size data_ptr get_device is_floating_point is_complex len",
    "isinstance type hasattr callable id ndimension storage_offset zeros_like ones_like empty_like rand_like",
    "randn_like randint_like new_zeros new_ones new_empty bernoulli range result_type promote_types finfo",
    "iinfo print broadcast_shapes is_grad_enabled is_tensor",
)
TYPE_ATTRIBUTES = _words(
    "shape dtype device ndim layout is_cuda requires_grad itemsize nbytes is_leaf grad_fn names",
    "needs_input_grad",
)
CUTS = {"detach", "detach_", "item", "numpy", "tolist", "data", "value"}
CONVERSIONS = {"contiguous", "to", "float", "double", "half", "bfloat16", "type_as", "cpu", "cuda", "reshape"}
NO_WRITE = {"requires_grad_", "detach_", "retain_grad", "register_hook"}
FOREIGN = {"torch", "numpy", "scipy", "jax", "jaxlib", *sys.stdlib_module_names}
NOTHING: Any = object()


class Unreadable(Exception):
    """Raised when a function has no source to read, or an object is not a function."""


@dataclass(eq=False)
class Value:
    """A value that an expression may have, and where it comes from.

    Attributes:
        text, line: as it is written, and where.
        deps: the inputs and cotangents that it depends on, step functions aside.
        role: "input", "cotangent", "context", "state", "cut" (made a constant in the backward), or "".
        late: made by the backward, and not before.
        cut: depends on them through something that autograd does not see.
        unknown: why nothing can be said of it.
        parts: of a tuple or list, what is at each place; `rest`: what may be at any.
        obj: the Python object itself, where it is one that exists already: a module, a function, a global tensor.
        code: of a function that the source defines: its node, the scope around it, what is bound to it.
    """

    text: str
    line: int = 0
    deps: frozenset[str] = frozenset()
    role: str = ""
    late: bool = False
    cut: bool = False
    written: bool = False
    conversion: bool = False
    unknown: str = ""
    name: str = ""
    parts: list[Values] | None = None
    rest: Values = ()
    obj: Any = NOTHING
    code: tuple[Function, Scope, list[Values]] | None = None

    def leaves(self) -> Iterable[Value]:
        """Itself, or what is in it."""
        if self.parts is None and not self.rest:
            yield self
        for values in (*(self.parts or ()), self.rest):
            for value in values:
                yield from value.leaves()

    @property
    def is_function(self) -> bool:
        """True if the value is a function that can be called."""
        return self.code is not None or (self.obj is not NOTHING and callable(self.obj))


Values = tuple[Value, ...]


@dataclass
class Scope:
    """The names of a function; `outer` finds any other."""

    names: dict[str, Values]
    outer: Callable[[str], Any]
    globals: set[str] = field(default_factory=set)


def source_of(function: Callable) -> tuple[Function, Callable[[str], Any], int]:
    """The syntax tree of a function, a look-up of its globals and of its closure, and the line before its first.

    Raises:
        Unreadable: no source.
    """
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is not None and code.co_name == "<lambda>":
        return _lambda(function), _names(function), 0
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError) as error:
        raise Unreadable(f"{getattr(function, '__qualname__', function)}: no source to read: {error}") from error
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise Unreadable(f"{getattr(function, '__qualname__', function)}: its source is not that of a `def`")
    return node, _names(function), first - 1


def _lambda(function: Callable) -> ast.Lambda:
    """The one lambda of these parameters that begins on its line of the file."""
    code = function.__code__
    lines, _ = inspect.findsource(function)
    found = [
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and [p.arg for p in (*node.args.posonlyargs, *node.args.args)] == [*code.co_varnames[: code.co_argcount]]
    ]
    if len(found) != 1:
        raise Unreadable(f"{code.co_filename}, line {code.co_firstlineno}: {len(found)} lambdas that are alike")
    return found[0]


def _names(function: Callable) -> Callable[[str], Any]:
    cells = inspect.getclosurevars(function) if isinstance(function, FunctionType) else None
    namespace = {**vars(builtins), **function.__globals__, **(cells.nonlocals if cells else {})}
    return lambda name: namespace.get(name, NOTHING)


def unique(values: Iterable[Value]) -> Values:
    """Return the values without duplicates."""
    return tuple(dict.fromkeys(values))


def are_objects(values: Values) -> bool:
    """True if there are values and each is a Python object that is known."""
    return bool(values) and all(v.obj is not NOTHING for v in values)


def _home(obj: Any) -> str:
    return (getattr(obj, "__module__", None) or "").split(".")[0]


def is_ours(obj: Any) -> bool:
    """A plain function that is not one of a library; of a decorated one the wrapper is not read."""
    return isinstance(obj, FunctionType) and _home(obj) not in FOREIGN and not hasattr(obj, "__wrapped__")


def is_numpy(obj: Any) -> bool:
    """True for a function or an object of NumPy or SciPy."""
    return obj is not NOTHING and (_home(obj) in ("numpy", "scipy") or type(obj).__module__.startswith("numpy"))


def is_pure(obj: Any) -> bool:
    """True for an object without a state that the reader knows: a function, a class, what is a library's."""
    return (
        obj is NOTHING or isinstance(obj, FunctionType | type) or not hasattr(obj, "__dict__") or _home(obj) in FOREIGN
    )


def find(scope: Scope, name: str) -> Any:
    """Return the meaning of a name in a scope: values, or an object that exists already."""
    return scope.names[name] if name in scope.names else scope.outer(name)


def at(v: Value, i: int) -> Values:
    """Return the values at one position of a value."""
    if v.parts is not None and -len(v.parts) <= i < len(v.parts):
        return v.parts[i]
    return v.rest or (v,)


def elements(values: Values) -> Values:
    """Return the values at any position of these values."""
    return unique(x for v in values for part in (*(v.parts or ()), v.rest or (v,)) for x in part)


def recorded_in(test: ast.expr) -> tuple[bool, bool]:
    """Whether gradients may be recorded where a condition holds, and where it does not."""
    match test:
        case ast.Call() if ast.unparse(test.func).endswith("is_grad_enabled"):
            return True, False
        case ast.UnaryOp(op=ast.Not()):
            holds, does_not = recorded_in(test.operand)
            return does_not, holds
        case ast.BoolOp(op=ast.And()):
            return all(recorded_in(part)[0] for part in test.values), True
        case ast.BoolOp(op=ast.Or()):
            return True, all(recorded_in(part)[1] for part in test.values)
    return True, True
