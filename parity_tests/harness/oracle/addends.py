"""The terms that a map of the oracle adds up, read off its jaxpr: what a formula with a term missing has lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from jax.extend import core

from parity_tests.harness.language.interpret import Domain, interpret
from parity_tests.harness.language.spelled_out import as_sum
from parity_tests.harness.language.steps import Step
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.primitives.registry import Kind, has
from parity_tests.harness.rounding.bounds import Bounds
from parity_tests.harness.rounding.steps import Step as RoundingStep

_MOST = 8  # terms of one value; of a sum that has more, the longer side is taken as a whole
_LONGEST = 60  # characters of a term's formula
_SAME_TEXT = Kind.MOVES | Kind.KEEPS_SIZE  # a formula that is linear and of this kind is called as its operand is
_SHORT = {"dot_general": "dot", "reduce_sum": "sum"}


@dataclass(frozen=True)
class Term:
    """One term: its formula in the jaxpr's own primitives, its value, and the names of the arrays it is made of.

    An operand whose formula is too long is written as a function of these names.
    """

    text: str
    value: np.ndarray
    of: tuple[str, ...] = ()


def addends(
    closed: core.ClosedJaxpr, args: Sequence[np.ndarray], labels: Sequence[str], named: Sequence[Term] = ()
) -> list[list[Term]]:
    """The terms of each output of a jaxpr at these arguments, which are called by their labels.

    Sums are followed through whatever is linear: products with another factor, contractions, rearrangements, calls.
    A value that comes up again, such as an output of the operator in its derivative, is called as it is `named`.
    A term that comes up twice, as that of x * x does, is one; others of one output whose texts are the same are
    numbered.
    """
    arguments = [[Term(label, np.asarray(x), (label,))] for label, x in zip(labels, args, strict=True)]
    with np.errstate(all="ignore"):
        found = interpret(closed, arguments, _Terms(named))
    return [_numbered(_once(terms)) for terms in found]


def formulas(
    closed: core.ClosedJaxpr, args: Sequence[np.ndarray], labels: Sequence[str], named: Sequence[Term] = ()
) -> dict[int, tuple[str, list[str]]]:
    """Return for each equation, by its identity, its formula and those of its operands, as `addends` writes them."""
    arguments = [[Term(label, np.asarray(x), (label,))] for label, x in zip(labels, args, strict=True)]
    domain = _Formulas(named)
    with np.errstate(all="ignore"):
        interpret(closed, arguments, domain)
    return domain.found


def _once(terms: list[Term]) -> list[Term]:
    """The terms, those of the same arrays and with the same numbers as one term: x * y is y * x."""
    found: list[Term] = []
    for term in terms:
        same = [i for i, x in enumerate(found) if {*x.of} == {*term.of} and np.array_equal(x.value, term.value)]
        if same:
            found[same[0]] = replace(term, value=found[same[0]].value + term.value)
        else:
            found.append(term)
    return found


def _numbered(terms: list[Term]) -> list[Term]:
    count = Counter(term.text for term in terms)
    seen = Counter[str]()
    for i, term in enumerate(terms):
        seen[term.text] += 1
        if count[term.text] > 1:
            terms[i] = replace(term, text=f"{term.text} [{seen[term.text]}]")
    return terms


class _Terms(Domain[list[Term], Step]):
    """The terms that each number is a sum of; a number that is `named` has its name."""

    def __init__(self, named: Sequence[Term]) -> None:
        self._named = named

    def constant(self, x: Any) -> list[Term]:
        """A constant, by its digits if it is a single number."""
        value = np.asarray(x)
        number = value.ndim == 0 and value.dtype.kind != "V"  # the tangent of an integer is none
        return [Term(f"{value.item():.4g}" if number else "constant", value)]

    def run(self, step: Step, operands: list[list[Term]], known: Mapping[core.Var, list[Term]]) -> list[list[Term]]:
        """The terms of the results of an equation of whatever kind; a loop is taken as a whole."""
        inner = step.inner or as_sum(step.eqn)
        found = self.apply(step, operands) if inner is None else interpret(inner, operands, self)
        return [_by_name(terms, self._named) for terms in found]

    def apply(self, step: Step, operands: list[list[Term]]) -> list[list[Term]]:
        """The terms of the results of an equation that is no call."""
        name, eqn = step.name, step.eqn
        if has(name, Kind.ADDS):
            first, second = operands
            shape = np.broadcast_shapes(*(np.shape(x.value) for x in (first[0], second[0])))
            minus = [replace(x, text=f"-{x.text}", value=-x.value) for x in second] if name == "sub" else second
            sides = [[replace(x, value=np.broadcast_to(x.value, shape)) for x in side] for side in (first, minus)]
            while len(sides[0]) + len(sides[1]) > _MOST:
                longer = int(len(sides[1]) > len(sides[0]))
                sides[longer] = [_whole(sides[longer])]
            return [[term for terms in sides for term in terms]]
        if has(name, Kind.LINEAR):
            return [[_evaluated(eqn, [x])[0] for x in operands[0]]]
        if has(name, Kind.BILINEAR) and len(operands[0]) * len(operands[1]) <= _MOST:
            return [[_evaluated(eqn, pair)[0] for pair in product(*operands)]]
        if name == "div":
            return [[_evaluated(eqn, [x, _whole(operands[1])])[0] for x in operands[0]]]
        return [[term] for term in _evaluated(eqn, [_whole(x) for x in operands])]


class _Formulas(_Terms):
    """The formulas of all equations, sums written as sums."""

    def __init__(self, named: Sequence[Term]) -> None:
        super().__init__(named)
        self.found: dict[int, tuple[str, list[str]]] = {}

    def run(self, step: Step, operands: list[list[Term]], known: Mapping[core.Var, list[Term]]) -> list[list[Term]]:
        """The formulas of the results of an equation, each of them one term."""
        whole = [[_whole(terms)] for terms in operands]
        results = [[_whole(terms)] for terms in super().run(step, whole, known)]
        if len(results) == 1:
            self.found[id(step.eqn)] = results[0][0].text, [terms[0].text for terms in whole]
        return results


def _by_name(terms: list[Term], named: Sequence[Term]) -> list[Term]:
    if len(terms) > 1:
        return terms
    (term,) = terms
    if term.value.size <= 1 or term.value.dtype.kind == "V":  # the tangent of integers is none
        return terms
    names = [known.text for known in named if np.array_equal(term.value, known.value)]
    return [Term(names[0], term.value, (names[0],))] if names else terms


def _whole(terms: list[Term]) -> Term:
    if len(terms) == 1:
        return terms[0]
    text, of = " + ".join(x.text for x in terms), _made_of(terms)
    return Term(f"({text})" if len(text) <= _LONGEST else _in_short(of), np.asarray(sum(x.value for x in terms)), of)


def _made_of(terms: Sequence[Term]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for term in terms for name in term.of))


def _in_short(names: Sequence[str]) -> str:
    return f"f({', '.join(names)})" if names else "constant"


def _evaluated(eqn, operands: Sequence[Term]) -> list[Term]:
    results = Bounds(FLOAT64).run(RoundingStep.of(eqn), [(x.value, np.zeros(np.shape(x.value))) for x in operands], {})
    texts = [x.text for x in operands]
    text = _text(eqn.primitive.name, texts)
    if len(text) > _LONGEST:
        short = [x.text if len(x.text) <= _LONGEST / 4 else _in_short(x.of) for x in operands]
        text = _text(eqn.primitive.name, short)
    return [Term(text, y, _made_of(operands)) for y, _ in results]


def _text(name: str, texts: list[str]) -> str:
    if name == "neg":
        return f"-{texts[0]}"
    if has(name, Kind.LINEAR) and has(name, _SAME_TEXT):
        return texts[0]
    if name == "mul":
        return " * ".join(x for x in texts if x != "1") or "1"
    return f"{_SHORT.get(name, name)}({', '.join(texts)})"
