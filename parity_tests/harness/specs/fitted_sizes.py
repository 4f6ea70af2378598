"""How long an axis is that only an output has: an expression in the sizes of others, fitted to observed sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from parity_tests.harness.specs.domains import EmptyDomain
from parity_tests.harness.specs.size_rules import SizeRules

_RUN = 36  # sizes of one axis, one after the other: each remainder of a divisor is seen twice
_DIVISORS = range(1, 17)
_BOUNDS = range(1, 65)

Sizes = Mapping[str, int]
Seen = Mapping[int, int]  # the size of an axis by that of another


def fitted(size: Callable[[Sizes], int | None], base: Sizes, rules: SizeRules, further: Iterable[Sizes]) -> str | None:
    """Return an expression that is the size of an axis, as `OpSpec.sizes` writes it; None if there is no such.

    One axis that matters gives "n - 1", "2*n", "(n - 3) // 2", "n*(n - 1) // 2" or "min(n, 4)"; several a sum or a
    product of these, or their least or largest.

    Args:
        size: of the axis at these sizes of the others; None where there is none.
        base: sizes at which there is one.
        rules: for the sizes of the axes.
        further: sizes at which the expression is verified.
    """
    found = size(base)
    if found is None:
        return None
    seen = {axis: _along(axis, size, base, rules) for axis in base if axis not in rules.defined}
    seen = {axis: sizes for axis, sizes in seen.items() if len({*sizes.values()}) > 1}
    observed = [(sizes, size(sizes)) for sizes in further]
    for text in _expressions(seen, base, found):
        read = SizeRules.parse(f"found = {text}", [*base], ("found",))
        if all(n is None or read.completed(sizes)["found"] == n for sizes, n in [(base, found), *observed]):
            return text
    return None


def _along(axis: str, size: Callable[[Sizes], int | None], base: Sizes, rules: SizeRules) -> Seen:
    """The sizes found at those of one axis, of which the others are as in `base`."""
    seen = dict[int, int]()
    for n in range(1, base[axis] + _RUN):
        try:
            found = size(rules.completed(base | {axis: n}))  # type: ignore[operator]
        except EmptyDomain:
            continue
        if found is not None:
            seen[n] = found
    return seen


@dataclass(frozen=True)
class _Line:
    """(factor*axis + offset) // divisor."""

    axis: str
    factor: int
    offset: int
    divisor: int

    @classmethod
    def through(cls, axis: str, seen: Seen) -> _Line | None:
        """The one through all these sizes, with the least divisor; None if there is none."""
        for divisor in _DIVISORS:
            steps = {seen[n + divisor] - found for n, found in seen.items() if n + divisor in seen}
            if len(steps) == 1:
                factor = steps.pop()
                low = max(divisor * found - factor * n for n, found in seen.items())
                high = min(divisor * found + divisor - 1 - factor * n for n, found in seen.items())
                if low <= high:
                    return cls(axis, factor, min(max(low, 0), high), divisor)
        return None

    def at(self, n: int) -> int:
        """The size at this size of the axis."""
        return (self.factor * n + self.offset) // self.divisor

    def __str__(self) -> str:
        text = f"{self.factor}*{self.axis}" if self.factor != 1 else self.axis
        if self.factor < 0:
            text = f"{self.offset} - {text[1:]}" if self.factor != -1 else f"{self.offset} - {self.axis}"
        elif self.offset:
            text = f"{text} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"
        if self.divisor == 1:
            return text
        return f"({text}) // {self.divisor}" if self.offset else f"{text} // {self.divisor}"


def _expressions(seen: Mapping[str, Seen], base: Sizes, found: int) -> Iterator[str]:
    """Expressions that may be right, the plainest first."""
    if not seen:
        yield str(found)
        return
    if len(seen) == 1:
        ((axis, sizes),) = seen.items()
        if line := _Line.through(axis, sizes):
            yield str(line)
        yield from _in_steps(axis, sizes)
        yield from _bounded(axis, sizes)
        yield from _squared(axis, sizes)
        return
    yield from (f"{bound}({', '.join(seen)})" for bound in ("min", "max"))
    lines = {axis: _Line.through(axis, sizes) for axis, sizes in seen.items()}
    if all(lines.values()):
        yield _sum([line for line in lines.values() if line], base, found)
    if product := _product(seen, base, found):
        yield product


def _in_steps(axis: str, seen: Seen) -> Iterator[str]:
    """A multiple of a line, as of an axis that is halved and then doubled."""
    sizes = [*seen.values()]
    step = math.gcd(*(b - a for a, b in itertools.pairwise(sizes)))
    if step > 1 and (line := _Line.through(axis, {n: found // step for n, found in seen.items()})):
        rest = sizes[0] % step
        yield f"{step} * ({line})" + (f" + {rest}" if rest else "")


def _bounded(axis: str, seen: Seen) -> Iterator[str]:
    for name, bound in (("min", min), ("max", max)):
        yield from (f"{name}({axis}, {m})" for m in _BOUNDS if all(bound(n, m) == found for n, found in seen.items()))


def _squared(axis: str, seen: Seen) -> Iterator[str]:
    """A polynomial of the second degree, or half of one: the entries above the diagonal."""
    first = [seen[n + 1] - seen[n] for n in seen if n + 1 in seen]
    second = {b - a for a, b in itertools.pairwise(first)}
    if len(second) != 1 or len(seen) < 4:
        return
    (a,), (n, found) = second, next(iter(seen.items()))
    b = 2 * first[0] - a * (2 * n + 1)
    c = 2 * found - a * n * n - b * n
    halved = a % 2 or b % 2 or c % 2
    a, b, c = (a, b, c) if halved else (a // 2, b // 2, c // 2)
    inner = str(_Line(axis, a, b, 1))
    text = f"{axis}*{inner if inner == axis else f'({inner})'}"
    if c:
        text = f"({text} {'+' if c > 0 else '-'} {abs(c)})"
    yield f"{text} // 2" if halved else text


def _sum(lines: Sequence[_Line], base: Sizes, found: int) -> str:
    plain = [_Line(line.axis, line.factor, line.offset % line.divisor, line.divisor) for line in lines]
    rest = found - sum(line.at(base[line.axis]) for line in plain)
    text = " + ".join(map(str, plain))
    return text if not rest else f"{text} {'+' if rest > 0 else '-'} {abs(rest)}"


def _product(seen: Mapping[str, Seen], base: Sizes, found: int) -> str | None:
    factors, value = list[str](), 1
    for axis, sizes in seen.items():
        common = math.gcd(*sizes.values())
        line = _Line.through(axis, {n: size // common for n, size in sizes.items()} if common else sizes)
        if line is None:
            return None
        factors.append(str(line) if str(line) == axis else f"({line})")
        value *= line.at(base[axis])
    if not value or found % value:
        return None
    return " * ".join([*([str(found // value)] if found != value else []), *factors])
