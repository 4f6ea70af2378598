"""Relations between the sizes of an operator's axes: "n <= m, d in (16, 64), k = 2*h".

A signature only says which axes have the same size. Many operators require more: a kernel for certain head sizes, at
least one entry, as many columns as two halves have together. The samples keep to these rules.
"""

from __future__ import annotations

import ast
import heapq
import itertools
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from parity_tests.harness.specs.domains import EmptyDomain

_COMPARISONS: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda size, sizes: size in sizes,  # type: ignore[operator]
    ast.NotIn: lambda size, sizes: size not in sizes,  # type: ignore[operator]
}
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max}
_DEFINITION = re.compile(r"\s*([^\W\d]\w*)\s*=(?!=)(.*)", re.DOTALL)
_SMALLEST = range(10)  # sizes that are tried in any case
_DEGENERATE = 8.0  # the cost of an axis that becomes empty, or of size 1, although another size was wanted
_SEARCHED = 20_000  # combinations of sizes that are tried before none is taken to exist
_ALIKE = 1.0  # the cost of two axes that become equally long, which hides a confusion of the two


@dataclass(frozen=True)
class AxisSize:
    """The size of a named axis, as a keyword parameter of an operator: `params={"num_classes": AxisSize("c")}`.

    It may be nested in a tuple, a list or a dict: `params={"normalized_shape": (AxisSize("d"),)}`, and follow from
    sizes as a definition does: `params={"sections": [AxisSize("n // 2"), AxisSize("n - n // 2")]}`. The oracle and the
    candidate are given the integer.
    """

    axis: str

    def __post_init__(self) -> None:
        if not isinstance(self.axis, str) or not _is_size(_read(self.axis)):
            raise ValueError(f'AxisSize({self.axis!r}) is no size; write an axis, or an expression such as "n // 2"')

    @property
    def rule(self) -> Rule:
        """The expression, as a rule that defines nothing."""
        expression = _read(self.axis)
        assert expression is not None
        return Rule(self.axis, expression)


@dataclass(frozen=True)
class Rule:
    """One rule: a comparison, or the definition of an axis by others.

    Attributes:
        text: the rule as it was written.
        expression: the comparison; for a definition, the expression of the size.
        defines: the axis that a definition defines; None for a comparison.
    """

    text: str
    expression: ast.expr
    defines: str | None = None

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the rule reads."""
        named = (node.id for node in ast.walk(self.expression) if isinstance(node, ast.Name))
        called = {node.func.id for node in ast.walk(self.expression) if isinstance(node, ast.Call)}  # type: ignore[attr-defined]
        return frozenset(named) - called

    @property
    def numbers(self) -> frozenset[int]:
        """The integers that occur in the rule."""
        return frozenset(int(node.value) for node in ast.walk(self.expression) if isinstance(node, ast.Constant))  # type: ignore[arg-type]

    def value(self, sizes: Mapping[str, int]) -> object:
        """Return whether the comparison holds; for a definition, the size that it gives."""
        return _value(self.expression, sizes)


@dataclass(frozen=True)
class SizeRules:
    """The size rules of an operator, in the order in which they were written."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, text: str, axes: Sequence[str], of_outputs: Collection[str] = ()) -> SizeRules:
        """Read rules, separated by commas, about the axes of the inputs; an axis of an output may be defined.

        Raises:
            ValueError: a rule cannot be read, or names an unknown axis, or defines an axis twice.
        """
        rules: list[Rule] = []
        for part in re.split(r",(?![^(]*\))", text):
            rules.append(_parsed(part.strip(), text))
            *before, rule = rules
            defined = {other.defines for other in before}
            known = {*axes, *defined}
            unknown = sorted(rule.axes - known) + (
                [rule.defines] if rule.defines not in {*axes, *of_outputs, None} else []
            )
            if unknown:
                raise ValueError(f"sizes {rule.text!r} names the axis {unknown[0]!r}; the axes are {', '.join(axes)}")
            if rule.defines and (rule.defines in defined or rule.defines in rule.axes):
                raise ValueError(f"sizes {rule.text!r} defines the axis {rule.defines!r} by itself, or a second time")
        return cls(tuple(rules))

    @property
    def defined(self) -> frozenset[str]:
        """The axes whose sizes follow from those of the others."""
        return frozenset(rule.defines for rule in self.rules if rule.defines)

    def choices(self, axis: str) -> tuple[int, ...]:
        """Return the sizes that a rule such as "d in (16, 64)" lists for an axis, in order; empty if none does."""
        for rule in self.rules:
            match rule.expression:
                case ast.Compare(left=ast.Name(id=name), ops=[ast.In()], comparators=[listed]) if name == axis:
                    return tuple(_value(listed, {}))  # type: ignore[arg-type]
        return ()

    def completed(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes together with those of the axes that the rules define.

        Raises:
            EmptyDomain: the sizes break a rule.
        """
        complete = dict(sizes)
        for rule in self.rules:
            if rule.defines:
                complete[rule.defines] = int(rule.value(complete))  # type: ignore[call-overload]
                if complete[rule.defines] < 0:
                    raise EmptyDomain(f"sizes {rule.text!r} is negative at {_written(sizes)}")
            elif not rule.value(complete):
                raise EmptyDomain(f"sizes {rule.text!r} does not hold at {_written(sizes)}")
        return complete

    def nearest(self, wanted: Mapping[str, int], kept: Collection[str] = ()) -> dict[str, int]:
        """Return the sizes that keep to the rules and are as near to the wanted ones as can be found.

        Distance is measured in octaves, with a penalty for an axis that becomes empty or of size 1, and for two axes
        that become equally long.

        Args:
            wanted: the size of every axis of the inputs.
            kept: the axes whose size must be as wanted.

        Raises:
            EmptyDomain: no such sizes were found.
        """
        free = [axis for axis in wanted if axis not in self.defined]
        named = frozenset().union(*(rule.axes for rule in self.rules))
        tried = [
            [wanted[axis]] if axis in kept or axis not in named else self._tried(axis, wanted, kept) for axis in free
        ]
        best: dict[str, int] | None = None
        least = math.inf
        for chosen in _in_order_of_change(tried, [wanted[axis] for axis in free]):
            sizes = dict(zip(free, chosen, strict=True))
            if _change(sizes, wanted) >= least:
                break
            try:
                complete = self.completed(sizes)
            except EmptyDomain:
                continue
            cost = _cost(complete, wanted)
            if cost < least and all(complete[axis] == wanted[axis] for axis in kept):
                best, least = complete, cost
        if best is None:
            raise EmptyDomain(f"no sizes near {_written(wanted)} keep to the rules")
        return best

    def _tried(self, axis: str, wanted: Mapping[str, int], kept: Collection[str]) -> list[int]:
        if self.choices(axis):
            return list(self.choices(axis))
        size, numbers = wanted[axis], frozenset().union(*(rule.numbers for rule in self.rules))
        near = {size, *_SMALLEST, *(wanted[other] for other in wanted)}
        for other in kept:
            near |= {wanted[other] - 1, wanted[other] + 1, 2 * wanted[other], wanted[other] // 2}
        for number in numbers - {0}:
            down = size // number * number
            near |= {number - 1, number, number + 1, 2 * number, 3 * number, down, down + number}
            near |= {wanted[other] // number for other in kept}
        return [n for n in near if n >= 0]


def resolved(parameter: object, sizes: Mapping[str, int]) -> object:
    """Return a keyword parameter with every `AxisSize` in it replaced by the size."""
    if isinstance(parameter, AxisSize):
        return parameter.rule.value(sizes)
    if isinstance(parameter, Mapping):
        return {key: resolved(value, sizes) for key, value in parameter.items()}
    if type(parameter) in (tuple, list):
        return type(parameter)(resolved(value, sizes) for value in parameter)  # type: ignore[attr-defined]
    return parameter


def axis_sizes(parameter: object) -> set[str]:
    """Return the axes whose sizes occur in a keyword parameter."""
    if isinstance(parameter, AxisSize):
        return {*parameter.rule.axes}
    if isinstance(parameter, Mapping):
        return set().union(*map(axis_sizes, parameter.values()))
    return set().union(*map(axis_sizes, parameter)) if type(parameter) in (tuple, list) else set()  # type: ignore[arg-type]


def _parsed(text: str, whole: str) -> Rule:
    definition = _DEFINITION.fullmatch(text)
    expression = _read(definition[2] if definition else text)
    readable = _is_size(expression) if definition else _is_comparison(expression)
    if expression is None or not readable:
        raise ValueError(
            f"sizes {whole!r}: {text!r} is no rule; write comparisons of axes and integers, separated by commas, such "
            'as "n <= m, d in (16, 64), k = 2*h, r = min(n, m), c % 4 == 0"'
        )
    return Rule(text, expression, definition[1] if definition else None)


def _read(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):  # the second for null bytes
        return None


def _is_comparison(node: ast.expr | None) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    sides = zip(node.ops, node.comparators, strict=True)
    return _is_size(node.left) and all(
        _is_list(side) if isinstance(op, ast.In | ast.NotIn) else type(op) in _COMPARISONS and _is_size(side)
        for op, side in sides
    )


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List) and all(_is_number(item) for item in node.elts) and bool(node.elts)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_size(node: ast.expr | None) -> bool:
    match node:
        case ast.Name():
            return True
        case ast.Constant():
            return _is_number(node)
        case ast.BinOp(left=left, op=op, right=right):
            divides = isinstance(op, ast.FloorDiv | ast.Mod)
            sound = _is_number(right) and right.value != 0 if divides else True  # type: ignore[attr-defined]
            return type(op) in _ARITHMETIC and _is_size(left) and _is_size(right) and sound
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as args, keywords=[]):
            return name in _FUNCTIONS and all(map(_is_size, args))
    return False


def _value(node: ast.expr, sizes: Mapping[str, int]) -> object:
    match node:
        case ast.Name(id=axis):
            return sizes[axis]
        case ast.Constant(value=number):
            return number
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_value(item, sizes) for item in items)
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_value(left, sizes), _value(right, sizes))  # type: ignore[arg-type]
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name](*(_value(arg, sizes) for arg in args))
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            values = [_value(side, sizes) for side in (left, *comparators)]
            return all(_COMPARISONS[type(op)](a, b) for op, (a, b) in zip(ops, itertools.pairwise(values), strict=True))
    raise AssertionError(f"{ast.dump(node)} was let through when the rules were read")


def _in_order_of_change(tried: Sequence[Sequence[int]], wanted: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield combinations of one size per axis, in ascending order of their total change.

    This is a best-first search, which stops after `_SEARCHED` combinations.
    """
    options = [sorted((_octaves(n, size), n) for n in sizes) for sizes, size in zip(tried, wanted, strict=True)]
    start: tuple[int, ...] = (0,) * len(options)
    heap: list[tuple[float, tuple[int, ...]]] = [(sum(sizes[0][0] for sizes in options), start)]
    seen: set[tuple[int, ...]] = {start}
    for _ in range(_SEARCHED):
        if not heap:
            return
        change, places = heapq.heappop(heap)
        yield tuple(sizes[place][1] for sizes, place in zip(options, places, strict=True))
        for i, sizes in enumerate(options):
            place = places[i] + 1
            following = (*places[:i], place, *places[i + 1 :])
            if place < len(sizes) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (change - sizes[place - 1][0] + sizes[place][0], following))


def _octaves(size: int, wanted: int) -> float:
    degenerate = _DEGENERATE if size < min(2, wanted) else 0.0
    return abs(math.log2((size + 1) / (wanted + 1))) + degenerate


def _change(sizes: Mapping[str, int], wanted: Mapping[str, int]) -> float:
    return sum(_octaves(sizes[axis], wanted[axis]) for axis in sizes if axis in wanted)


def _cost(sizes: Mapping[str, int], wanted: Mapping[str, int]) -> float:
    alike = _alike(sizes) - _alike(wanted)
    degenerate = sum(size < 2 for axis, size in sizes.items() if axis not in wanted)
    return _change(sizes, wanted) + _ALIKE * max(alike, 0) + _DEGENERATE * degenerate


def _alike(sizes: Mapping[str, int]) -> int:
    return len(sizes) - len(set(sizes.values()))


def _written(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{axis} = {size}" for axis, size in sizes.items())
