"""Explanations of a wrong result by its origin: the oracle at other arguments, or without a term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from jax.extend import core

from parity_tests.harness.diagnosis.explanations import Family
from parity_tests.harness.diagnosis.fit import SIMPLE_NUMBERS, Explanation, as_simple_number, scale_interval
from parity_tests.harness.diagnosis.one_mistake import mistakes, outcomes
from parity_tests.harness.findings import Comparison
from parity_tests.harness.numbers.formats import PRECISIONS, Precision
from parity_tests.harness.oracle.addends import Term, addends
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.trial.trial import Arrays, Trial

EVALUATIONS = 16  # of the oracle at other arguments, for one wrong result
_SIGNS = 8  # entries of which a quarter at least has either sign, if rounding is what is wrong


@dataclass
class WhatIf:
    """A wrong result of the map `name` at the arguments `args`, and explanations of it."""

    trial: Trial
    wrong: Comparison
    name: str
    args: Arrays
    evaluations: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.map = self.trial.oracle.map(self.name)
        self.labels = [slot.label for slot in self.map.arguments]
        self.count = len(self.trial.oracle.inputs)
        self.index = [slot.label for slot in self.map.results].index(self.wrong.label)

    def families(self, findings: Sequence[Comparison]) -> Iterator[Family]:
        """Explanations, the simplest first; each family is made only when those before it have not fitted."""
        yield self.itself()
        yield self.without_an_argument()
        yield self.of_the_other_example(findings)
        yield self.at_other_arguments()
        yield from self.without_a_term()
        yield self.times_an_argument()
        yield self.with_a_mistake()

    def complex_families(self, findings: Sequence[Comparison]) -> Iterator[Family]:
        """Yield explanations of complex values, the simplest first, as `families` does for real ones."""
        yield self.conjugated()
        yield self.itself()
        yield self.without_an_argument()
        yield self.of_the_other_example(findings)
        yield self._at({f"{label} conjugated": {i: np.conj(x)} for i, label, x in self._complex_arguments()})

    def _complex_arguments(self) -> Iterator[tuple[int, str, np.ndarray]]:
        for i, (label, x) in enumerate(zip(self.labels, self.args, strict=True)):
            if x is not None and np.iscomplexobj(x):
                yield i, label, x

    def conjugated(self) -> Family:
        """The conjugate of the oracle's; or what JAX has in its place: a VJP there is the transpose."""
        label, wrong = self.wrong.label, self.wrong
        family = [Explanation(f"{label} = conj(oracle)", np.conj(wrong.oracle), wrong.bound)]
        changes = {i: np.conj(x) for i, _, x in self._complex_arguments() if self.map.arguments[i].conjugated}
        transposed = self.truth(self._replaced(changes)) if changes else None
        if transposed is not None:
            value = np.conj(transposed.value) if transposed.slot.conjugated else transposed.value
            text = f"{label} = the VJP without conjugates, the transpose where PyTorch has the adjoint"
            family.append(Explanation(text, value, transposed.bound))
        return family

    def _compared(self, x: np.ndarray) -> np.ndarray:
        return self.trial.oracle.compared(self.name, self.map.results[self.index].like, x)

    def truth(self, args: Arrays, precision: Precision | None = None) -> Truth | None:
        """The oracle's result at other arguments; None if it cannot be had, or if there were enough."""
        if precision is None and self.evaluations == EVALUATIONS:
            return None
        self.evaluations += 1
        try:
            results = self.trial.oracle.ask(self.name, args, precision or self.trial.precision)
        except Exception:  # of a formula of the spec's, at arguments that nobody has asked it for: it explains nothing
            return None
        truth = results[self.index]
        return replace(truth, value=self._compared(truth.value), bound=self._compared(truth.bound))

    def _replaced(self, changes: Mapping[int, np.ndarray]) -> list[np.ndarray | None]:
        return [changes.get(i, x) for i, x in enumerate(self.args)]

    def _called(self, i: int) -> str:
        """Return the name of an argument in words."""
        if self.name == "vjp" and i >= self.count:
            return f"the cotangent of {self.trial.oracle.outputs[i - self.count]}"
        if self.name == "jvp" and i >= self.count:
            return f"the tangent of {self.trial.oracle.inputs[i - self.count]}"
        return self.labels[i]

    # An argument, or an output, as it is, or as a factor.

    def _broadcast(self) -> Iterator[tuple[str, np.ndarray]]:
        """Arguments and outputs in the shape of the result, if need be along its first or last axis, or everywhere."""
        shape = self.wrong.oracle.shape
        named = [(label, x) for label, x in zip(self.labels, self.args, strict=True) if x is not None]
        if self.name != "forward":
            named += [(y.label, y.value) for y in self.trial.truth("forward", self.args[: self.count])]
        for label, x in named:
            if x.shape == shape:
                yield label, x
            elif not x.ndim:
                yield label, np.broadcast_to(x, shape)
            elif x.ndim and x.shape == shape[:-1]:
                yield f"{label}[..., None]", np.broadcast_to(x[..., None], shape)
            elif x.ndim and x.shape == shape[1:]:
                yield f"{label}[None]", np.broadcast_to(x, shape)

    def _saturating(self) -> Iterator[tuple[str, np.ndarray]]:
        """The factors that the derivatives of sigmoid and tanh have, of outputs in the shape of the result."""
        for y in self.trial.truth("forward", self.args[: self.count]) if self.name != "forward" else ():
            if y.value.shape == self.wrong.oracle.shape:
                yield f"(1 - {y.label})", 1 - y.value
                yield f"(1 - {y.label}²)", 1 - y.value**2

    def itself(self) -> Family:
        """Explain by an argument that is passed through, such as the cotangent."""
        family, rounding = [], 4 * self.trial.precision.u
        for label, x in self._broadcast():
            for sign, c in (("", 1.0), ("-", -1.0)):
                family.append(Explanation(f"{self.wrong.label} = {sign}{label}", c * x, rounding * np.abs(x)))
        return family

    def times_an_argument(self) -> Family:
        """Explain by a factor too many or missing, in the result or in one of its terms."""
        label, oracle, bound, family = self.wrong.label, self.wrong.oracle, self.wrong.bound, []
        with np.errstate(all="ignore"):
            for name, x in (*self._broadcast(), *self._saturating()):
                for text, ratio in ((f"* {name}", x), (f"/ {name}", 1 / x)):
                    if np.isfinite(ratio).all():
                        allowed = 2 * bound * np.abs(ratio)
                        family.append(Explanation(f"{label} = oracle {text}", oracle * ratio, allowed))
                for text, c in (("+", 1.0), ("-", -1.0)):
                    family.append(Explanation(f"{label} = oracle {text} {name}", oracle + c * x, bound))
        return family

    # An argument left out, or a term.

    def without_an_argument(self) -> Family:
        """A cotangent, a tangent that is ignored, or whose part has the wrong sign, or a wrong factor."""
        family, parts = [], {}
        for i, x in enumerate(self.args):
            if i < self.count or x is None:
                continue
            without = self.truth(self._replaced({i: np.zeros(x.shape)}))
            if without is None:
                return []
            value, bound = self.wrong.oracle - without.value, self.wrong.bound + without.bound
            if (np.abs(without.value) <= without.bound).all() or (np.abs(value) <= bound).all():
                continue  # the result comes from this argument alone, or not at all
            parts[i] = value, bound
            texts = (f"ignores {self._called(i)}", f"the part that comes from {self._called(i)}")
            family += self._changed(*texts, value, bound)
        outermost = [i for i in parts if i >= self.map.base]
        if len(outermost) > 2:
            for i in outermost:  # the map is linear in these together
                others = [parts[j] for j in outermost if j != i]
                value, bound = self.wrong.oracle - sum(x for x, _ in others), sum(e for _, e in others)
                text = f"{self.wrong.label} has no part but that which comes from {self._called(i)}"
                family.append(Explanation(text, value, bound))
        return family

    def _changed(self, missing: str, part: str, term: np.ndarray, bound: np.ndarray | float) -> Family:
        """The oracle's with one of its terms times another number, which may be 0."""
        label, oracle = self.wrong.label, self.wrong.oracle
        interval = scale_interval(self.wrong.candidate - oracle, bound, term, own=self.wrong.bound)
        number = None if interval is None else as_simple_number(interval[0] + 1, interval[1] + 1)
        if number is None or not number[2]:
            return []
        c, text, _ = number
        if c == 0:
            return [Explanation(f"{label} {missing}", oracle - term, bound)]
        text = f"{label} has {part} with the wrong sign" if c == -1 else f"{label} has {text} times {part}"
        return [Explanation(text, oracle + (c - 1) * term, (1 + abs(c)) * bound, choices=SIMPLE_NUMBERS)]

    def without_a_term(self) -> Iterator[Family]:
        """One of the terms that the oracle's formula adds up is missing, or has the wrong sign; or two are missing."""
        terms = self._terms()
        label, bound = self.wrong.label, self.wrong.bound
        if len(terms) < 2:
            return
        yield [
            explanation
            for term in terms
            for explanation in self._changed(f"lacks {_named(term)}", _named(term), term.value, bound)
        ]
        if len(terms) > 2:
            yield [
                Explanation(f"{label} lacks {_named(x)} and {_named(y)}", self.wrong.oracle - x.value - y.value, bound)
                for x, y in combinations(terms, 2)
            ]

    def _terms(self) -> list[Term]:
        program = self._program()
        if program is None:
            return []
        closed, arrays, labels, named, place = program
        terms = [
            replace(term, value=self._compared(term.value)) for term in addends(closed, arrays, labels, named)[place]
        ]
        return [term for term in terms if (np.abs(term.value) > self.wrong.bound).any()]

    def _program(self) -> tuple[core.ClosedJaxpr, list[np.ndarray], list[str], list[Term], int] | None:
        """The oracle's program, its arguments with their labels, the outputs by name, and the place of the result."""
        closed, zero = self.trial.oracle.traced(self.name, self.args, False)
        if zero[self.index]:
            return None
        present = [(x, label) for x, label in zip(self.args, self.labels, strict=True) if x is not None]
        named = [Term(y.label, y.value) for y in self.trial.truth("forward", self.args[: self.count])]
        place = self.index - sum(zero[: self.index])
        return closed, [x for x, _ in present], [label for _, label in present], named, place

    # A mistake in one equation.

    def with_a_mistake(self) -> Family:
        """The oracle's formula with an operation left out, another axis, or another sign; each value once.

        Only of values and first derivatives, which a person writes, and only where a check has changed nothing: what
        else fails does so for the same reason.
        """
        written = self.name in ("forward", "vjp", "jvp") and not self.wrong.circumstance
        program = self._program() if written else None
        if program is None:
            return []
        closed, arrays, labels, named, place = program
        family: Family = []
        found = mistakes(closed, arrays, labels, named)
        for mistake, (value, bound) in outcomes(closed, arrays, found, place, self.trial.precision):
            value, bound = self._compared(value), self._compared(bound)
            known = [self.wrong.oracle, *(explanation.value for explanation in family)]
            if not any((np.abs(value - x) <= bound + self.wrong.bound).all() for x in known):
                family.append(Explanation(f"{self.wrong.label} = the oracle's {mistake.text}", value, bound))
        return family

    # Other arguments.

    def of_the_other_example(self, findings: Sequence[Comparison]) -> Family:
        """The oracle's where some arguments are those of another call in the same check: a stale value."""
        others: dict[int, np.ndarray] = {}
        for finding in findings:
            if finding.call is None or finding.call[0] != self.name:
                continue
            for i, (mine, x) in enumerate(zip(self.args, finding.call[1], strict=True)):
                if mine is not None and x is not None and not np.array_equal(mine, x):
                    others.setdefault(i, x)
        primals, rest = ([i for i in others if (i < self.count) == flag] for flag in (True, False))
        choices = {tuple(some): None for some in (*((i,) for i in others), primals, rest, others) if some}
        return self._at(
            {
                " and ".join(self.labels[i] for i in some) + " of another call": {i: others[i] for i in some}
                for some in choices
            }
        )

    def _at(self, variants: Mapping[str, Mapping[int, np.ndarray]]) -> Family:
        """Explain by the oracle at other arguments; a variant that changes nothing is not mentioned."""
        family: Family = []
        for text, changes in variants.items():
            truth = self.truth(self._replaced(changes))
            if truth is not None and not any(np.array_equal(truth.value, known.value) for known in family):
                text = f"{self.wrong.label} = the oracle's with {text}"
                family.append(Explanation(text, truth.value, truth.bound))
        return family

    def at_other_arguments(self) -> Family:
        """The oracle's with cotangents of 1, of one sign, clamped, or in another memory order; with two swapped."""
        present = {i: x for i, x in enumerate(self.args) if x is not None}
        directions = {i: x for i, x in present.items() if i >= self.count}
        variants: dict[str, dict[int, np.ndarray]] = {}
        if self.name in ("vjp", "jvp"):
            variants |= {f"{self.labels[i]} = 1": {i: np.ones(x.shape)} for i, x in directions.items()}
            every = " and ".join(f"{self.labels[i]} = 1" for i in directions)
            variants[every] = {i: np.ones(x.shape) for i, x in directions.items()}
        for i, j in combinations(present, 2):
            if (i < self.count) == (j < self.count) and present[i].shape == present[j].shape:
                variants[f"{self.labels[i]} and {self.labels[j]} swapped"] = {i: present[j], j: present[i]}
        for i, x in directions.items():
            label = self.labels[i]
            variants[f"|{label}| for {label}"] = {i: np.abs(x)}
            variants[f"{label} clamped to [-1, 1]"] = {i: np.clip(x, -1, 1)}
        for i, x in (directions | present).items():
            if x.ndim < 2 or min(x.shape[-2:]) < 2:
                continue
            n, m = x.shape[-2:]
            how = "transposed" if n == m else "transposed, then reshaped"
            variants[f"{self.labels[i]} {how}"] = {i: np.swapaxes(x, -1, -2).reshape(x.shape)}
            if n != m:
                swapped = np.swapaxes(x.reshape(*x.shape[:-2], m, n), -1, -2)
                variants[f"{self.labels[i]} reshaped, then transposed"] = {i: swapped}
        return self._at(variants)

    # Another format.

    def in_lower_precision(self) -> str | None:
        """True if the result is right to the rounding of a narrower format, and off by as much as that everywhere.

        That all entries are numbers of the format shows it. Without that only float32 has errors so small that hardly
        anything else makes them, and then of either sign.
        """
        wrong = self.wrong
        significant = np.isfinite(wrong.bound) & (np.abs(wrong.oracle) > wrong.bound)
        if np.count_nonzero(significant & wrong.wrong) < max(3, 0.9 * np.count_nonzero(significant)):
            return None
        off = ((wrong.candidate - wrong.oracle)[significant]) / wrong.oracle[significant]
        for precision in (PRECISIONS[name] for name in ("bfloat16", "float16", "float32")):
            if precision.u <= self.trial.precision.u:
                continue
            truth = self.truth(self.args, precision)
            if truth is None or not (wrong.error <= wrong.bound + truth.bound)[significant].all():
                continue
            numbers = wrong.candidate[significant]
            if np.array_equal(precision.rounded(numbers), numbers) and len(np.unique(numbers)) > 2:
                text = f"right to {precision.name}'s rounding, and all its entries are {precision.name} numbers"
                return f"{wrong.label} is {text}"
            for label, x in self._broadcast():
                if _is_rounded(wrong.candidate[significant], x[significant], precision, self.trial.precision):
                    text = f"right to {precision.name}'s rounding, and all its entries are {precision.name} numbers"
                    return f"{wrong.label} is {text} times {label}"
            small = precision.u_acc == precision.u and precision.u / 16 < float(np.median(np.abs(off)))
            if small and len(off) >= _SIGNS and 1 / 4 <= float((off > 0).mean()) <= 3 / 4:
                return f"{wrong.label} is right to {precision.name}'s rounding: computed at lower precision?"
        return None


def _is_rounded(x: np.ndarray, factor: np.ndarray, narrow: Precision, own: Precision) -> bool:
    """Whether numbers of a format are a factor times numbers of a narrower one, of which there are more than two."""
    with np.errstate(all="ignore"):
        ratio = x / factor
        near = np.abs(narrow.rounded(ratio) - ratio) <= 4 * own.u * np.abs(ratio)
    return bool(near.all()) and own.u < narrow.u**2 and len(np.unique(narrow.rounded(ratio))) > 2


def _named(term: Term) -> str:
    legible = any(character.isalpha() for character in term.text)
    return f"the term {term.text}" if legible else "one of the terms that the oracle adds up"
